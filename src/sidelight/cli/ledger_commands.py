"""`sidelight ledger`: the commands that inspect a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sidelight.cli.answers import answered

ledger_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Inspect and verify a ledger.")

Place = Annotated[str, typer.Argument(metavar="LEDGER", help="A file such as budget.db, or a URL.")]
OneScope = Annotated[str | None, typer.Option(help="Only this scope.")]
KeyFile = Annotated[Path | None, typer.Option(help="The file of the key of a ledger that has one.")]


@ledger_app.command()
@answered("ledger show", "sidelight.cli.ledgers:show")
def show(place: Place, *, scope: OneScope = None, key_file: KeyFile = None) -> None:
    """List scopes with spent and remaining budget, and every entry."""


@ledger_app.command()
@answered("ledger verify", "sidelight.cli.ledgers:verify")
def verify(
    place: Place,
    *,
    expect_head: Annotated[str | None, typer.Option(help="A head seen earlier, to detect an older copy.")] = None,
    key_file: KeyFile = None,
) -> None:
    """Recompute the hash chain, the states and the totals."""


@ledger_app.command()
@answered("ledger export", "sidelight.cli.ledgers:export")
def export(
    place: Place,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the JSON lines go.")],
    key_file: KeyFile = None,
) -> None:
    """Write all events as JSON lines."""


@ledger_app.command()
@answered("ledger reap", "sidelight.cli.ledgers:reap")
def reap(place: Place, *, scope: OneScope = None, key_file: KeyFile = None) -> None:
    """Mark unfinished entries as abandoned. Their charges stay."""
