"""Private linear models: noisy descent and objective perturbation, their plans, rows, losses and certificates."""
