"""Many runs at once in floating point, with a seedable NumPy generator: for experiments on generated or public data.

Not private: every name says `simulate`, true gains are passed in, and nothing of a deployment comes from here.
"""

from benchmarks.baselines.experts.adabatch import SimulatedBatches, simulate_adabatch
from benchmarks.baselines.experts.drifting import simulate_rotating_gains
from benchmarks.baselines.experts.ftpl import SimulatedRuns, simulate_ftpl
from benchmarks.baselines.experts.meta import SimulatedMeta, simulate_meta
from benchmarks.baselines.experts.tree import simulate_tree, simulate_tree_noise

__all__ = [
    "SimulatedBatches",
    "SimulatedMeta",
    "SimulatedRuns",
    "simulate_adabatch",
    "simulate_ftpl",
    "simulate_meta",
    "simulate_rotating_gains",
    "simulate_tree",
    "simulate_tree_noise",
]
