"""Everyday statistics by group.

A statistic of a number takes one path: choose the clipping interval (`clipping`), measure with noise (`measurement`),
read out (`moments`), make the table (`mean_table`, `spread`, `sum`, `summary`). Counts go from `count` to
`count_tables`. Norms, shares and noise levels are fixed before any data is opened (`noise_choice`); estimates,
intervals and shrinkage see released numbers only (summaries proof page).
"""
