"""The analyst server: what kills of workers change, answers before their time, neighbouring tables, and its cost.

`cpu-vs-library` is the processor time of a worker over that of the library on the same file and ledger; up to 80 ms
more count as kept. `prober-sigmas` is how far latencies of prices tell a long release from a short one, beyond chance.
`benchmarks/server_kills.py` prints the number of requests and kills, and takes the seconds.
"""

from __future__ import annotations

from benchmarks import analyst_server, server_kills, server_ledger, server_prober
from benchmarks.target import Target

TARGETS = [
    Target("overspent", server_kills.measure, "overspent", "<=", 0),
    Target("lost", server_kills.measure, "lost", "<=", 0),
    Target("doubled", server_kills.measure, "doubled", "<=", 0),
    Target("early-answers", analyst_server.neighbours, "early", "<=", 0),
    Target("neighbours-told-apart", analyst_server.neighbours, "told_apart", "<=", 0),
    Target("cpu-vs-library", analyst_server.processor_time, "cpu_vs_library", "<=", 1.3),
    Target("prices-a-second", analyst_server.prices, "prices_a_second", ">=", 150),
    Target("charges-a-second-200-scopes", server_ledger.measure, "postgresql_charges_few_scopes", ">=", 100),
    Target("charges-a-second-2000-scopes", server_ledger.measure, "postgresql_charges_many_scopes", ">=", 60),
    Target("prober-sigmas", server_prober.measure, "filled_sigmas", "<=", 5),
    Target("not-our-exception", analyst_server.fuzz, "not_ours", "<=", 0),
]
