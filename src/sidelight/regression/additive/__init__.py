"""Additive models: one curve per number, one table per category, by lines first and noisy gradient sums of curves."""
