"""Targets of the source as a reader finds it: its size, its names, and what one release passes."""

from __future__ import annotations

import os

from benchmarks import source_size
from benchmarks.peers import behind
from benchmarks.target import Target

#: `make test` takes longer than a group may: it is timed where somebody asks for it.
_ASKED = "" if os.environ.get("SIDELIGHT_TEST_MINUTES") else "set SIDELIGHT_TEST_MINUTES=1 to run make test here"
TARGETS = [
    Target("lines", source_size.measure, "lines", "<=", 76_000),
    Target("files", source_size.measure, "files", "<=", 400),
    Target("class-names-twice", source_size.measure, "class names twice", "<=", 0),
    Target("files-of-a-grouped-mean", source_size.measure, "files of a grouped mean", "<=", 45),
    Target("files-of-a-fit", source_size.measure, "files of a fit", "<=", 42),
    Target("parameters-of-the-largest-query", source_size.measure, "parameters of the largest query", "<=", 14),
    Target("test-minutes", source_size.measure_minutes, "minutes", "<=", 10, skipped=_ASKED),
    Target("behind-in-accuracy", behind.measure, "accuracy", "<=", 0),
    Target("behind-in-time", behind.measure, "time", "<=", 2),
    Target("reference-bits-changed", source_size.measure_bits, "changed", "<=", 0),
]
