"""Noisy descent in a released geometry: linear models from integer sums, exact on the machine."""
