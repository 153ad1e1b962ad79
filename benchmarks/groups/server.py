"""The analyst server: what kills of workers change, answers before their time, neighbouring tables, and its cost.

`cpu-vs-library` is the processor time of a worker over that of the library on the same file and ledger; up to 80 ms
more count as kept. The number of requests and kills is in `benchmarks/analyst_server.py`, which prints it.
"""

from __future__ import annotations

from benchmarks import analyst_server
from benchmarks.target import Target

TARGETS = [
    Target("overspent", analyst_server.kills, "overspent", "<=", 0),
    Target("lost", analyst_server.kills, "lost", "<=", 0),
    Target("doubled", analyst_server.kills, "doubled", "<=", 0),
    Target("early-answers", analyst_server.neighbours, "early", "<=", 0),
    Target("neighbours-told-apart", analyst_server.neighbours, "told_apart", "<=", 0),
    Target("cpu-vs-library", analyst_server.processor_time, "cpu_vs_library", "<=", 1.3),
    Target("prices-a-second", analyst_server.prices, "prices_a_second", ">=", 150),
    Target("not-our-exception", analyst_server.fuzz, "not_ours", "<=", 0),
]
