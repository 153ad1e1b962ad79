"""The command line: `sidelight demo`, `plan`, `run`, `report` and `ledger`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status: 0 fine, 1 refused, 2 a mistake of the user."""
    from sidelight.cli.app import app

    app(args=None if arguments is None else list(arguments), prog_name="sidelight")
