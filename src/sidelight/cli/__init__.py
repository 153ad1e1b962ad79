"""The command line: `sidelight demo`, `plan`, `run`, `report` and `ledger`."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

#: The variable in which a shell asks for completions: `sidelight completion SHELL` writes it into its script.
COMPLETION: Final = "_SIDELIGHT_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status: 0 fine, 1 refused, 2 a mistake of the user."""
    from sidelight.cli.app import app

    if COMPLETION in os.environ:  # the shell requests completions
        import_module("typer.completion").completion_init()
    for stream in (sys.stdout, sys.stderr):  # a letter that a terminal does not have must not cost a paid answer
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(args=None if arguments is None else list(arguments), prog_name="sidelight")
