"""The command line of `mmrl make-tasks`. Light to import: what it does comes with `mmrl.commands.make_tasks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MAKE_TASKS_EXAMPLES = (
    "mmrl make-tasks image-jigsaw photos jigsaws --grid 3x3 --epochs 4 --val-share 0.1",
    "mmrl make-tasks video-jigsaw clips ordered --pieces 4 --min-seconds 8",
    "mmrl make-tasks document pages transcripts",
    "mmrl make-tasks multiple-choice open.jsonl choices --card llava",
    "mmrl make-tasks composed solved.jsonl pairs --pieces 2",
    "mmrl make-tasks logic-puzzles plan.yaml puzzles --val-share 0.05",
)


def make_tasks(
    kind: Annotated[
        str,
        typer.Argument(
            help="image-jigsaw, video-jigsaw, points-3d, rotation, position, contrastive, clip-order, arrow-of-time, "
            "masked-patch, document, multiple-choice, composed or logic-puzzles"
        ),
    ],
    folder: Annotated[Path, typer.Argument(help="Folder of pictures, clips or documents; for the last three a file")],
    out: Annotated[Path, typer.Argument(help="Folder to write")],
    seed: Annotated[int, typer.Option(min=0, help="Same seed and files, same rows.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Versions of each source, each shuffled anew.")] = 1,
    val_share: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share of the sources for val.jsonl.")] = 0.0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what make-tasks wrote to OUT before.")
    ] = False,
    grid: Annotated[str | None, typer.Option(metavar="ROWSxCOLUMNS", help="Tiles; 3x3 (masked-patch: 4x4).")] = None,
    pieces: Annotated[
        int | None, typer.Option(help="Clips, points, patches, options or questions; 6, 6, 4, 4 and 2 (clip-order: 3).")
    ] = None,
    trim: Annotated[float | None, typer.Option(help="video-jigsaw: share cut off at each end; 0.1.")] = None,
    min_seconds: Annotated[float | None, typer.Option(help="Skip shorter clips; 24 (clip-order: 3).")] = None,
    depth_scale: Annotated[
        float | None, typer.Option(help="points-3d: metres of one unit of whole-number depths; 0.001.")
    ] = None,
    card: Annotated[str | None, typer.Option(help="multiple-choice, composed: card of the rows; easyr1.")] = None,
    renderer: Annotated[
        str | None, typer.Option(metavar="pages|browser", help="document: paper, or HTML in Chromium; pages.")
    ] = None,
) -> None:
    """Make rows with exact answers of pictures, clips, documents or open questions that have no labels."""
    from mmrl.commands.make_tasks import make_tasks_command, parse_grid
    from mmrl.data.make_tasks.make import Request
    from mmrl.data.make_tasks.puzzle import TaskOptions

    options = TaskOptions(
        grid=parse_grid(grid),
        pieces=pieces,
        trim=trim,
        min_seconds=min_seconds,
        depth_scale=depth_scale,
        card=card,
        renderer=renderer,
    )
    request = Request(
        kind, folder, out, options=options, seed=seed, epochs=epochs, val_share=val_share, overwrite=overwrite
    )
    raise typer.Exit(make_tasks_command(request))
