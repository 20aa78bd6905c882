"""The statistics that action tokens are scaled by, for LeRobot dataset folders that lack them:

    python datasets/lerobot/prepare.py data/bridge --unscaled 6

Writes meta/action_stats.json into each folder: the 1st and 99th percentile of every dimension over all frames of all
episodes, and a mask. `--unscaled` names dimensions (from 0) that are compared as they are, such as a gripper.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mmrl.config.schema import RobotSection
from mmrl.data.lerobot import ACTION_STATS, open_lerobot
from mmrl.errors import DataError, MmrlError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--unscaled", type=int, nargs="*", default=[], metavar="DIMENSION")
    args = parser.parse_args()
    try:
        for folder in args.folders:
            path = write_stats(folder, unscaled=args.unscaled)
            print(f"{path}: {len(json.loads(path.read_text())['q01'])} dimensions")
    except (MmrlError, OSError) as error:
        sys.exit(f"error: {error}")


def write_stats(folder: Path, *, unscaled: list[int]) -> Path:
    """Write the statistics of a folder's actions and return the path of the file."""
    rows = open_lerobot(folder, split=None, robot=RobotSection())
    actions_NA = np.array([rows.read(number)["answer"] for number in range(len(rows))], float)
    if actions_NA.ndim != 2 or not all(0 <= d < actions_NA.shape[1] for d in unscaled):
        raise DataError(f"{folder}: actions of the shape {actions_NA.shape[1:]} have no dimensions {unscaled}")
    low_A, high_A = np.percentile(actions_NA, [1, 99], axis=0)
    mask = [dimension not in unscaled for dimension in range(actions_NA.shape[1])]
    still = [d for d in np.flatnonzero(low_A == high_A).tolist() if mask[d]]
    if still:
        raise DataError(f"{folder}: dimensions {still} never change, nothing scales them; add them to --unscaled")
    stats: dict[str, Any] = {"q01": low_A.tolist(), "q99": high_A.tolist(), "mask": mask}
    path = folder / ACTION_STATS
    path.write_text(json.dumps(stats) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
