"""Errors that releases state, against the errors that they make, on tables like those that users have.

    python -m benchmarks.stated_errors [--all] [words of queries' names ...]

Every query that states an error is released again and again on tables of eight laws (`stated_error_laws`; with `--all`
of eleven), and each statement (an interval of one row of a table, a bound of `release.error`, a band) is compared with
the rows (`stated_error_claims`). A statement at 95 % may fail one time in twenty. It counts as refuted where it failed
so often that a true one would have with a probability of less than 1e-6 / 5000 (the exact binomial tail; there are
fewer statements than that): a run in which every statement is true prints 0 with a probability of more than 1 - 1e-6.

With `--wide` it prints instead how much larger than need be each statement is: the stated error over the one that would
have held as often as stated (the 95 % quantile of the errors made, for 95 %), by query the median over laws and
statements, and the largest; of queries that state a likely error first, that of this one.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
from scipy.stats import binom

from benchmarks.measuring import print_figures, sized
from benchmarks.stated_error_laws import LAWS, Case, Law
from benchmarks.stated_error_queries import ASKED, Asked

#: Releases of each query under each law, over this number of tables.
RELEASES, TABLES = sized((200, 2), (1, 1))
#: The chance of a false alarm in one run, and the largest number of statements that it is shared by.
FALSE_ALARMS, STATEMENTS = 1e-6, 5000
#: How many times larger than need be a query's stated errors may usually be.
_WIDE = 3.0
#: Numbers are compared up to rounding.
_ROUNDING = 1 + 1e-9


@dataclass
class Tally:
    """The errors made under one statement, as shares of the stated ones."""

    confidence: float
    promised: bool
    shares: list[float] = field(default_factory=list)

    @property
    def made(self) -> int:
        """Return how often the statement was made."""
        return len(self.shares)

    @property
    def failed(self) -> int:
        """Return how often it was false."""
        return sum(share > _ROUNDING for share in self.shares)

    @property
    def width(self) -> float:
        """Return how many times larger the stated error is than one that would have held as often as stated."""
        needed = float(np.quantile(self.shares, self.confidence))
        return 1 / needed if needed > 0 else np.inf

    def chance(self) -> float:
        """Return the largest probability of this number of failures of a true statement."""
        return float(binom.sf(self.failed - 1, self.made, 1 - self.confidence))


@dataclass
class Found:
    """Tallies by query, law and statement."""

    tallies: dict[tuple[str, str, str], Tally] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def refuted(self, cell: tuple[str, str] | None = None) -> dict[tuple[str, str], str]:
        """Return the refuted cells (query, law), or whether this one is, each with its worst statement."""
        assert len(self.tallies) <= STATEMENTS
        cells: dict[tuple[str, str], str] = {}
        tallies = [each for each in self.tallies.items() if each[1].promised and (cell is None or each[0][:2] == cell)]
        for (query, law, what), tally in sorted(tallies, key=lambda each: each[1].chance()):
            if tally.chance() < FALSE_ALARMS / STATEMENTS:
                words = f"{what} failed in {tally.failed} of {tally.made}, stated with {tally.confidence:g}"
                cells.setdefault((query, law), words)
        return cells

    def widths(self) -> dict[str, tuple[float, float, str]]:
        """Return by query the median width of its statements, the largest, and where that is; none without an error.

        Of a query with likely errors, which are shown first, those.
        """
        found: dict[str, list[tuple[float, str]]] = defaultdict(list)
        with_likely = {query for (query, _, _), tally in self.tallies.items() if not tally.promised}
        for (query, law, what), tally in self.tallies.items():
            if np.isfinite(tally.width) and tally.promised == (query not in with_likely):
                found[query].append((tally.width, f"{law}: {what}"))
        return {query: (float(np.median([width for width, _ in each])), *max(each)) for query, each in found.items()}


def tried(asked: Sequence[Asked] = ASKED, laws: Iterable[Law] = LAWS, *, releases: int = RELEASES) -> Found:
    """Release every query under every law, and compare what is stated with the rows."""
    found = Found()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about small tables and large noise
        for law in laws:
            cases = cache(partial(_cases, law))
            for each in asked:
                if law.name in each.outside:
                    continue
                start = time.process_time()
                for case in cases(each.rows):
                    _tally(found, each, case, round(releases * each.times / TABLES))
                found.seconds[each.name] += time.process_time() - start
                for words in found.refuted((each.name, law.name)).values():
                    print(f"refuted: {each.name}, {law.name}: {words}", flush=True)
    return found


def _cases(law: Law, times: int) -> list[Case]:
    few = law.rows < 100  # stays few
    return [Case(law, seed, law.rows * (1 if few else times)) for seed in range(TABLES)]


def _tally(found: Found, asked: Asked, case: Case, releases: int) -> None:
    for table, release in asked.releases(case, f"{asked.name} {case.law.name} {case.seed}", releases):
        for read in asked.reads:
            for each in read(table, release):
                key = (asked.name, case.law.name, each.what)
                found.tallies.setdefault(key, Tally(each.confidence, each.promised)).shares.append(each.share)


def measure(asked: Sequence[Asked] = ASKED, *, every_law: bool = False) -> Mapping[str, float]:
    """Return the number of refuted cells (query, law), and print them."""
    found = tried(asked, [law for law in LAWS if every_law or not law.more][: sized(None, 1)])
    refuted = found.refuted()
    slowest = sorted(found.seconds.items(), key=lambda each: -each[1])[:5]
    print("; ".join(f"{name} {seconds:.1f} s" for name, seconds in slowest), file=sys.stderr)
    return {
        "refuted": float(len(refuted)),
        "wide": float(sum(usual > _WIDE for usual, _, _ in found.widths().values())),
        "cells": float(len({key[:2] for key in found.tallies})),
        "statements": float(len(found.tallies)),
        "queries": float(len({key[0] for key in found.tallies})),
    }


def main(words: Sequence[str] = ()) -> None:
    """Try the queries whose names contain one of the words, or all."""
    names = [word for word in words if not word.startswith("--")]
    asked = [each for each in ASKED if not names or any(word in each.name for word in names)]
    if "--wide" in words:
        widths = tried(asked, [law for law in LAWS if "--all" in words or not law.more]).widths()
        for name, (usual, largest, where) in sorted(widths.items(), key=lambda each: -each[1][0]):
            print(f"{usual:8.2f} {largest:8.2f}  {name} ({where})")
        return
    print_figures(measure(asked, every_law="--all" in words))


if __name__ == "__main__":
    main(sys.argv[1:])
