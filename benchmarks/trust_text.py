"""The text of the trust page, from numbers that `benchmarks.trust_page` measured, the registry, and SECURITY.md."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.audit_queries import ELSEWHERE
from benchmarks.audit_tight import Tight
from benchmarks.planted_bugs import counted
from sidelight.audit import QueryAudit, at_least, at_most
from sidelight.registry import ENTRIES

#: Parts of the numbers that are about faults of machines.
FAULTS = ("kills", "interleavings", "power loss")
#: Where it is proved, by public name, and by package for the others.
_PROOFS = {
    "AdaSSP": ("../explanation/ridge-regression",),
    "LinearRegression": ("descent",),
    "LogisticRegression": ("descent", "objective-perturbation"),
    "PrivateHistograms": ("learning", "sequences"),
    "SeparatedMixture": ("gaussian-mixtures",),
    "GaussianMixture": ("gaussian-mixtures",),
    "GaussianModel": ("gaussians",),
    "PCA": ("covariance",),
    "PATE": ("stability",),
    **dict.fromkeys(("AdaOPS", "OPSPTR", "StableLogistic"), ("stability",)),
    "quantiles": ("quantiles",),
    "summaries": ("summaries",),
    "covariance": ("covariance",),
    "gaussians": ("gaussians",),
    "synthesis": ("synthesis",),
    "regression": ("objective-perturbation",),
    "stability": ("stability",),
    "tuning": ("tuning",),
}
_TOP = """# Why trust it, and why not

A claim of this library is one that somebody tried to refute. This page says how, how far it got, which mistakes the
attacks are known to find, what was ever wrong and who was affected. It is written by `make trust` (quick) and `make
audit` (long), from numbers that the same command measured (`docs/trust.json`); no number here was typed in. Measured:
{days}.

* Who the attacker is, and what is out of scope: the [threat model](explanation/threat-model.md).
* How the attacks work and what they cannot show: [how we attack our own claims](explanation/audits.md).
* What is known to be weak: the [limitations](limitations.md).
* Attack your own plan: `sidelight audit plan.toml`; your own query: `sidelight.audit.audit_query`.
"""
_MECHANISMS = """## Every query and estimator

Found by walking the registry; each was run on small neighbouring data sets that the auditor searched for itself, half
of the runs to choose an attack and half to judge it. *Refuted* is the largest amount of the claim that the judging
half excludes with 95 % confidence. A *share* above 1 would make the claim false; one near 1 says that the attack has
teeth; a small one says that the attack is weak there, and trust rests on the proof. *Reach* is what so few runs could
have refuted of an (epsilon, delta) claim if the unit were given away every time: where it is below the claim, a quick
audit cannot refute it. *Bits*: whether the claim is proved for the released bits (exact) or for the real-number
algorithm (idealized). *Time* is the epsilon that running time alone showed on the machine that wrote this page; no
claim speaks of it. *Oversold*: whether the same attack, with 960 runs, refutes the claim when what runs has 32 times
the price (noise 32 times too small): where it does not, a quick audit that refutes nothing says little. *Planted*
counts bugs of this query that were planted and caught; *defects* are classes of past defects (below) that name it.
"""
_TIGHT = """## Claims that can nearly be reached

The same attack on data where theory says that it should come close. An auditor that could not come near these would
have no teeth.
"""
_ELSEWHERE = """## Attacked by tests of their own

No table can be generated for these, or what they release is computed from another query's release.
"""
_MEMBERSHIP = """## Was this person among the rows?

Membership inference by shadow models (`benchmarks/membership.py`): the attacker knows the population and one person,
and fits the same method many times with and without that person. Without protection the attack works.
"""


def render(numbers: Mapping[str, Any], security: str) -> str:
    """Return the page; parts that were not measured say so."""
    found = {name: part["found"] for name, part in numbers.items()}
    days = "; ".join(f"{name} {each['day']} (version {each['version']})" for name, each in sorted(numbers.items()))
    classes, bugs = defects(security), found.get("planted", {})
    parts = [_TOP.format(days=days), _meter(found.get("meter", {})), _MECHANISMS, _mechanisms(found, bugs, classes)]
    parts += [_TIGHT, _tight(found.get("tight", {})), _ELSEWHERE, _elsewhere(), _planted(bugs)]
    parts += [
        _MEMBERSHIP,
        _tight(found.get("membership", {})),
        _faults({name: found[name] for name in FAULTS if name in found}),
    ]
    parts += [_fuzzing(found.get("fuzzing", {})), _timing(found.get("timing", {})), _defects(classes)]
    return "\n".join([*parts, _reporting(security)])


def _meter(found: Mapping[str, float]) -> str:
    """Return what the meters of releases counted."""
    if not found:
        return "## The meter of every release\n\nNot measured.\n"
    return (
        "## The meter of every release\n\n"
        "Every draw of a release is priced by what the sampler gets, and the sum is compared with the claim before\n"
        "anything leaves\n"
        "([proof](proofs/accounting.md), section 9; `python -m benchmarks.audit_meter`): "
        f"{found['reference cases']:.0f} reference releases with {found['draws']:.0f} draws and "
        f"{found['random plans']:.0f} of random plans\n"
        f"metered, {found['refused']:.0f} refused, {found['unmetered']:.0f} kinds of queries without a meter.\n"
    )


@dataclass(frozen=True, kw_only=True)
class Defects:
    """A class of defects of SECURITY.md: when, what could happen, who was affected, which tests guard against it."""

    name: str
    when: str
    happened: str
    affected: str
    tests: int


def defects(security: str) -> list[Defects]:
    """Return the classes of defects, in the order of SECURITY.md."""
    found = []
    for section in re.split(r"^## ", security, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if not heading.startswith("Defects"):
            continue
        for text in re.split(r"^### ", body, flags=re.MULTILINE)[1:]:
            name, _, rest = text.partition("\n")
            parts = dict(re.findall(r"\*\*([\w ]+):\*\* (.*?)(?= \* \*\*|$)", " ".join(rest.split())))
            tests = len(set(re.findall(r"`(tests/[\w/]+\.py)`", rest)))
            found.append(
                Defects(
                    name=name,
                    when=heading.removeprefix("Defects").strip(),
                    happened=parts["Could happen"],
                    affected=parts["Affected"],
                    tests=tests,
                )
            )
    return found


def reach(found: QueryAudit) -> float:
    """Return the largest epsilon that this many runs can refute: all of one half hit, none of the other."""
    half, failure = found.runs // 2, found.failure / len(found.judged) / 2
    lowest, highest = at_least(half, half, failure=failure), at_most(0, half, failure=failure)
    return max(0.0, math.log(lowest / highest))


def proof_of(name: str) -> str:
    """Return links to the proofs of a public name."""
    package = {entry.name: entry.home.split(".")[1] for entry in ENTRIES}.get(name, "regression")
    pages = _PROOFS.get(name) or _PROOFS[package]
    places = [f"proofs/{page}.md".replace("proofs/../", "") for page in pages]
    return ", ".join(f"[{Path(place).stem}]({place})" for place in places)


def is_of(name: str, bug: Mapping[str, Any]) -> bool:
    """Return whether a planted bug would be one of this query: its mark says so, or its test is the query's audit."""
    audit = {entry.name: entry.audit for entry in ENTRIES}.get(name)
    whose = bug.get("of", ())
    return name in whose or (not whose and bug["test"].partition("::")[0] == f"tests/{audit}")


def _mechanisms(found: Mapping[str, Any], bugs: Mapping[str, Any], classes: list[Defects]) -> str:
    oversold = {name: QueryAudit.from_json(data).refuted for name, data in found.get("oversold", {}).items()}
    heads = (
        "query",
        "claim",
        "proof",
        "bits",
        "refuted",
        "share",
        "reach",
        "pairs",
        "runs",
        "time",
        "oversold",
        "planted",
        "defects",
    )
    rows = []
    for name, data in found.get("queries", {}).items():
        each = QueryAudit.from_json(data)
        planted = sum(bug["outcome"] == "caught" and is_of(name, bug) for bug in bugs.values())
        named = sum(re.search(rf"`(sl\.)?{name}\b", one.happened + one.affected) is not None for one in classes)
        seen = {True: "refuted", False: "not seen", None: "not run"}[oversold.get(name)]
        about = (each.best.claim, proof_of(name), each.numerics, *_amounts(each))
        rows.append((f"`sl.{name}`", *about, seen, planted, named))
    return _table(heads, rows)


def _tight(tight: Mapping[str, Any]) -> str:
    rows = []
    for name, data in tight.items():
        each = Tight(**data)
        refuted = f"{each.refuted:.2f}{' **REFUTED**' if each.surely > each.claimed else ''}"
        rows.append((name, each.claim, refuted, f"{each.share:.2f}", each.runs, each.where))
    return _table(("mechanism", "claim", "refuted", "share", "runs", "where"), rows)


def _amounts(each: QueryAudit) -> tuple[Any, ...]:
    refuted = f"{each.best.refuted:.2f}{' **REFUTED**' if each.refuted else ''}"
    numbers = (f"{each.share:.2f}", f"{reach(each):.1f}", each.pairs_tried, each.runs, f"{each.time_epsilon:.1f}")
    return refuted, *numbers


def _elsewhere() -> str:
    return "".join(f"* `sl.{name}` ({proof_of(name)}): `tests/{file}`\n" for name, file in sorted(ELSEWHERE.items()))


def _planted(bugs: Mapping[str, Any]) -> str:
    counts = counted(bugs)
    words = (
        "## Planted bugs\n\nAn attack that finds nothing in broken code proves nothing about sound code, so mistakes\n"
        f"are planted on purpose: {len(bugs)} of them, {counts['caught']} caught, {counts['missed']} missed, "
        f"{counts['not run']} not run by the command\nthat wrote this page (those of slow tests; "
        "`make audit` runs them).\n\n"
    )
    rows = [
        (bug, each["outcome"] if each["outcome"] != "missed" else "**MISSED**", f"`{each['test'].partition('::')[0]}`")
        for bug, each in sorted(bugs.items(), key=lambda item: item[1]["test"])
    ]
    return words + _table(("mistake", "was", "test"), rows)


_FAULTS = """## Kills, forks and power loss

Processes that spend from one ledger, killed at random (`benchmarks/audit_kills.py`), interleaved with forks and other
processes (`audit_overspending.py`), and cut off from power with unsynced writes lost (`power_loss.py`, also for the
experts' journal). Anything but 0 behind *lost*, *doubled*, *overspent*, *forgotten*, *broken* or *stuck* is a defect.

"""
_FUZZING = """## Fuzzing

Plan files, releases as JSON, ledgers as files, cells of CSV and Parquet files and requests to the service that are
nearly right (`tests/audits/fuzz_targets.py`, `make fuzz`): a defect is a traceback, or a private mark in any message,
warning, log line, report or file. {result}.
"""
_TIMING = """## What a clock says about the noise

A clock inside the process at the noise of one count, 0 or 1 (`benchmarks/sampler_timing.py`): the rank correlation of
time and size, and the epsilon that is refuted by the value alone and by value and time together. No claim speaks of
time.

"""


def _faults(faults: Mapping[str, Mapping[str, float]]) -> str:
    rows = [(name, ", ".join(f"{what} {count:.0f}" for what, count in each.items())) for name, each in faults.items()]
    return _FAULTS + _table(("attack", "counted"), rows)


def _fuzzing(found: Mapping[str, float]) -> str:
    result = f"{found['inputs']:.0f} inputs, {found['defects']:.0f} defects" if found else "Not measured"
    return _FUZZING.format(result=result)


def _timing(timing: Mapping[str, Mapping[str, float]]) -> str:
    heads = tuple(dict.fromkeys(name for each in timing.values() for name in each))
    rows = [(law, *(f"{each[name]:.3g}" for name in heads)) for law, each in timing.items()]
    return _TIMING + _table(("noise", *heads), rows)


def _defects(classes: list[Defects]) -> str:
    words = (
        "## What was wrong so far\n\nEvery class of defects that touched privacy, who was affected, and how many test "
        "files\nwould find it again. What could happen, how it was fixed and which tests these are: `SECURITY.md`.\n\n"
    )
    rows = [(each.name, each.when, each.affected, each.tests) for each in classes]
    return words + _table(("class", "when", "affected", "tests"), rows)


def _reporting(security: str) -> str:
    """Return how to report a vulnerability, in the words of SECURITY.md."""
    section = security.partition("## How to report\n")[2].partition("\n## ")[0]
    return "## How to report a vulnerability\n" + section.replace("](docs/", "](").rstrip() + "\n"


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return "Not measured yet: `make trust`.\n"
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
