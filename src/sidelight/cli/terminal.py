"""Tables and sentences on standard output."""

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
from sidelight.readable import shown_text


def console() -> Console:
    """Return standard output, or standard error where JSON goes to standard output.

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
    """Return a text without markup and control characters: a name from a plan must not be read as such."""
    return Text(shown_text(value))


def tell(value: Any, *, style: str | None = None) -> None:
    """Print sentences on standard output as the lines that they are; the terminal wraps them."""
    console().print(Text(shown_text(value, lines=True)), style=style, soft_wrap=True)


def show_spending(lines: Sequence[Mapping[str, str]]) -> None:
    """Print the draws of a release in order, with their prices."""
    shown = table("law", "of what", "about", "price of one", "times", numbers=("times",))
    for line in lines:
        parts = (line["law"], line["statistic"], line["over"], line["cost"], line["times"])
        shown.add_row(*(plain(part) for part in parts))
    console().print(shown)
    tell("")


def today() -> str:
    """Return the date without the time, because the duration of a run may depend on the data."""
    return datetime.now(UTC).date().isoformat()


def routes_of(spent: Spent) -> list[tuple[str, RouteSpent]]:
    """Return the routes of a budget with their names."""
    named = (
        ("Sum of ε", spent.basic),
        ("Sum of μ² (Gaussian)", spent.gdp),
        ("Sum of ρ (zCDP)", spent.zcdp),
        ("Pool of δ", spent.pool),
    )
    return [(name, route) for name, route in named if route is not None]
