"""Data release: a synthetic table that starts from what is known.

The seam between the table side and the engines: `Domain` (domain.py), `Workload` (workload.py), `PrivateMarginals` with
`Protection` (private_marginals.py), a plan whose `claims` are known before the rows (`MarginalPlan` in plan.py, `MWEMPlan`
in mwem.py), a `Prior` (prior.py), and `release_distribution(counts, plan, prior=, space=, source=) -> Fitted` (engine.py).
"""
