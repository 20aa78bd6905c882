"""Where metrics and held-out generations go beside the run folder: TensorBoard, W&B, trackio, MLflow, side by side.

A tracker is a class with four methods and its line in TRACKERS. Each continues the record of a run that is resumed.
"""

from __future__ import annotations

import json
import pkgutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from mmrl.errors import ConfigError

COLUMNS = ("task", "sample_id", "completion", "answer", "reward")


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of a run.

    record_id: stays the same when the run is resumed. next_step: step that a resumed run continues with; None: new.
    config: every key of the run, nested.
    """

    folder: Path
    project: str
    name: str
    record_id: str
    config: Mapping[str, Any]
    next_step: int | None = None


@dataclass(frozen=True)
class Generation:
    """A held-out completion as it is shown: a row with COLUMNS, and its media as the model saw them, if it has any."""

    row: Mapping[str, Any]
    picture: Image.Image | None

    def cells(self) -> list[Any]:
        return [cell if isinstance(cell := self.row[name], int | float) else str(cell) for name in COLUMNS]


class Tracker(Protocol):
    """One place that metrics go to. `flush` comes before every checkpoint: what it covers is not sent again.

    address: where a person looks the record up, where that is not in the run folder.
    """

    address: str | None

    def scalars(self, step: int, values: Mapping[str, float]) -> None: ...

    def generations(self, step: int, rows: Sequence[Generation]) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in `tensorboard/` of the run folder. A resumed run drops what was written after its checkpoint."""

    address = None

    def __init__(self, run: TrackedRun) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.next_step)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step)

    def generations(self, step: int, rows: Sequence[Generation]) -> None:
        import numpy as np

        lines = [" | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
        for number, generation in enumerate(rows):
            lines.append(" | ".join(str(cell).replace("\n", "<br>").replace("|", "\\|") for cell in generation.cells()))
            if generation.picture is not None:
                pixels_HW3 = np.asarray(generation.picture)
                self._writer.add_image(f"generations/{number}", pixels_HW3, step, dataformats="HWC")
        self._writer.add_text("generations", "\n".join(f"| {line} |" for line in lines), step)

    def flush(self) -> None:
        """TensorBoard keeps rows in memory for minutes; put them into its file."""
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Wandb:
    """Weights & Biases. WANDB_MODE=offline writes into the run folder alone."""

    def __init__(self, run: TrackedRun) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        self._run = wandb.init(
            project=run.project,
            name=run.name,
            id=run.record_id,
            resume="allow",
            dir=str(run.folder),
            config=dict(run.config),
            settings=wandb.Settings(silent=True),  # its summary would bury the closing table
        )
        self.address = None if self._run.offline else self._run.url
        self._run.define_metric("*", step_metric="step")  # repeated steps of a resumed run are told by their number

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"step": step, **values})

    def generations(self, step: int, rows: Sequence[Generation]) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        data: list[Any] = [[*g.cells(), wandb.Image(g.picture) if g.picture is not None else None] for g in rows]
        self._run.log({"step": step, "generations": wandb.Table(columns=[*COLUMNS, "media"], data=data)})

    def flush(self) -> None:
        """It sends by itself."""

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """trackio, local or on a Space (TRACKIO_SPACE_ID)."""

    address = None

    def __init__(self, run: TrackedRun) -> None:
        import trackio  # pyright: ignore[reportMissingImports]

        self._run = trackio.init(
            project=run.project, name=f"{run.name}-{run.record_id}", config=dict(run.config), resume="allow"
        )

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def generations(self, step: int, rows: Sequence[Generation]) -> None:
        import trackio  # pyright: ignore[reportMissingImports]

        data = [[*g.cells(), trackio.Image(g.picture) if g.picture is not None else None] for g in rows]
        self._run.log({"generations": trackio.Table(data=data, columns=[*COLUMNS, "media"])}, step=step)

    def flush(self) -> None:
        """It sends by itself."""

    def close(self) -> None:
        self._run.finish()


class Mlflow:
    """MLflow, at MLFLOW_TRACKING_URI; the project is the experiment."""

    address = None

    def __init__(self, run: TrackedRun) -> None:
        import mlflow  # pyright: ignore[reportMissingImports]

        self._client = mlflow.MlflowClient()
        found = self._client.get_experiment_by_name(run.project)
        experiment = found.experiment_id if found else self._client.create_experiment(run.project)
        tags = {"mmrl.record_id": run.record_id, "mlflow.runName": run.name}
        same = self._client.search_runs([experiment], f"tags.`mmrl.record_id` = '{run.record_id}'")
        self._id = (same[0] if same else self._client.create_run(experiment, tags=tags)).info.run_id
        self._client.log_dict(self._id, dict(run.config), "config.json")

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric  # pyright: ignore[reportMissingImports]

        metrics = [Metric(key.replace(" ", "_"), value, step, step) for key, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def generations(self, step: int, rows: Sequence[Generation]) -> None:
        table = [dict(zip(COLUMNS, generation.cells(), strict=True)) for generation in rows]
        self._client.log_dict(self._id, {"rows": table}, f"generations/{step}/rows.json")
        for number, generation in enumerate(rows):
            if generation.picture is not None:
                self._client.log_image(self._id, generation.picture, f"generations/{step}/{number}.png")

    def flush(self) -> None:
        """It sends at once."""

    def close(self) -> None:
        self._client.set_terminated(self._id)


TRACKERS: dict[str, type[Any]] = {"tensorboard": TensorBoard, "wandb": Wandb, "trackio": Trackio, "mlflow": Mlflow}


# What a tracker's library raises beside Python's own errors.
_OWN_ERRORS = {"wandb": "wandb.errors:Error", "mlflow": "mlflow.exceptions:MlflowException"}


def open_trackers(names: Sequence[str], run: TrackedRun) -> list[Tracker]:
    """Raises ConfigError, naming the tracker, for one that does not start."""
    return [_opened(name, run) for name in names]


def _opened(name: str, run: TrackedRun) -> Tracker:
    own = [pkgutil.resolve_name(_OWN_ERRORS[name])] if name in _OWN_ERRORS else []
    try:
        return TRACKERS[name](run)
    except (OSError, ValueError, RuntimeError, ImportError, *own) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"log.trackers: {name} does not start: {reason}; mend that, or leave {name} out") from error


def login_problem(name: str) -> str | None:
    """Why a tracker would refuse a run for want of credentials; None where nothing is known to be missing."""
    if name != "wandb":
        return None
    import requests
    import wandb  # pyright: ignore[reportMissingImports]

    if wandb.run is None:
        wandb.teardown()  # what an earlier run of this process read of the environment
    settings = wandb.setup().settings
    wandb.teardown()  # what it read of the environment would hold for this process's life
    if settings.mode in ("offline", "disabled", "dryrun"):
        return None
    if settings.api_key or settings.identity_token_file or requests.utils.get_netrc_auth(settings.base_url):
        return None
    return "wandb has no API key; run `wandb login`, or set WANDB_MODE=offline to write into the run folder alone"


def record_id(folder: Path) -> str:
    """The id by which trackers know a run, made when the run folder is new and kept in it."""
    path = folder / "trackers.json"
    if not path.is_file():
        path.write_text(json.dumps({"record_id": uuid.uuid4().hex[:12]}) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))["record_id"]
