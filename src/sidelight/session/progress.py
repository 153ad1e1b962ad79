"""Progress of long work with a public number of steps: a bar on a terminal's standard error, nothing in a pipe.

The number of steps and how many are done are public; how long each took is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, steps: int, *, done: int = 0) -> Iterator[Callable[[], None]]:
    """Show a bar while the block runs; the function that it is given moves it by one step."""
    from rich.console import Console

    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=steps, completed=done)
        yield lambda: bar.advance(task)
