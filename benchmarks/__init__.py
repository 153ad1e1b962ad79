"""Benchmarks: one script a question. Each has `measure()` (named numbers from one run) and prints a table when run."""
