"""How far off released numbers can be: a public formula that travels with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sidelight.errors import RangeError

Numbers = tuple[float, ...]

#: What a bound states that follows from the laws of the noise alone.
NO_ASSUMPTION: Final = "the noise is what it is: nothing is assumed about the data"


@dataclass(frozen=True, kw_only=True)
class TailBound:
    """How far off the released numbers can be, as a public formula: fixed + per_log * log(1/failure probability).

    The bound for entry i is at most exceeded with the stated probability, for all entries at once, if the public
    `assumption` about the data holds: a theorem, or, with `proved=False`, an estimate. Privacy never depends
    on it. A bound that assumes nothing may come with a smaller one that assumes something: the likely error.

    Args:
        unit: What an error is counted in.
        assumption: What the data must be like.
        fixed, per_log: The two parts of each entry's bound.
        proved: Whether it is a theorem.
        likely: Another bound of the same entries, mostly smaller, for data without undeclared ties: an estimate of the
            error that most data has. None if there is none, or if released numbers contradict what it assumes.

    >>> bound = TailBound(unit="ranks", assumption="no ties", fixed=(1.0,), per_log=(2.0,))
    >>> bound.at(0.95).round(2).tolist()
    [6.99]
    """

    unit: str
    assumption: str
    fixed: Numbers
    per_log: Numbers
    proved: bool = True
    likely: TailBound | None = None

    def __post_init__(self) -> None:
        if len(self.fixed) != len(self.per_log):
            raise RangeError(
                f"a bound has as many fixed parts as slopes, got {len(self.fixed)} and {len(self.per_log)}"
            )
        if self.likely is not None and not (self.assumes_nothing and len(self.likely.fixed) == len(self.fixed)):
            raise RangeError("a likely error comes with a bound of the same entries that assumes nothing")

    def assuming(self, wanted: str | None, *, kind: str) -> TailBound:
        """Return the bound of a release under an assumption: "nothing", "spread", or None for this one."""
        if wanted not in (None, "nothing", "spread"):
            raise RangeError(
                f'assuming is "nothing", "spread", or left out for what release.error states, got {wanted!r}'
            )
        if wanted == "nothing" and not self.assumes_nothing:
            raise RangeError(
                f"the bound of this {kind} release holds if {self.assumption}; it carries none that assumes "
                "nothing about the data"
            )
        found = self.of_spread_data if wanted == "spread" else self
        if found is None:
            raise RangeError(
                f"this {kind} release carries no likely error: its bound needs none, or what was released shows "
                "ties that nobody declared; leave assuming out"
            )
        return found

    @property
    def assumes_nothing(self) -> bool:
        """Whether it holds wherever the records lie; its text may say how many of them may be equal."""
        return self.assumption.startswith(NO_ASSUMPTION)

    @property
    def basis(self) -> str:
        """What stands before a number of it at 95 %: that it is a worst case, or that it is none."""
        return "worst case at 95 %" if self.proved else "estimated at 95 %, not proved"

    def at(self, confidence: float) -> np.ndarray:
        """Return the bound of every entry at this confidence."""
        if not 0 < confidence < 1:
            raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is a usual choice")
        found = np.asarray(self.fixed) + np.asarray(self.per_log) * math.log(1 / (1 - confidence))
        return np.maximum(found, 0.0)

    @property
    def of_spread_data(self) -> TailBound | None:
        """The bound for data without undeclared ties: this one, or the likely error that comes with it, if any."""
        return self.likely if self.assumes_nothing else self

    def with_likely(self, likely: TailBound, *, calibrated: float = 1.0) -> TailBound:
        """Return it with a likely error: of each entry the smaller of both at 95 %.

        Args:
            likely: The bound for data without undeclared ties.
            calibrated: What it is multiplied with, so that it was kept on measured laws that are unlike its assumption.
        """
        likely = likely.changed(
            lambda fixed, per_log: (
                tuple(calibrated * each for each in fixed),
                tuple(calibrated * each for each in per_log),
            )
        )
        nearer = likely.at(0.95) < self.at(0.95)
        return replace(
            self,
            likely=replace(
                likely,
                fixed=tuple(np.where(nearer, likely.fixed, self.fixed).tolist()),
                per_log=tuple(np.where(nearer, likely.per_log, self.per_log).tolist()),
            ),
        )

    def changed(self, change: Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]) -> TailBound:
        """Return it with other numbers, found from its own; and so the likely error that comes with it.

        Args:
            change: Takes `fixed` and `per_log`, and returns both.

        >>> bound = TailBound(unit="ranks", assumption="no ties", fixed=(1.0, 3.0), per_log=(2.0, 4.0))
        >>> bound.changed(lambda fixed, per_log: (fixed[1:], per_log[1:])).fixed
        (3.0,)
        """
        fixed, per_log = change(self.fixed, self.per_log)
        likely = None if self.likely is None else self.likely.changed(change)
        return replace(self, fixed=fixed, per_log=per_log, likely=likely)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "unit": self.unit,
            "assumption": self.assumption,
            "fixed": list(self.fixed),
            "per_log": list(self.per_log),
            **({} if self.proved else {"proved": False}),
            **({} if self.likely is None else {"likely": self.likely.to_json()}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TailBound:
        """Read what `to_json` wrote; earlier versions put first what assumed more, and the other with it."""
        found = cls(
            unit=data["unit"],
            assumption=data["assumption"],
            fixed=tuple(data["fixed"]),
            per_log=tuple(data["per_log"]),
            proved=bool(data.get("proved", True)),
            likely=None if data.get("likely") is None else cls.from_json(data["likely"]),
        )
        return found if data.get("regardless") is None else replace(cls.from_json(data["regardless"]), likely=found)
