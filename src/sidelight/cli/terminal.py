"""Where the commands write: tables on standard output, progress on standard error and only if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Return standard output; in a pipe it is wide enough for every table and has no colours."""
    probe = Console(highlight=False)
    return probe if probe.is_terminal else Console(highlight=False, width=max(probe.width, 140))


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on a terminal and nothing in a pipe; call the given function with what is done next."""
    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bars:
        task = bars.add_task("", total=total)
        started = False

        def step(description: str) -> None:
            nonlocal started
            bars.update(task, description=description, advance=1 if started else 0)
            started = True

        yield step
        bars.update(task, completed=total)


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


def today() -> str:
    """Return the date, without the time: how long a run took may depend on the data."""
    return datetime.now(UTC).date().isoformat()
