"""Experts: what learning under local privacy gains, how much batching hides, speed, and a service that is killed.

On New York the first target is missed, and not by chance: even without any noise the best single regression gains only
1.55 times RW-FTPL there. The script prints what noise by each hospital's own size would change.
"""

from __future__ import annotations

from benchmarks import (
    experts_amplification,
    experts_drift,
    experts_hospitals,
    experts_kills,
    experts_service,
    experts_speed,
)
from benchmarks.target import Target

TARGETS = [
    Target("hospital-meta-vs-ftpl-mu-1", experts_hospitals.measure, "hospital_meta_vs_ftpl", ">=", 1.5),
    Target("drift-meta-vs-ftpl-mu-1", experts_drift.measure, "drift_meta_vs_ftpl", ">=", 2),
    Target("amplification-t-1e4-epsilon-4", experts_amplification.measure, "amplification", ">=", 8),
    Target("simulate-ftpl-1000x10000x25-seconds", experts_speed.measure, "ftpl_seconds", "<=", 60),
    Target("simulate-adabatch-1000x10000x25-seconds", experts_speed.measure, "adabatch_seconds", "<=", 60),
    Target("service-200-clients-reports-per-second", experts_service.measure, "reports_per_second", ">=", 500),
    Target("service-50-kills-failures", experts_kills.measure, "failures", "<=", 0),
]
