"""Figures 1 to 6 of "Private Algorithms with Private Predictions" (Amin, Dick, Khodak, Vassilvitskii), made again.

Errors are not to be compared with the published ones at the same epsilon: the authors' code scores every node of the
tree against all records, so nine deciles may cost up to 2.75 times the epsilon that it names. Here epsilon is what is
spent. Data sets that cannot be had have stand-ins, which every table and picture names.
"""
