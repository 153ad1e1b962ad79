"""Entrants for each question: their calls and budgets, with the same guarantee where possible.

The budget of a question is epsilon for one row added or removed. A method that promises nothing about that, because it
takes the number of rows as public and protects replacing a row, is given twice the epsilon: ours at epsilon promises
twice epsilon for replacing, so both promise the same there, and ours also hides the number of rows. By group there
are two ways to read that: a row that is replaced may leave a group and enter another one, and both answer it, or it may
not; both are on the page. A method that is given more (the sizes of the groups, that a model has no constant) is
compared with ours given the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from benchmarks.peers.cases import PUBLIC_SHARE, Case
from benchmarks.peers.environments import OURS
from sidelight.guarantees.conversions import zcdp_within

ADD_OR_REMOVE = "one row added or removed"
REPLACE = "one row replaced, the number of rows public"
WITHIN = "one row replaced within its group, the sizes of the groups public"
MOVED = "one row replaced within its group, twice that where it changes its group, the sizes of the groups public"
KEYS = "one row added or removed, which groups have rows public"
DECLARED = "one row added or removed, and nothing about the declared sizes"
EBM = "one row added or removed, the number of rows and the labels that occur public"
EBM_NUMBERS = f"{EBM}; not proved where a prediction leaves the target's range"
#: Seconds after which no further release is begun, once there are enough for a verdict; after which all is stopped.
SECONDS, PATIENCE = 15.0, 240.0
#: What ours is given in addition, by the ending of its method: its name on the page, and its promise then.
TOLD = {
    "predicted": ("told a public sample", ADD_OR_REMOVE),
    "with_sizes": ("`known=sl.GroupSizes(...)`: told the sizes of the groups", DECLARED),
    "without_constant": ("`fit_intercept=False`: told that there is no constant", ADD_OR_REMOVE),
}


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A method of a library that answers the questions of a task."""

    peer: str
    method: str
    #: The call, in words or code.
    call: str
    neighbours: str = ADD_OR_REMOVE
    #: Epsilon is multiplied by it: 2 where replacing is protected, and nothing said about adding or removing.
    factor: int = 1
    #: Whether it needs a delta (it is not asked pure questions), has no use for one, or takes what comes.
    delta: str = "any"
    #: Names of cases, where not all of the task.
    only: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: float = SECONDS
    patience: float = PATIENCE
    #: What ours is given in addition where it is compared with this one, a name of `TOLD`.
    against: str | None = None
    #: Whether ten releases take minutes: left out where only a few minutes are to be had.
    slow: bool = False

    @property
    def name(self) -> str:
        """What it is called in the numbers."""
        settings = "".join(f" {key}={value}" for key, value in self.settings.items())
        return f"{self.peer} {self.method}{settings}{f' at {self.factor} epsilon' if self.factor > 1 else ''}"

    def enters(self, case: Case) -> bool:
        """Say whether it answers this case."""
        return (not self.only or case.name in self.only) and (self.delta != "needed" or case.delta is not None)

    def public(self, case: Case) -> dict[str, Any]:
        """Return the input of its program."""
        epsilon = Fraction(case.epsilon) * self.factor
        told = {**case.public, "epsilon": float(epsilon), "delta": case.delta, "public_share": PUBLIC_SHARE}
        if case.delta is not None:  # for those who count in zCDP: the largest rho that proves this epsilon and delta
            told["rho"] = float(zcdp_within(epsilon, Fraction(case.delta)))
        return {**told, **({"settings": self.settings} if self.settings else {})}

    def promise(self, case: Case) -> str:
        """Return what it promises, in words."""
        epsilon = f"ε = {float(Fraction(case.epsilon) * self.factor):g}"
        delta = f", δ = {case.delta}" if case.delta is not None and self.delta != "none" else ""
        return f"{epsilon}{delta}, {self.neighbours}"


#: Settings of the objective perturbation that its users tune, tried in addition to its defaults.
_TURNED = {"C": 0.01, "fit_intercept": False}
#: Spark takes a minute to begin, and seconds for each release.
_SPARK: dict[str, Any] = {"peer": "tumult", "seconds": 60, "patience": 420, "slow": True}
#: Its models know replaced rows only, and take no delta.
_MODELS: dict[str, Any] = {"peer": "diffprivlib", "neighbours": REPLACE, "factor": 2, "delta": "none"}
#: By task, in the order of the page.
ENTRANTS: dict[str, list[Entrant]] = {
    "counts": [
        Entrant(
            peer="opendp", method="counts", call="`Context` over Polars, `group_by(...).agg(dp.len()).with_keys(...)`"
        ),
        Entrant(peer="diffprivlib", method="counts", call="`tools.histogram`, a bin a group"),
        Entrant(peer="smartnoise-sql", method="counts", call="`SELECT g, COUNT(*) ... GROUP BY g`", neighbours=KEYS),
        Entrant(peer="python-dp", method="counts", call="`Count` of each group"),
        Entrant(method="counts", call="`groupby(keys).count()`", only=("counts at epsilon 1",), **_SPARK),
    ],
    "means": [
        Entrant(
            peer="opendp", method="means", call="`Context` over Polars, `.dp.mean(bounds)` by group, `with_keys(...)`"
        ),
        Entrant(peer="diffprivlib", method="means", call="`tools.mean` of each group", neighbours=MOVED),
        Entrant(
            peer="diffprivlib",
            method="means",
            call="`tools.mean` of each group",
            neighbours=WITHIN,
            factor=2,
            against="with_sizes",
        ),
        Entrant(peer="smartnoise-sql", method="means", call="`SELECT g, AVG(x) ... GROUP BY g`", neighbours=KEYS),
        Entrant(peer="python-dp", method="means", call="`BoundedMean` of each group"),
        Entrant(method="means", call="`groupby(keys).average(...)`", only=("means",), **_SPARK),
    ],
    "quantiles": [
        Entrant(
            peer="opendp", method="quantiles", call="a tree of 4096 counts, made consistent, from its constructors"
        ),
        Entrant(peer="diffprivlib", method="quantiles", call="`tools.quantile` for each level, a share each"),
        Entrant(peer="python-dp", method="quantiles", call="`QuantileTree`, height 4, branching 16"),
        Entrant(
            method="quantiles", call="`quantile(...)` for each level, a share each", only=("9 quantiles",), **_SPARK
        ),
    ],
    "covariance": [
        Entrant(peer="opendp", method="covariance", call="`PCA`", neighbours=REPLACE, factor=2, patience=45),
        Entrant(
            peer="diffprivlib", method="covariance", call="`covariance_eig`", neighbours=REPLACE, factor=2, patience=45
        ),
    ],
    "linear": [
        Entrant(
            peer="opendp",
            method="linear",
            call="`sklearn.linear_model.LinearRegression` (Theil-Sen; one predictor only)",
            delta="none",
            only=("linear regression on 1 column",),
        ),
        Entrant(method="linear", call="`models.LinearRegression` (the functional mechanism)", **_MODELS),
        Entrant(peer="interpret", method="linear", call="`DPExplainableBoostingRegressor`", neighbours=EBM_NUMBERS),
    ],
    "logistic": [
        Entrant(method="logistic", call="`models.LogisticRegression`, its defaults", **_MODELS),
        Entrant(
            method="logistic",
            call="`models.LogisticRegression(C=0.01, fit_intercept=False)`, turned by hand",
            settings=_TURNED,
            against="without_constant",
            **_MODELS,
        ),
        Entrant(peer="interpret", method="logistic", call="`DPExplainableBoostingClassifier`", neighbours=EBM),
    ],
    "additive": [
        Entrant(
            peer="interpret",
            method="additive",
            call="`DPExplainableBoostingClassifier`, ranges and types given",
            neighbours=EBM,
            only=("additive model of adult",),
        ),
        Entrant(
            peer="interpret",
            method="additive",
            call="`DPExplainableBoostingRegressor`, ranges and types given",
            neighbours=EBM_NUMBERS,
            only=("additive model of bike", "additive model of wine"),
        ),
    ],
    "marginals": [
        Entrant(
            peer="opendp",
            method="marginals",
            call="`Context` over Polars, a count a pair, a share each",
            delta="none",
            patience=600,
            slow=True,
        ),
        Entrant(peer="diffprivlib", method="marginals", call="`tools.histogram2d` a pair, a share each", delta="none"),
        Entrant(
            peer="smartnoise-sql",
            method="marginals",
            call="`SELECT a, b, COUNT(*)` a pair, a share each",
            delta="none",
            neighbours=KEYS,
            slow=True,
        ),
        Entrant(peer="smartnoise-synth", method="marginals_of_mwem", call="`mwem`, 12 rounds", delta="none", slow=True),
        Entrant(
            peer="opendp",
            method="marginals_of_mst",
            call="`mbi.MST`, which measures a tree of five pairs",
            delta="needed",
            patience=600,
            slow=True,
        ),
        Entrant(
            peer="smartnoise-synth",
            method="marginals_of_mst",
            call="`mst`, which measures a tree of five pairs",
            delta="needed",
            patience=600,
            slow=True,
        ),
    ],
}


def ours(case: Case, *, told: str | None = None) -> Entrant:
    """Return our own entrant, with its defaults or with additional information, a name of `TOLD`."""
    if told is None:
        return Entrant(peer=OURS, method=case.task, call="as it comes", seconds=60)
    call, neighbours = TOLD[told]
    return Entrant(peer=OURS, method=f"{case.task}_{told}", call=call, neighbours=neighbours, seconds=60)


def entrants_of(case: Case) -> Iterable[Entrant]:
    """Return who answers a case; pure methods answer the pure marginals only."""
    for entrant in ENTRANTS[case.task]:
        twice = case.task == "marginals" and case.delta is not None and entrant.delta == "none"
        if entrant.enters(case) and not twice:
            yield entrant
