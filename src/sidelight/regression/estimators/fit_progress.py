"""A sign of life while a file is being fitted: on a terminal only, and without a number.

How many passes a fit takes, how far it is and how fast it converges all depend on the data, so none of it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sidelight.records import Table


@contextmanager
def fitting(table: Table) -> Iterator[None]:
    """Show a spinner on a terminal's standard error while a source outside memory is read; nothing in a pipe."""
    if table.rows.length is not None:
        yield
        return
    from rich.console import Console

    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal:
        yield
        return
    with screen.status(f"fitting a model to {table.name}, which is read several times"):
        yield
