"""mmrl: reinforcement-learning fine-tuning of vision-language models."""

__version__ = "0.1.0"
