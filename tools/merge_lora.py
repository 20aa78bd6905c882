"""Merge a LoRA adapter into its base model: `python tools/merge_lora.py ADAPTER OUT [--base FOLDER_OR_HUB_ID]`.

ADAPTER is the `model/` folder of a checkpoint of a LoRA run, or any folder in peft's format. OUT becomes an ordinary
model folder, which transformers, vLLM and `model.path` read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import needs_mmrl  # noqa: F401

from mmrl.cli import print_error
from mmrl.errors import MmrlError
from mmrl.models.merge import merge_lora


def main() -> int:
    parser = argparse.ArgumentParser(description="Merge a LoRA adapter into its base model.")
    parser.add_argument("adapter", type=Path, metavar="ADAPTER", help="folder of the adapter")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    parser.add_argument("--base", help="the base model; default: the one that the adapter names")
    arguments = parser.parse_args()
    try:
        merge_lora(arguments.base, arguments.adapter, arguments.out)
    except MmrlError as error:
        print_error(str(error))
        return 2
    print(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
