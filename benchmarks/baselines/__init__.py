"""Baselines: published methods and simulators, for benchmarks only."""
