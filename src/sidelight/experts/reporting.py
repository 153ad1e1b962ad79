"""What clients report, how much noise it gets, and what that guarantees: public, fixed before the first round.

The statistic is put on a public grid and gets rounded Gaussian noise, so the report's bits are μ-GDP exactly (experts
proof page, Theorem 1). The sensitivity is enlarged by what rounding to the grid and floating point can add.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal

from sidelight.errors import RangeError, nearest
from sidelight.experts.player import LARGEST_GAIN_RANGE, gain_range_too_large
from sidelight.guarantees import (
    GDP,
    Amount,
    Claims,
    Event,
    Neighbours,
    decimal_text,
    exact,
    native_claims,
    per_person,
    positive,
)
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.noise import scale_up

NeighboursWord = Literal["presence", "move", "replace"]
Kind = Literal["vector", "coordinate"]

#: Part of every refusal of other terms: a second budget for the same people is never the way out.
NEW_TERMS = (
    "New terms add their budget to what these people were promised: agree with them to the sum first, or report under "
    "new terms for other people only, each client with a ledger of its own"
)
_NEIGHBOURS = {
    "presence": Neighbours.LOCAL_PRESENCE,
    "move": Neighbours.LOCAL_MOVE,
    "replace": Neighbours.LOCAL,
}
#: How many clients one person touches in a round, where each has noise by its own size.
_CLIENTS_TOUCHED = {"presence": 1, "move": 2}
#: The grid adds at most this part to the sensitivity.
_GRID_SHARE = Fraction(1, 2**20)
#: A gain may be computed with an error of this part of the gain range: floats do much better.
FLOAT_SHARE = Fraction(1, 2**40)
#: Largest code; codes and noise stay far inside int64.
_LARGEST_CODE = 2**50
#: How long a text in a report may be.
LONGEST_TEXT = 200


@dataclass(frozen=True, kw_only=True)
class Reporting:
    """The public terms under which clients report.

    Guarantee: each report is `mu`-GDP for one event: one person's part in one round. With `max_rounds_per_person` also
    `person_claims`, √k μ. In coordinate reports a person who moves touches two clients; μ holds for both together, and
    with `sizes` for a person of a small client as for one of a large one: the small one's report is noisier.

    Args:
        actions: n, the length of the gain vector of a round.
        mu: What each round costs a person in it.
        sensitivity: Δ, the largest Euclidean change of what one round reports between neighbours, in all clients' gains
            side by side, after filling and clipping. A person whom j clients report in vectors of their own moves them
            up to √j times as far as one of them; a gain that is missing without that person moves from `fill`.
            With `sizes`: the largest Euclidean change of size times gains of one client, 1 where gains are shares and a
            person counts in one action; never below `gain_range`.
        neighbours: What neighbours are: "presence" (one person present or not), "move" (or elsewhere), "replace" (any
            two inputs of one report: then the whole range must be covered).
        rounds: How many rounds a client will ever report; more are refused.
        gain_range: c: gains lie in [0, c]; what lies outside is clipped before the noise.
        kind: A whole "vector", or one "coordinate" a client.
        fill: The gain in place of one that is missing or not a finite number, also before the noise.
        max_rounds_per_person: In how many rounds one person can take part.
        sizes: The public size b of each client by its name, if each adds noise by its own: a person is in one client a
            round ("presence"), or in one and then another ("move"), and moves its gains by at most sensitivity / b. A
            size is a public number (staffed beds, never the patients who came), fixed with the terms, and never above
            what the client divides by: the guarantee would not hold, and only the client could notice. One person in j
            clients a round needs √j times the sensitivity.

    >>> terms = Reporting(actions=24, mu=1, sensitivity=move_sensitivity(8), neighbours="move", rounds=148)
    >>> print(terms.claims, round(float(terms.noise_scale), 6))
    GDP(μ = 1; one person present or not, or elsewhere, in the reports, unit: event) 0.176777
    >>> own = Reporting(actions=2, mu=1, sensitivity=1, neighbours="move", rounds=9, sizes={"small": 8, "large": 80})
    >>> [round(float(own.noise_scale_of(name)), 6) for name in ("small", "large")]
    [0.176777, 0.017678]
    """

    actions: int
    mu: Amount
    sensitivity: Amount | None = None
    neighbours: NeighboursWord | None = None
    rounds: int
    gain_range: Amount = 1
    kind: Kind = "vector"
    fill: Amount = 0
    max_rounds_per_person: int | None = None
    sizes: Mapping[str, Amount] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for name in ("actions", "rounds", "max_rounds_per_person"):
            if getattr(self, name) is not None or name != "max_rounds_per_person":
                object.__setattr__(self, name, whole(getattr(self, name), name=name))
        if self.sensitivity is None:
            help_ = "presence_sensitivity and move_sensitivity help"
            if self.sizes is not None:
                help_ = "with sizes, size times gains of one client: 1 where gains are shares of the size"
            raise RangeError(
                "sensitivity is not declared: say how far one person can move the gain vector of a round, from public "
                f"numbers ({help_})"
            )
        if self.neighbours is None:
            raise RangeError("neighbours is not declared: say 'presence', 'move' or 'replace'")
        if self.neighbours not in _NEIGHBOURS:
            raise RangeError(
                f"no neighbours are called {self.neighbours!r}; {nearest(str(self.neighbours), _NEIGHBOURS)}"
            )
        if self.sizes is not None:
            object.__setattr__(self, "sizes", _checked_sizes(self.sizes, self.neighbours))
        if self.kind not in ("vector", "coordinate"):
            raise RangeError(f"kind must be 'vector' or 'coordinate', got {self.kind!r}")
        positive(self.mu, name="mu")
        if self.exact_fill > self.exact_gain_range:
            raise RangeError(f"fill must lie within the gains, 0..{decimal_text(self.exact_gain_range)}")
        if self.sizes is not None and self.exact_sensitivity < self.exact_gain_range:
            raise RangeError(
                "with sizes, sensitivity is how far one person moves size times gains of one client, at least the gain "
                f"range, {decimal_text(self.exact_gain_range)}: 1 where gains are shares of the size. It is smaller "
                "here: was it divided by a size already? If gains never come near the range, declare a smaller one"
            )
        if self.neighbours == "replace" and self.exact_sensitivity**2 < self._full_range_squared:
            raise RangeError(
                "neighbours 'replace' means any two inputs of a report, which differ by the gain range in every "
                f"coordinate: sensitivity must be at least {float(self._full_range_squared) ** 0.5:.9g}, got "
                f"{float(self.exact_sensitivity):.6g}; for one person among many declare 'presence' or 'move'"
            )
        if self.largest_code > _LARGEST_CODE:
            raise RangeError(
                "the sensitivity is too small against the gain range for one grid to hold both; declare a smaller range"
            )
        noise = [("noise_scale", self._scale(size)) for size in self._size_range]
        for name, amount in (("mu", self.exact_mu), *noise):
            if len(decimal_text(amount)) > LONGEST_TEXT:
                raise RangeError(
                    f"{name} takes more than {LONGEST_TEXT} digits to write, and every report says it; declare mu and "
                    "sensitivity as short decimals of a usual size"
                )

    @cached_property
    def exact_sensitivity(self) -> Fraction:
        """Δ as declared."""
        assert self.sensitivity is not None
        return positive(self.sensitivity, name="sensitivity")

    @cached_property
    def exact_gain_range(self) -> Fraction:
        """c."""
        found = positive(self.gain_range, name="gain_range")
        if found > LARGEST_GAIN_RANGE:
            raise gain_range_too_large()
        return found

    @property
    def exact_mu(self) -> Fraction:
        """μ."""
        return positive(self.mu, name="mu")

    @property
    def exact_fill(self) -> Fraction:
        """The gain in place of one that is no number."""
        return exact(self.fill, name="fill")

    @property
    def coordinates(self) -> int:
        """How many numbers one report holds."""
        return self.actions if self.kind == "vector" else 1

    @cached_property
    def grid_bits(self) -> int:
        """j of the grid width q = 2^-j: the coarsest with q √n at most 2^-20 Δ, of the largest client."""
        wanted = _GRID_SHARE * self.exact_sensitivity / self._size_range[1] / root_of_sum_of_squares(self.actions)
        bits = wanted.denominator.bit_length() - wanted.numerator.bit_length()
        while Fraction(1, 2) ** bits > wanted:
            bits += 1
        while Fraction(1, 2) ** (bits - 1) <= wanted:
            bits -= 1
        return bits

    @property
    def grid(self) -> Fraction:
        """q, the width of the grid."""
        return Fraction(1, 2) ** self.grid_bits

    @property
    def largest_code(self) -> int:
        """The code of the largest gain: ⌊c/q⌋."""
        return (self.exact_gain_range / self.grid).__floor__()

    @property
    def grid_sensitivity(self) -> Fraction:
        """Δ + √n (q + 2 c 2^-40): what neighbours differ by after rounding to the grid, computed in floats.

        With `sizes`, that of the smallest client, √2 times as much where a person moves between two.
        """
        return self._grid_sensitivity(self._size_range[0])

    def _grid_sensitivity(self, size: Fraction) -> Fraction:
        slack = self.grid + 2 * FLOAT_SHARE * self.exact_gain_range
        if self.sizes is None:
            return self.exact_sensitivity + root_of_sum_of_squares(self.actions) * slack
        assert self.neighbours is not None
        change = self.exact_sensitivity / size + root_of_sum_of_squares(self.coordinates) * slack
        return root_of_sum_of_squares(_CLIENTS_TOUCHED[self.neighbours]) * change

    @cached_property
    def noise_scale(self) -> Fraction:
        """η of the client's noise, rounded up once; `mu` is the guarantee of exactly this number.

        With `sizes`, that of the smallest client: the largest of all.
        """
        return self._scale(self._size_range[0])

    def noise_scale_of(self, client_id: str) -> Fraction:
        """η of one client's noise: that of all, or by its own public size."""
        if self.sizes is None:
            return self.noise_scale
        known = self._known_scales
        if client_id not in known:
            if client_id not in self.sizes:
                raise RangeError(f"the terms name no size of the client {client_id!r}; sizes are fixed with the terms")
            known[client_id] = self._scale(self.exact_size(client_id))
        return known[client_id]

    def exact_size(self, client_id: str) -> Fraction:
        """The public size of one client; 1 of each if the terms name none: all count the same."""
        return Fraction(1) if self.sizes is None else exact(self.sizes[client_id], name="size")

    def _scale(self, size: Fraction) -> Fraction:
        return scale_up(self._grid_sensitivity(size) / self.exact_mu)

    @cached_property
    def _known_scales(self) -> dict[str, Fraction]:
        return {}

    @cached_property
    def _size_range(self) -> tuple[Fraction, Fraction]:
        if self.sizes is None:
            return Fraction(1), Fraction(1)
        found = [exact(size, name="size") for size in self.sizes.values()]
        return min(found), max(found)

    @property
    def relation(self) -> Neighbours:
        """The relation of neighbours that the claims are for."""
        assert self.neighbours is not None
        return _NEIGHBOURS[self.neighbours]

    @property
    def claims(self) -> Claims:
        """What one round costs one event: everybody may see the reports."""
        return native_claims(GDP(self.exact_mu, neighbours=self.relation, unit=Event()), mechanism="rounded_gaussian")

    @property
    def person_claims(self) -> Claims:
        """What all rounds cost one person; refused without `max_rounds_per_person`."""
        return per_person(self.claims, max_rounds_per_person=self.max_rounds_per_person)

    @property
    def budget(self) -> GDP:
        """What the client's ledger allows in all: `rounds` reports, as if one person were in every one."""
        root = GDP.from_squares(self.rounds * self.exact_mu**2).mu
        digits = Fraction(10**18)  # a budget is a decimal of few digits; rounded up, so that the last round fits
        return GDP((root * digits).__ceil__() / digits, neighbours=self.relation, unit=Event())

    @property
    def _full_range_squared(self) -> Fraction:
        return self.exact_gain_range**2 * self.coordinates

    def to_json(self) -> dict[str, Any]:
        """Return the terms with strings only: what clients and server must agree on."""
        sizes = {} if self.sizes is None else {"sizes": {name: str(size) for name, size in sorted(self.sizes.items())}}
        return sizes | {
            "actions": str(self.actions),
            "mu": decimal_text(self.exact_mu),
            "sensitivity": decimal_text(self.exact_sensitivity),
            "neighbours": self.neighbours,
            "rounds": str(self.rounds),
            "gain_range": decimal_text(self.exact_gain_range),
            "kind": self.kind,
            "fill": decimal_text(self.exact_fill),
            "max_rounds_per_person": None if self.max_rounds_per_person is None else str(self.max_rounds_per_person),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        sizes = None if self.sizes is None else dict(self.sizes)  # a view of sizes cannot be copied by itself
        return partial(Reporting, **(given | {"sizes": sizes})), ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Reporting:
        """Read the terms back."""
        whole = ("actions", "rounds", "max_rounds_per_person")  # terms of equal noise do not name sizes
        given: dict[str, Any] = {name: int(text) if name in whole and text else text for name, text in data.items()}
        return cls(**given)


def presence_sensitivity(smallest_count: Amount) -> Fraction:
    """Return Δ = 1/b for shares among at least b public places, one person present or not.

    The smallest count must be public metadata: one that is read off the private data leaks.
    """
    return 1 / positive(smallest_count, name="smallest_count")


def move_sensitivity(smallest_count: Amount) -> Fraction:
    """Return Δ = √2/b, rounded up: a person leaves one coordinate and joins another."""
    return root_of_sum_of_squares(2) / positive(smallest_count, name="smallest_count")


def _checked_sizes(sizes: Any, neighbours: str) -> Mapping[str, Amount]:
    """Return the sizes as exact texts that cannot be changed afterwards."""
    if neighbours not in _CLIENTS_TOUCHED:
        raise RangeError(
            "neighbours 'replace' means any two inputs of a report, which no size makes nearer; with sizes declare "
            "'presence' (one person of one client present or not) or 'move' (or in another client)"
        )
    if not isinstance(sizes, Mapping) or not sizes:
        raise RangeError("sizes must be the public size of each client by its name: {'north': 40, 'south': 120}")
    for name in sizes:
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_TEXT or not name.isprintable():
            raise RangeError(f"sizes are named by clients: printable texts of 1 to {LONGEST_TEXT} characters")
    return MappingProxyType({name: decimal_text(positive(size, name="size")) for name, size in sizes.items()})
