"""Distributions that fit what was released: priors and refits. Post-processing."""
