"""How many teachers are trained, on a terminal only. That number is public; how long each took is not shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def teaching(teachers: int, *, done: int) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal's standard error; give the function that moves it by one. Nothing in a pipe."""
    from rich.console import Console

    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    with Progress(TextColumn("teachers trained"), BarColumn(), MofNCompleteColumn(), console=screen) as bar:
        task = bar.add_task("", total=teachers, completed=done)
        yield lambda: bar.advance(task)
