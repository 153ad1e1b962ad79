"""Progress while rounds run: a bar on a terminal's standard error, nothing in a pipe, and public numbers only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: A release with fewer rounds is over before a bar is read.
_FEW = 2


@contextmanager
def rounds_shown(rounds: int) -> Iterator[Iterator[int]]:
    """Count through the rounds; their number was public before the first one."""
    from rich.console import Console

    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal or rounds < _FEW:
        yield iter(range(rounds))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("measuring marginals"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        yield iter(bar.track(range(rounds)))
