"""Fuzz a target guided by coverage: `python tests/audits/fuzz_with_atheris.py csv -max_total_time=60`."""

from __future__ import annotations

import sys


def main(name: str, *options: str) -> None:
    """Load sidelight so that its branches are counted, and fuzz until the options say stop."""
    import atheris

    with atheris.instrument_imports(include=["sidelight"]):
        import fuzz_targets

        fuzz_targets.TARGETS[name](b"")  # loads what is loaded late
    atheris.Setup([sys.argv[0], "-max_len=80", "-len_control=0", *options], fuzz_targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
