"""Fuzz a target guided by coverage: `python tests/audits/fuzz_with_atheris.py csv -max_total_time=60`."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["sidelight"]):
    import fuzz_targets

    fuzz_targets.TARGETS[sys.argv[1]](b"")  # loads what is loaded late

atheris.Setup([sys.argv[0], "-max_len=80", "-len_control=0", *sys.argv[2:]], fuzz_targets.TARGETS[sys.argv[1]])
atheris.Fuzz()
