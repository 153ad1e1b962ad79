"""How many comparisons with other libraries we lose, in accuracy and in processor time: two lines of `make targets`.

All questions of the comparison page on this machine, without the entrants whose ten releases take minutes. Where ours
is behind, both are asked again on other data, and it counts only if ours is behind again: of dozens of comparisons with
the same noise some are "behind" by chance once, hardly one twice.

    python -m benchmarks.peers.behind        print every comparison that is behind, once or twice
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from benchmarks.measuring import print_figures
from benchmarks.peers.cases import Case
from benchmarks.peers.environments import PeersError
from benchmarks.peers.page import AT_A_TIME, ask, cases, missing_peers
from benchmarks.peers.page_text import ratio_in, title_of

#: Trials of a question, and the first one of the second time.
TRIALS, AGAIN = 12, 1000
#: The figure of each ratio.
FIGURES = {"ratio": "accuracy", "processor ratio": "time"}


#: A figure, and the call and promise of the other one.
Lost = tuple[str, tuple[str, str]]


def lost(found: Mapping[str, Any]) -> Iterator[tuple[Lost, str]]:
    """Return the comparisons in which ours is behind, with words that say by how much."""
    for other in found["others"]:
        for name, figure in FIGURES.items():
            ratio = ratio_in(other, name)
            if ratio is not None and ratio.verdict == "behind":
                words = f"{title_of(other['peer'])} {ratio.value:.3g} [{ratio.lower:.3g}, {ratio.upper:.3g}]"
                yield (figure, (other["call"], other["promise"])), words


def behind(case: Case, pool: ThreadPoolExecutor) -> list[str]:
    """Return the figure of every comparison of a question that is lost twice."""
    small = replace(case, trials=min(case.trials, TRIALS))
    first = dict(lost(ask(small, pool, {}, quick=True)))
    if not first:
        return []
    again = dict(lost(ask(small, pool, {}, quick=True, first=AGAIN, calls={who for _, who in first})))
    for (figure, who), words in first.items():
        second = again.get((figure, who), "not behind")
        print(f"{case.name}: {figure}: {who[0]}: {words}, then {second}", file=sys.stderr, flush=True)
    return [figure for figure, who in first if (figure, who) in again]


def measure() -> dict[str, float]:
    """Return the number of comparisons that are lost in accuracy and in processor time."""
    asked = cases()
    missing = missing_peers(asked, quick=True)
    if missing:  # without these peers the numbers would be too small
        raise PeersError("; ".join(f"{peer}: {why}" for peer, why in missing.items()))
    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        found = [figure for case in asked for figure in behind(case, pool)]
    return {figure: float(found.count(figure)) for figure in FIGURES.values()}


if __name__ == "__main__":
    print_figures(measure())
