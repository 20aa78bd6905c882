"""Reward models that are trained: small heads on frozen encoders (`mmrl train-reward`)."""
