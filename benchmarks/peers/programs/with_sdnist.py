"""SDNist: its scores of coded synthetic rows against coded private ones."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.programs.trial import Data, Job, main

#: Columns that SDNist's rules read as numbers.
NUMBERS = ("HOUSING_TYPE", "OWN_RENT")


def scores(job: Job) -> Callable[[Data], Any]:
    """Return k-marginal, propensity error, rows that break rules of age and housing, and unique rows found (in %).

    A bin of ages counts as its oldest age, so that no rule is broken by a bin that also holds an age which keeps it.
    """
    import pandas as pd
    import sdnist.report  # type: ignore[import-not-found]  # noqa: F401  # first: its modules import each other
    from sdnist.metrics.inconsistency import Inconsistencies  # type: ignore[import-not-found]
    from sdnist.metrics.kmarginal import KMarginal  # type: ignore[import-not-found]
    from sdnist.metrics.propensity import PropensityMSE  # type: ignore[import-not-found]
    from sdnist.metrics.unique_exact_matches import unique_exact_matches  # type: ignore[import-not-found]

    labels: dict[str, list[str]] = job["labels"]

    def score(data: Data) -> list[float]:
        target, made = (pd.DataFrame(data[each], columns=list(labels)) for each in ("private", "rows"))
        named = pd.DataFrame({name: [texts[code] for code in made[name]] for name, texts in labels.items()})
        named["AGEP"] = 5 * made["AGEP"] + 4
        for name in NUMBERS:
            named[name] = named[name].astype(int)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            place = Path(folder) / "a" / "b" / "c" / "d"  # it names its files by the folders above them
            place.mkdir(parents=True)
            rules = Inconsistencies(named, place)
            rules.compute()
            propensity = float(PropensityMSE(target, made, place).compute_score())
        broken = {
            each["Inconsistency Group"]: each["Percent Records Inconsistent"] for each in rules.report_data["summary"]
        }
        found = float(unique_exact_matches(target, made)[1])
        return [float(KMarginal(target, made).compute_score()), propensity, broken["Age"], broken["Housing"], found]

    return score


if __name__ == "__main__":
    main("sdnist", {"scores": scores})
