"""What the commands write on standard output: tables and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sidelight.accounting import Spent
from sidelight.accounting.remaining import RouteSpent
from sidelight.cli.answers import prints_json


def console() -> Console:
    """Return standard output, or standard error where the former is taken by JSON.

    In a pipe it is wide enough for every table and has no colours.
    """
    error = prints_json()
    probe = Console(highlight=False, stderr=error)
    return probe if probe.is_terminal else Console(highlight=False, stderr=error, width=max(probe.width, 140))


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """Return an empty table; columns named in `numbers` are set flush right."""
    made = Table(header_style="dim", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def plain(value: Any) -> Text:
    """Return a text that is shown as it is: a name from a plan must not be read as markup."""
    return Text(str(value))


def tell(value: Any, *, style: str | None = None) -> None:
    """Print sentences on standard output, unbroken: the terminal wraps them, a pipe gets them whole."""
    console().print(plain(value), style=style, soft_wrap=True)


def show_spending(lines: Sequence[Mapping[str, str]]) -> None:
    """Print what was drawn for a release, in order, with the price of each draw."""
    shown = table("law", "of what", "about", "price of one", "times", numbers=("times",))
    for line in lines:
        parts = (line["law"], line["statistic"], line["over"], line["cost"], line["times"])
        shown.add_row(*(plain(part) for part in parts))
    console().print(shown)
    tell("")


def today() -> str:
    """Return the date, without the time: how long a run took may depend on the data."""
    return datetime.now(UTC).date().isoformat()


def routes_of(spent: Spent) -> list[tuple[str, RouteSpent]]:
    """Name the ways of adding up that this budget has."""
    named = (
        ("Sum of ε", spent.basic),
        ("Sum of μ² (Gaussian)", spent.gdp),
        ("Sum of ρ (zCDP)", spent.zcdp),
        ("Pool of δ", spent.pool),
    )
    return [(name, route) for name, route in named if route is not None]
