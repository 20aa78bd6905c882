"""Benchmarks: task files, a runner whose stages overlap, numbers that say what they are made of."""
