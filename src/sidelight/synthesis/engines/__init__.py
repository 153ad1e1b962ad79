"""Algorithms that release a distribution: plans, rounds, and how many of them."""
