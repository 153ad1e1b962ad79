"""Numbers and guarantees in words: what a guarantee means for one person, saying no more than is proved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sidelight.guarantees import Claims, Neighbours, Person, PersonOf
from sidelight.guarantees.amounts import bound_text, exact, grid_floor
from sidelight.guarantees.claims import NOT_PROTECTED
from sidelight.readable import as_read, at_most

# Numbers as people read them, and the round numbers of an axis.


def counted(number: int, one: str, many: str | None = None) -> str:
    """Write a number with its noun.

    >>> counted(1, "marginal"), counted(2, "marginal"), counted(0, "entry", "entries")
    ('1 marginal', '2 marginals', '0 entries')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short(value: float, *, digits: int = 6) -> str:
    """Write a number for an axis: 12k, 1.5M.

    >>> short(0), short(950), short(12000), short(1500000), short(0.25)
    ('0', '950', '12k', '1.5M', '0.25')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size <= abs(value) < 1e15:
            return as_read(value / (1e3 if letter == "k" else size), digits=4) + letter
    return as_read(value, digits=digits)


def axis_texts(values: Sequence[float]) -> list[str]:
    """Write numbers of one axis: short, or whole where short ones would be alike.

    >>> axis_texts([1000000, 1500000]), axis_texts([1234567800.0, 1234567900.0])
    (['1M', '1.5M'], ['1,234,567,800', '1,234,567,900'])
    """
    texts = [short(value) for value in values]
    return texts if len(set(texts)) == len(set(values)) else [as_read(value, digits=15) for value in values]


def ticks(low: float, high: float, *, about: int) -> list[float]:
    """Return round numbers inside [low, high], about as many as asked for.

    >>> ticks(3, 97, about=5)
    [20.0, 40.0, 60.0, 80.0]
    """
    raw = (high - low) / about
    if not (math.isfinite(raw) and raw > 0):
        return [low]
    size = 10.0 ** math.floor(math.log10(raw))
    step = min((factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw * 0.999), default=raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)] or [low]


#: How sure someone may have been before; shown with how sure they can be afterwards.
BEFORE = (0.01, 0.1, 0.5)

#: Where a claim has no epsilon of its own it is read at this failure probability.
USUAL_DELTA = "1e-6"


@dataclass(frozen=True, kw_only=True)
class Belief:
    """How sure someone was that a person is in the data, and how sure they can have become at most."""

    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One guarantee at three levels of detail."""

    plain: str
    beliefs: tuple[Belief, ...]
    caveat: str
    exact: tuple[str, ...]
    protects: str


def promise(claims: Claims) -> Promise:
    """Return what these claims mean for one protected unit."""
    protects = _protected(claims.unit)
    adds = claims.neighbours is Neighbours.ADD_REMOVE
    epsilon, caveat = _epsilon(claims)
    kept = claims.context["kept"]
    change = f"Adding {protects} to the data, or taking it away," if adds else f"Replacing {protects} by any other"
    if kept:
        change += f" with the same published totals (exact: {kept})"
        caveat = f"{caveat} {NOT_PROTECTED}".strip()
    plain = f"{change} makes no published result more than {_large_factor(epsilon)} times as likely or as unlikely."
    return Promise(
        plain=plain,
        beliefs=tuple(_belief(p, math.exp(epsilon)) for p in BEFORE) if adds and epsilon < 20 else (),
        caveat=caveat,
        exact=tuple(str(each) for each in claims),
        protects=f"one {claims.unit}; neighbouring data sets: {claims.neighbours}",
    )


def _belief(before: float, factor: float) -> Belief:
    return Belief(before=before, after=_up(before * factor / (before * factor + 1 - before), 3))


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The promise of a whole report in words, and the term in small."""

    plain: str
    term: str


#: Beyond this epsilon the factor is so large that the sentence says so.
_PROTECTS_LITTLE = 10.0


def headline(epsilon: float, delta: float, *, unit: str, term: str, replaced: bool = False, kept: str = "") -> Headline:
    """Return the promise for one protected unit as a sentence.

    Args:
        epsilon: The sum of all that the sentence speaks of.
        delta: The chance that is left out of it.
        unit: What is protected: "row", "person" or "report".
        term: The guarantee as experts write it.
        replaced: Whether neighbours differ by what stands in a row, and not by whether it is there.
        kept: Totals that are published exactly.

    >>> headline(1.0, 0.0, unit="row", term="").plain.partition(" from all of this ")[2]
    'can change by at most a factor of 2.72, whether your row is in the data or not.'
    """
    yours = "rows" if unit == "person" else unit
    whether = "say what they say or anything else" if unit == "person" else "says what it says or anything else"
    if not replaced:
        whether = f"{'are' if unit == 'person' else 'is'} in the data or not"
    elif kept:
        whether += " with the same published totals"
    plain = (
        f"What anyone learns about you from all of this can change by at most a factor of "
        f"{_large_factor(epsilon)}, whether your {yours} {whether}"
    )
    if delta > 0:
        plain += f", but for a chance of {_odds(exact(delta, name='delta'))}"
    if epsilon > _PROTECTS_LITTLE:
        plain += ". So large a factor protects little"
    return Headline(plain=f"{plain}.", term=term)


def _large_factor(epsilon: float) -> str:
    """Write exp(epsilon), rounded up; beyond a million as a power of ten, which is what it says."""
    if epsilon < math.log(1e6):
        return _factor(math.exp(epsilon))
    return f"10 to the power of {math.ceil(epsilon / math.log(10))}"


#: From here on odds are a power of ten.
_LONG_ODDS = 10**15


def _odds(delta: Fraction) -> str:
    """Write a chance as one in a number, which is rounded down: no failure is called rarer than it is.

    >>> _odds(Fraction(1, 299999)), _odds(Fraction(3, 10**400))
    ('one in 299,000', 'one in 10 to the power of 399')
    """
    times = 1 / delta
    if times < _LONG_ODDS:
        return f"one in {as_read(float(grid_floor(times, digits=3)), digits=3)}"
    return f"one in 10 to the power of {len(str(int(times))) - 1}"


def _epsilon(claims: Claims) -> tuple[float, str]:
    """Return an epsilon that the claims prove, and what to add when it does not hold surely."""
    epsilon, delta = reading(claims)
    if delta == 0:
        return float(epsilon), ""
    return float(epsilon), f"This may fail with a chance of at most {bound_text(delta)}, {_odds(delta)}."


def reading(claims: Claims) -> tuple[Fraction, Fraction]:
    """Return an epsilon and a delta that the claims prove; delta is 0 where they are pure.

    >>> from sidelight.guarantees import PureDP
    >>> [float(amount) for amount in reading(Claims.of(PureDP("0.5")))]
    [0.5, 0.0]
    """
    pure = claims.pure()
    if pure is not None:
        return pure.epsilon, Fraction(0)
    approx = claims.items[0] if claims.items else claims.approx_at(USUAL_DELTA)
    assert approx is not None, "every claim that the library makes has an (epsilon, delta) reading"
    return approx.epsilon, approx.delta


def unit_word(unit: object) -> str:
    """Return whom a guarantee protects, in one word."""
    if isinstance(unit, (Person, PersonOf)):
        return "person"
    return {"event": "report", "row": "row"}[str(unit)]


def _protected(unit: object) -> str:
    if isinstance(unit, Person):
        return f"any one person (with up to {unit.max_rows} rows)"
    if isinstance(unit, PersonOf):
        return f"any one person (with all their rows in all tables of {unit.database})"
    return f"any one {unit_word(unit)}"


def _factor(factor: float) -> str:
    """Write a factor, rounded up: what is said must hold; near 1 with more digits, or all small epsilons were alike."""
    if factor >= 10:
        return at_most(factor)
    places = 2 if factor >= 1.05 else 4
    return f"{_up(factor, places):.{places}f}"


def _up(value: float, places: int) -> float:
    steps = 10.0**places
    return math.ceil(value * steps - 1e-9) / steps


def together(several: Sequence[Claims]) -> Fraction | None:
    """Return the sum of epsilons when every release has one and all protect the same: what holds for them together.

    Guarantee: basic composition, valid however the queries were chosen (accounting proof page, section 6).
    """
    whom = {(claims.unit, claims.neighbours, claims.context["kept"], claims.audience) for claims in several}
    pures = [claims.pure() for claims in several]
    if len(whom) != 1 or any(pure is None for pure in pures):
        return None
    return sum((pure.epsilon for pure in pures if pure is not None), Fraction(0))
