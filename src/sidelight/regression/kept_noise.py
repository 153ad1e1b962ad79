"""The inside of a fit, for the curator: its noise and its minimum, kept only where that was asked for beforehand.

Whoever has the noise can subtract it, so a fitted model never holds it: it lives in an object of its own that refuses
to be copied, pickled or printed, and dies with the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from sidelight.errors import CuratorOnlyError
from sidelight.regression.losses import Floats

if TYPE_CHECKING:
    from sidelight.regression.objective import Objective
    from sidelight.regression.plan import LinearPlan


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PrivateFit:
    """A fit with its inside. Everything but the plan and `released` is private, whatever it cost."""

    plan: LinearPlan
    objective: Objective
    point: Floats
    released: Floats

    def __reduce__(self) -> NoReturn:
        raise TypeError("the inside of a private fit cannot be pickled or copied: it holds the noise and the rows")

    def __repr__(self) -> str:
        return "PrivateFit(private)"


class Kept:
    """Where a fit is put that an audit asked for; `fit` is None until there is one."""

    def __init__(self) -> None:
        self.fit: PrivateFit | None = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("the inside of a private fit cannot be pickled or copied: it holds the noise and the rows")


_KEEPER: ContextVar[Kept | None] = ContextVar("sidelight_kept_noise", default=None)


@contextmanager
def keep_noise(*, i_am_the_curator: bool = False) -> Iterator[Kept]:
    """Keep the inside of the fits made within, for `exact_losses`. It must never be published, nor anything from it.

    Raises:
        CuratorOnlyError: without `i_am_the_curator=True`.
    """
    require_curator(i_am_the_curator=i_am_the_curator)
    kept = Kept()
    token = _KEEPER.set(kept)
    try:
        yield kept
    finally:
        _KEEPER.reset(token)


def remember(fit: PrivateFit) -> None:
    """Hand a fit to whoever asked for it beforehand, in this context; else to nobody."""
    keeper = _KEEPER.get()
    if keeper is not None:
        keeper.fit = fit


def require_curator(*, i_am_the_curator: Any) -> None:
    """Refuse what only the curator may see."""
    if i_am_the_curator is not True:
        raise CuratorOnlyError(
            "true privacy losses depend on everyone's data: one of them can give a row away exactly. If you hold the "
            "data anyway and publish nothing of what you will see, pass i_am_the_curator=True; privacy_report() is the "
            "public answer"
        )
