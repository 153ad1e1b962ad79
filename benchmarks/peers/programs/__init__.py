"""Programs, one a library, each run by `benchmarks.peers.environments` in that library's own environment.

They import their library, NumPy and `trial`; all but `with_sidelight` never import us.
"""
