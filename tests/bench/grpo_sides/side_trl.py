"""TRL's side of bench_trl.py, run by the Python that has TRL: `side_trl.py SETTINGS.json RESULT.json`.

SETTINGS names the model folder, the rows ({"images": [paths], "question": text}) and the limits that both sides share.
RESULT gets the seconds of every step, from the end of the one before to its own end, and the process's peak memory.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import torch
import transformers
import trl

from datasets import Dataset, Features, Image, List, Value


class StepTimes(transformers.TrainerCallback):
    """Notes when each optimizer step ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, args, state, control, **_) -> None:
        self.ends.append(time.perf_counter())


def lowercase_share(completions, **_) -> list[float]:
    """The reward of both sides: cheap, and different for different completions."""
    texts = [turns[0]["content"] for turns in completions]
    return [sum(c.islower() for c in text) / max(1, len(text)) for text in texts]


def rows_of(settings: dict) -> Dataset:
    rows = [
        {"prompt": [{"role": "user", "content": row["question"]}], "images": row["images"]} for row in settings["rows"]
    ]
    turn = {"role": Value("string"), "content": Value("string")}
    return Dataset.from_list(rows, features=Features({"prompt": List(turn), "images": List(Image())}))


def arguments_of(settings: dict, folder: Path) -> trl.GRPOConfig:
    return trl.GRPOConfig(
        output_dir=str(folder),
        max_steps=settings["steps"],
        per_device_train_batch_size=settings["prompts"] * settings["group_size"],
        gradient_accumulation_steps=1,
        num_generations=settings["group_size"],
        max_completion_length=settings["max_new_tokens"],
        temperature=1.0,
        top_k=0,
        beta=0.0,
        num_iterations=1,
        learning_rate=settings["lr"],
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=1.0,
        optim="adamw_torch",
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        disable_tqdm=True,
        generation_kwargs={"suppress_tokens": settings["banned_ids"]},
    )


def main(settings_file: str, result_file: str) -> None:
    torch.set_num_threads(1)
    settings = json.loads(Path(settings_file).read_text())
    model = transformers.AutoModelForImageTextToText.from_pretrained(
        settings["model"], dtype=torch.float32, attn_implementation="sdpa"
    )
    times = StepTimes()
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=lowercase_share,
        args=arguments_of(settings, Path(result_file).parent / "trl"),
        train_dataset=rows_of(settings),
        processing_class=transformers.AutoProcessor.from_pretrained(settings["model"]),
        callbacks=[times],
    )
    trainer.train()
    logs = [line for line in trainer.state.log_history if "completions/mean_length" in line]
    result = {
        "seconds": [b - a for a, b in itertools.pairwise(times.ends)],
        "mean_length": sum(line["completions/mean_length"] for line in logs) / len(logs),
        "version": f"trl {trl.__version__}, transformers {transformers.__version__}, torch {torch.__version__}",
    }
    Path(result_file).write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
