"""Comparison with other libraries: their environments, programs that run in these, and the page."""
