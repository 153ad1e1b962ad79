"""Engines fail with messages that quote cells. Nothing of such a message may leave, only the fact of the failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sidelight.errors import SidelightError, SourceError

Result = TypeVar("Result")


def quietly(action: Callable[[], Result]) -> Result:
    """Run something that reads rows; if the engine raises, raise an error that quotes nothing."""
    try:
        return action()
    except (SidelightError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # a panic of Polars is no Exception
        pass
    # Outside the handler, so that the engine's error is not kept as the context of this one.
    raise SourceError(
        "the engine failed while it read the rows; its message is withheld because it may quote a record: "
        "check that the file is whole and readable, and that there is enough memory"
    )
