"""Figures 1 to 6 of "Private Algorithms with Private Predictions", made again with this library."""
