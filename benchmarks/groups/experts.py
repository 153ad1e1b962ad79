"""Experts: what learning under local privacy gains, how much batching hides, speed, and a service that is killed.

`hospital-own-noise` is the total gain of RW-Meta over that of RW-FTPL on the same reports, New York's second half, each
hospital with noise by its own beds, mu = 1; the script also prints the ratio with equal noise, and RW-Meta with
own noise against RW-FTPL with equal noise. `generated-...` is the least such ratio of all generated settings, and of
those that drift with clients of unequal size.
"""

from __future__ import annotations

from benchmarks import (
    experts_amplification,
    experts_drift,
    experts_generated,
    experts_hospitals,
    experts_kills,
    experts_service,
    experts_speed,
)
from benchmarks.target import Target

TARGETS = [
    Target("hospital-own-noise-meta-vs-ftpl-mu-1", experts_hospitals.measure, "own_noise", ">=", 1.3),
    Target("generated-least-meta-vs-ftpl-mu-1", experts_generated.measure, "least", ">=", 1),
    Target(
        "generated-drifting-unequal-meta-vs-ftpl-mu-1", experts_generated.measure, "least_drifting_unequal", ">=", 1.15
    ),
    Target("drift-meta-vs-ftpl-mu-1", experts_drift.measure, "drift_meta_vs_ftpl", ">=", 2),
    Target("amplification-t-1e4-epsilon-4", experts_amplification.measure, "amplification", ">=", 8),
    Target("simulate-ftpl-1000x10000x25-seconds", experts_speed.measure, "ftpl_seconds", "<=", 60),
    Target("simulate-adabatch-1000x10000x25-seconds", experts_speed.measure, "adabatch_seconds", "<=", 60),
    Target("service-200-clients-reports-per-second", experts_service.measure, "reports_per_second", ">=", 500),
    Target("service-50-kills-failures", experts_kills.measure, "failures", "<=", 0),
]
