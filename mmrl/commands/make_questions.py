"""The command line of `mmrl make-questions`. Light to import: what it does comes with `mmrl.data.make_questions`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MAKE_QUESTIONS_EXAMPLES = (
    "mmrl make-questions figures.jsonl questions --generator http://gpu1:8000/v1 --generator-model GLM "
    "--verifier http://gpu2:8000/v1 --verifier-model Qwen",
)


def make_questions(
    figures: Annotated[Path, typer.Argument(help="JSONL with images, caption, and perhaps context and id")],
    out: Annotated[Path, typer.Argument(help="Folder to write; a second call goes on")],
    generator: Annotated[str, typer.Option(help="Server of the model that writes questions, up to /v1.")],
    generator_model: Annotated[str, typer.Option(help="Its name there.")],
    verifier: Annotated[str, typer.Option(help="Server of the model that checks them, up to /v1.")],
    verifier_model: Annotated[str, typer.Option(help="Its name there.")],
    token_env: Annotated[str | None, typer.Option(help="Environment variable of the servers' token.")] = None,
    threshold: Annotated[float, typer.Option(min=0.0, max=1.0, help="Least score of a question that is kept.")] = 0.95,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of the generator; the verifier's is 0.")] = 0.0,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests under way at each server.")] = 16,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = 120.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the order in which letters are dealt out.")] = 0,
) -> None:
    """Have one model write questions about figures and another one check them (MedVLSynther)."""
    from mmrl.data.make_questions import make_questions as make
    from mmrl.scoring.judge.endpoint import Endpoint

    common = {"api_key_env": token_env, "concurrency": concurrency, "timeout_s": timeout, "max_tokens": 4096}
    writes = Endpoint(generator, generator_model, temperature=temperature, **common)
    checks = Endpoint(verifier, verifier_model, **common)
    made = make(figures, out, generator=writes, verifier=checks, threshold=threshold, seed=seed)
    typer.echo(f"{out / 'train.jsonl'}: {made.kept} questions of {made.figures} figures")
    for reason, count in made.reasons.most_common():
        typer.echo(f"  {count} without: {reason}")
    if made.kept < made.figures:
        typer.echo(f"the others: {out / 'rejected.jsonl'}")
    raise typer.Exit(0 if made.kept else 1)
