"""mmrl: reinforcement-learning fine-tuning of vision-language models.

    from mmrl import train, preprocess, check, score

These do what the commands do (see mmrl.api) and are imported when they are asked for, so `import mmrl` stays light.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mmrl.api import check, preprocess, score, train

__version__ = "0.1.0"
__all__ = ["__version__", "check", "preprocess", "score", "train"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from mmrl import api

        return getattr(api, name)
    raise AttributeError(f"module 'mmrl' has no attribute {name!r}")
