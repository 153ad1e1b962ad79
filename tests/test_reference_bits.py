"""Reference bits: releases, charges and claims as they were before the last change.

A change that is meant to leave behaviour alone leaves `reference_bits.json` alone. A change that is meant to alter a
released bit, a request in the ledger, a claim or the description of a prediction writes the file anew,

    python tests/test_reference_bits.py --write

and its commit says why. The cases are those of `reference_cases.py`.

Another machine has another libm and another BLAS, so what is compared how is decided by what it is made of:

* requests, labels, predictions, reasons: equal as text; but a number with ten digits or more that is not an integer
  was a float once (a fit to public data, a calibrated scale) and is compared to 1e-9;
* claims and charges: equal as text, because they come from rational arithmetic; those of `FLOAT_CLAIMS` begin with a
  scale that floats have found, and are held to 1e-9;
* values: whole numbers, texts and numbers on a coarse grid by their SHA-256, if the release is exact; all other floats
  (idealized noise, and what is computed from exact noise afterwards) by the first few and a sum over all, to 1e-6.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import math
import pkgutil
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl
from reference_cases import Done, reference_cases
from sidelight.ledger.decide import DECLARED
from sidelight.noise import Source
from sidelight.session import pipeline
from sidelight.session.query import Prepared
from sidelight.testing import SeededEntropy
from what_stays import changes, snapshot

FILE = Path(__file__).with_name("reference_bits.json")
#: Parts of a request that are digests: of the schema, of what teachers are asked, and of a known covariance.
DIGESTS = (DECLARED, "question", "covariance_sha256")
#: Kinds of requests whose claims and charges begin with a float: a calibrated scale, a composition on a grid.
FLOAT_CLAIMS = {
    "additive_model",
    "linear_model",
    "together",
    "gaussian",
    "gaussian_mean",
    "gaussian_mixture",
    "labels",
    "selection",
}
CLAIM_TOLERANCE = 1e-9
VALUE_TOLERANCE = 1e-6
#: Fractions with more characters become decimals.
LONG = 48
_NUMBER = re.compile(r"-?\d+(\.\d*)?([eE][-+]?\d+)?(/\d+)?")
_ENTRY = re.compile(r"\b[0-9a-f]{32}\b")


def bits_of(done: Done) -> dict[str, Any]:
    """Return everything public of a case as plain JSON, by outcome, without what is new in every run."""
    found: dict[str, Any] = {}
    for place, outcome in enumerate(done.outcomes):
        record = _outcome(json.loads(outcome.to_json()), outcome)
        if place < len(done.entries):
            record["booked"] = _booked(done.entries[place], record)
        found[done.name if place == 0 else f"{done.name} {place + 1}"] = record
    known = {entry.entry_id: f"entry {place + 1}" for place, entry in enumerate(done.entries)}
    return json.loads(_ENTRY.sub(lambda hit: known.get(hit[0], hit[0]), json.dumps(found)))


def _booked(entry: Any, record: dict[str, Any]) -> dict[str, Any]:
    """Return what the ledger has of a charge; request and claims only where the outcome says something else."""
    found = {"charge": entry.charge.to_json(), "state": entry.state}
    asked = {name: part for name, part in entry.request.items() if name not in DIGESTS}
    said = {"request": asked, "claims": _short(entry.claims.to_json())}
    return found | {name: part for name, part in said.items() if record.get(name) != part}


def _stated(error: Any) -> Any:
    """Return a bound by its formula; None of one that was measured on generated rows, by floats of this machine."""
    return None if error is None or "generated ones" in error["assumption"] else _rounded(error)


def _outcome(written: dict[str, Any], outcome: Any) -> dict[str, Any]:
    if "circumstances" not in written:  # a report of an expert's client: whole numbers, and the nonce of its noise
        return {"report": written}
    exact = written["circumstances"]["numerics"] == "exact"
    found = {
        "type": written["type"],
        "request": {name: part for name, part in written["query"].items() if name not in DIGESTS},
        "claims": _short(written["guarantee"]),
        "numerics": written["circumstances"]["numerics"],
    }
    if written["type"] == "refused":
        return found | {"reason": written["reason"]}
    value = written["value"]
    parts = value["mapping"] if isinstance(value, dict) and "mapping" in value else {"": value}
    if written["query"]["kind"] == "synthetic_table":
        columns = list(written["labels"][:2])
        parts = parts | {"distribution": sl.Synthetic(outcome).answer(columns).counts.tolist()}  # it is packed
    floats: list[float] = []
    bits = {name: _digest(_without_floats(part, floats, exact=exact)) for name, part in sorted(parts.items())}
    prediction = written["prediction"]
    if prediction is not None and "priors" in prediction and prediction["priors"] == written["query"]["priors"]:
        prediction = prediction | {"priors": "as in the request"}
    return found | {
        "labels": written["labels"],
        "prediction": prediction,
        "error": _stated(written["error"]),
        "value": {"bits": bits, "floats": _some(floats)},
    }


def _digest(part: Any) -> str:
    """Return a part of a value itself, if it is short, or the beginning of its SHA-256."""
    written = json.dumps(part, sort_keys=True)
    return written if len(written) <= 16 else hashlib.sha256(written.encode()).hexdigest()[:16]


def _some(floats: list[float]) -> list[float]:
    """Return the first few numbers and a sum over all of them in which their places count."""
    mixed = math.fsum(number * (1 + place % 7) for place, number in enumerate(floats))
    return _rounded([*floats[:5], mixed] if floats else [])


def _rounded(part: Any) -> Any:
    """Return floats with the digits that are compared."""
    if isinstance(part, dict):
        return {name: _rounded(inner) for name, inner in part.items()}
    if isinstance(part, list):
        return [_rounded(inner) for inner in part]
    return float(f"{part:.9g}") if isinstance(part, float) else part


def _without_floats(part: Any, floats: list[float], *, exact: bool) -> Any:
    if isinstance(part, dict):
        return {name: _without_floats(inner, floats, exact=exact) for name, inner in sorted(part.items())}
    if isinstance(part, list):
        return [_without_floats(inner, floats, exact=exact) for inner in part]
    if isinstance(part, float) and not (exact and _on_a_grid(part)):
        floats.append(part)
        return "float"
    return part


def _on_a_grid(number: float) -> bool:
    """Return whether a float is a multiple of 2**-20 or has at most eight digits: no libm made its last bits."""
    return (number * 2**20).is_integer() or float(f"{number:.8g}") == number


def _short(claims: Any) -> Any:
    """Return claims with fractions of eighty digits as decimals, which are compared with a tolerance anyway."""
    if isinstance(claims, dict):
        return {name: _short(inner) for name, inner in claims.items()}
    if isinstance(claims, list):
        return [_short(inner) for inner in claims]
    if isinstance(claims, str) and "/" in claims and len(claims) > LONG and _NUMBER.fullmatch(claims):
        return f"{float(Fraction(claims)):.13g}"
    return claims


def difference(stored: Any, fresh: Any, key: str = "", *, loose: bool = False) -> str | None:
    """Return the first key at which two records of a case differ, with both sides, or None."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        loose = loose or stored.get("request", {}).get("kind") in FLOAT_CLAIMS
        for name in sorted(stored.keys() | fresh.keys()):
            if name not in stored or name not in fresh:
                return f"{key}/{name}: only {'stored' if name in stored else 'fresh'}"
            found = difference(stored[name], fresh[name], f"{key}/{name}", loose=loose)
            if found is not None:
                return found
        return None
    if isinstance(stored, list) and isinstance(fresh, list):
        if len(stored) != len(fresh):
            return f"{key}: {len(stored)} parts were stored, {len(fresh)} came"
        pairs = zip(stored, fresh, strict=True)
        return next(filter(None, (difference(*each, f"{key}/{n}", loose=loose) for n, each in enumerate(pairs))), None)
    return None if _same(stored, fresh, key, loose=loose) else f"{key}: {stored!r} was stored, {fresh!r} came"


def _same(stored: Any, fresh: Any, key: str, *, loose: bool) -> bool:
    if isinstance(stored, float) and isinstance(fresh, float):
        return math.isclose(stored, fresh, rel_tol=VALUE_TOLERANCE, abs_tol=1e-9)
    if type(stored) is not type(fresh) or stored == fresh:
        return type(stored) is type(fresh)
    sides = [side for side in (stored, fresh) if isinstance(side, str) and _NUMBER.fullmatch(side)]
    if len(sides) < 2 or max(sum(map(str.isdigit, side)) for side in sides) < 10:
        return False
    whole = all(side.lstrip("-").isdigit() for side in sides)
    rational = "/claims/" in key or "/charge/" in key
    if (rational or whole) and not loose:
        return False
    left, right = (Fraction(side) for side in sides)
    return abs(left - right) <= Fraction(CLAIM_TOLERANCE) * abs(left)


def write(folder: Path) -> None:
    """Store the bits of this code, each record as a difference from an earlier one."""
    records = {name: record for done in reference_cases(folder) for name, record in bits_of(done).items()}
    lines: list[str] = []
    for place, (name, record) in enumerate(records.items()):
        found = _compact({"like": None, **record})
        for other in list(records)[:place]:
            found = min(found, _compact({"like": other, **_changes(records[other], record)}), key=len)
        lines.append(f"{json.dumps(name)}: {found}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def read() -> dict[str, Any]:
    """Return the stored records of all outcomes, each whole."""
    whole: dict[str, Any] = {}
    for name, stored in json.loads(FILE.read_text(encoding="utf-8")).items():
        like = stored.pop("like")
        whole[name] = _changed({} if like is None else whole[like], stored)
    return whole


def _compact(part: Any) -> str:
    return json.dumps(part, separators=(",", ":"), ensure_ascii=False)


def _changes(old: Any, new: Any) -> Any:
    """Return what makes `old` into `new`: names that changed and names that are gone, or the whole of anything else."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        places = {str(n): _changes(*each) for n, each in enumerate(zip(old, new, strict=True)) if each[0] != each[1]}
        return min({"places": places}, new, key=lambda each: len(_compact(each)))
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    found = {name: _changes(old.get(name), part) for name, part in new.items() if name not in old or old[name] != part}
    gone = [name for name in old if name not in new]
    return found | ({"gone": gone} if gone else {})


def _changed(old: Any, changes: Any) -> Any:
    if not isinstance(changes, dict):
        return changes
    if changes.keys() == {"places"}:
        return [_changed(part, changes["places"].get(str(place), part)) for place, part in enumerate(old)]
    kept = old if isinstance(old, dict) else {}
    kept = {name: part for name, part in kept.items() if name not in changes.get("gone", [])}
    return kept | {name: _changed(kept.get(name), part) for name, part in changes.items() if name != "gone"}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str], set[type]]:
    """Release every case once; return the records, what changed in prepared queries, and which of them ran."""
    changed: list[str] = []
    run_one = pipeline._run_one

    def watched(prepared: Any, *given: Any, **named: Any) -> Any:
        before = snapshot(prepared)
        outcome = run_one(prepared, *given, **named)
        # a private stream lives as long as its process and is never saved: it holds its sums by design (limitations)
        left = [path for path in changes(before, snapshot(prepared)) if not path.startswith(".step.run.")]
        changed.extend(f"{type(prepared).__name__}{path}" for path in left)
        return outcome

    with pytest.MonkeyPatch.context() as patch:
        ran = watch_runs(patch)
        patch.setattr(pipeline, "_run_one", watched)
        cases = reference_cases(tmp_path_factory.mktemp("reference"))
        fresh = {name: record for done in cases for name, record in bits_of(done).items()}
    return fresh, changed, ran


def watch_runs(patch: pytest.MonkeyPatch) -> set[type]:
    """Note, from now on, every class whose own `run` is called."""
    ran: set[type] = set()

    def watched(kind: type, run: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Any, *args: Any, **named: Any) -> Any:
            ran.add(kind)
            return run(self, *args, **named)

        return noted

    for kind in classes_that_run():
        patch.setattr(kind, "run", watched(kind, kind.__dict__["run"]))
    return ran


def classes_that_run() -> set[type]:
    """Return every class of the library that has a `run` of its own for a prepared query."""
    for module in pkgutil.walk_packages(sl.__path__, "sidelight."):
        if not module.name.startswith(("sidelight.cli", "sidelight.__main__", "sidelight.records.engines")):
            importlib.import_module(module.name)
    found, left = set(), [Prepared]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        own = kind.__dict__.get("run")
        if kind.__module__.startswith("sidelight.") and own is not None and not hasattr(own, "__isabstractmethod__"):
            found.add(kind)
    return found


def test_every_run_has_a_reference_case(released: tuple[dict[str, Any], list[str], set[type]]) -> None:
    without = sorted(kind.__qualname__ for kind in classes_that_run() - released[2])
    assert len(released[2]) > 30
    assert not without, f"no reference case runs {', '.join(without)}; add one to reference_cases.py"


def test_nothing_of_the_rows_stays_in_a_prepared_query(released: tuple[dict[str, Any], list[str], set[type]]) -> None:
    """A prepared query is public and outlives its release: what it looked up at records must be gone."""
    _, changed, ran = released
    assert len(ran) > 30
    assert not changed


def test_a_lookup_that_stays_is_seen() -> None:
    table = sl.Table({"a": [3.0, 4.0, 50.0]}, schema=[sl.Number("a", granularity=1)])
    prepared = sl.Quantiles([0.5], column="a", epsilon=1, prediction=sl.priors.Cauchy(0, 1)).prepare(table.schema)
    remembering = replace(prepared, compiled=tuple(each.fresh() for each in prepared.compiled))
    for query, stays in ((prepared, False), (remembering, True)):
        before = snapshot(query)
        with Source(SeededEntropy(1)) as source:
            query.run(table, source)
        assert any("_pieces" in path for path in changes(before, snapshot(query))) == stays


def test_reference_bits_are_unchanged(released: tuple[dict[str, Any], list[str], set[type]]) -> None:
    stored = read()
    fresh = released[0]
    found = {name: difference(stored[name], fresh[name]) for name in stored if name in fresh}
    changed = [f"{name}{text}" for name, text in found.items() if text is not None]
    told = "reference bits have changed (python tests/test_reference_bits.py --write, if that is meant):"
    assert not changed, "\n".join([told, *changed])
    assert list(stored) == list(fresh), "cases came or went: python tests/test_reference_bits.py --write"


def test_the_file_is_small_and_holds_results_of_all_sorts() -> None:
    assert FILE.stat().st_size < 120_000
    stored = read().values()
    assert {each.get("numerics") for each in stored} == {"exact", "idealized", None}
    assert {each.get("type") for each in stored} == {"release", "refused", None}
    assert {each["booked"]["state"] for each in stored if "booked" in each} == {"released", "refused"}


CHANGES: dict[str, tuple[str | int, ...]] = {
    "released bit": ("value", "bits", ""),
    "request": ("request", "epsilon"),
    "claim": ("claims", 0, "epsilon"),
    "rational claim": ("claims", 1, "mu"),
    "numerics": ("numerics",),
    "label": ("labels", 1),
    "prediction": ("prediction", "description"),
    "error": ("error", "fixed", 0),
    "charge": ("booked", "charge", "mu_squared"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_and_named(change: str) -> None:
    stored = read()["quantiles, gaussian"]
    fresh = copy.deepcopy(stored)
    *path, last = CHANGES[change]
    inner: Any = fresh
    for step in path:
        inner = inner[step]
    old = inner[last]
    inner[last] = old * (1 + 1e-5) if isinstance(old, float) else f"{old}1"
    assert difference(stored, copy.deepcopy(stored)) is None
    assert f"/{'/'.join(map(str, CHANGES[change]))}: " in str(difference(stored, fresh))


def test_floats_of_another_machine_are_no_change() -> None:
    """The last digits of a calibrated scale, of its claims and of a fitted model may differ; the eighth may not."""
    stored = read()["linear svc"]

    def seen(share: float) -> list[str | None]:
        found = []
        for *path, last in (("request", "noise_scale"), ("claims", 1, "curve", "2"), ("booked", "charge", "rho")):
            fresh = copy.deepcopy(stored)
            inner: Any = fresh
            for step in path:
                inner = inner[step]
            inner[last] = str(int(Fraction(inner[last]) * 10**30 * (1 + Fraction(share)))) + "e-30"
            found.append(difference(stored, fresh))
        return found

    assert seen(1e-12) == [None, None, None]
    assert None not in seen(1e-7)


if __name__ == "__main__" and "--write" in sys.argv:
    with tempfile.TemporaryDirectory() as place:
        write(Path(place))
