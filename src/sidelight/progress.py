"""How far a long step is: one bar on standard error if that is a terminal, nothing in a pipe, and public numbers only.

How long a step took, how fast a fit converges and how many rows were read depend on the data, so none of it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from sidelight.readable import shown_text

if TYPE_CHECKING:
    from rich.progress import Progress

#: The bars on the screen, so that a step within a step adds its line to them.
_shown: ContextVar[Progress | None] = ContextVar("sidelight_progress", default=None)


@contextmanager
def progress(doing: str = "", *, total: int | None = None, done: int = 0) -> Iterator[Callable[..., None]]:
    """Show what is done, and how many of `total` steps; without a total a sign of life without a number.

    Called with a text, the function that comes says what is done now; called without, that one more step is done.

    >>> with progress("measuring", total=2) as step:
    ...     step()
    """
    from rich.console import Console

    bars, screen = _shown.get(), Console(stderr=True, highlight=False)
    if bars is None and not screen.is_terminal:
        yield lambda _doing=None: None
    elif bars is None:
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[count]}"))
        with Progress(*columns, console=screen, transient=True) as bars:
            token = _shown.set(bars)
            try:
                with _line(bars, doing, total, done) as step:
                    yield step
            finally:
                _shown.reset(token)
    else:
        with _line(bars, doing, total, done) as step:
            yield step


@contextmanager
def _line(bars: Progress, doing: str, total: int | None, done: int) -> Iterator[Callable[..., None]]:
    def count() -> str:
        return "" if total is None else f"{done}/{total}"

    def step(doing: str | None = None) -> None:
        nonlocal done
        done += doing is None
        bars.update(task, description=None if doing is None else shown_text(doing), completed=done, count=count())

    task = bars.add_task(shown_text(doing), total=total, completed=done, count=count())
    try:
        yield step
    finally:
        bars.refresh()
        bars.remove_task(task)
