"""The deployment record of a data set: what was released about whom, at what price, how it was added up and drawn.

Its keys are those that the public registry of differential-privacy deployments asks for
(github.com/opendp/deployments-registry-data). Everything in it comes from the ledger, the schema and the stored
releases, but for what only the publisher knows (`PublisherFacts`). Nothing of it is private: the ledger holds requests,
prices and released values, and of the values none is repeated here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sidelight.errors import LedgerError
from sidelight.guarantees import ZCDP, ApproxDP, Claim, Claims, Person, PersonOf, PureDP, Unit
from sidelight.guarantees.claims import NOT_PROTECTED
from sidelight.ledger import LedgerEntry, Scope
from sidelight.readable import at_most, number_text
from sidelight.records import Category, Column, Date, Label, Number, PersonId, Schema
from sidelight.release import Outcome, Release, outcome_from_json
from sidelight.session.deployment_record import Disclosure, PublisherFacts

#: The delta at which a Gaussian budget is read, which the registry has no key for.
_READ_AT = Fraction(1, 10**6)
_MODELS = ("regression", "svc", "model", "adassp", "adaops", "ops", "pate", "pca", "gaussian")


def disclose(
    facts: PublisherFacts, *, name: str, schema: Schema | Mapping[str, Schema], scope: Scope, daily: bool = False
) -> Disclosure:
    """Return the deployment record of everything that a scope of a ledger released.

    Args:
        facts: What only the publisher knows.
        name: What the data product is called.
        schema: The public declarations; of a database those of each table, by its name.
        scope: The account in the ledger.
        daily: Whether one data set a day is released, of rows that come in over time.
    """
    unit = schema.unit if isinstance(schema, Schema) else scope.definition.unit
    entries = scope.entries()
    outcomes = [outcome for entry in entries for outcome in _outcomes(entry)]
    released = [entry for entry in entries if entry.state == "released"]
    if not released:
        raise LedgerError(f"nothing was released under {scope.scope_id!r} yet, so there is nothing to disclose")
    times = sorted({entry.at_utc[:10] for entry in released})
    many = len(times) > 1 or daily
    parameters, parameters_details = _parameters(scope.rule.budget)
    basic = {
        "name": name,
        "data_curators": [{"data_curator_name": facts.curator, "data_curator_type": facts.curator_type}],
        "description": facts.description or f"Released with differential privacy: {_list(_asked(entries))}.",
        "intended_use": facts.intended_use,
        "data_product_type": _product(released),
        "data_product_region": facts.region,
        "data_product_sector": facts.sector,
        "publication_date": times[0],
    }
    loss = {
        "privacy_unit": "Person" if isinstance(unit, (Person, PersonOf)) else "Record (one row)",
        "privacy_unit_details": _unit_details(
            scope, unit, periods=any(_caps_periods(each.request) for each in entries)
        ),
        "number_of_privacy_units": facts.units,
        "privacy_parameters": parameters,
        "privacy_parameters_details": "\n".join([*parameters_details, *_allotted(scope, entries)]),
    }
    model = {
        "model_name": "Central",
        "actors": facts.actors,
        "release_type": "Many releases" if many else "One release",
        "release_type_details": _cadence(scope, times, daily=daily),
        "data_source_type": facts.data_source or ("Dynamic" if daily else "Static"),
        "access_type": facts.access,
        "access_type_details": "All requests of all analysts are charged to the one budget above, and refused once it "
        "is spent: no assumption is made about collusion.",
    }
    implementation = {
        "preprocessing_and_hyperparameter_tuning": _preprocessing(facts),
        "mechanisms": _mechanisms(scope, outcomes),
        "composition": _composition(scope, entries),
        "post_processing": _joined(
            "Intervals, totals, shrinkage towards predictions and synthetic rows are computed from the noisy numbers"
            f"{', the exact totals' if scope.definition.budget.kept else ''} and public parameters alone.",
            facts.post_processing,
        ),
        "justification": facts.justification,
        "utility": _utility(outcomes),
        "additional_information": "\n".join(facts.links),
    }
    record = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{name} {facts.curator} {times[0][:4]}".lower()).strip("-"),
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": _variant(scope.rule.budget),
                "data_domain": facts.data_domain or f"Any table with the columns {_list(_columns(schema))}.",
                "unprotected_quantities": _unprotected(schema, scope, outcomes, facts),
            },
            "privacy_loss": loss,
            "deployment_model": model,
            "implementation": implementation,
            "administrative": {
                "status": "Draft",
                "registry_authors": list(facts.authors),
                "tier": 3 if facts.justification and facts.actors else 2,
            },
        },
    }
    return Disclosure(record=_without_gaps(record))


def _outcomes(entry: LedgerEntry) -> list[Outcome]:
    if entry.text is None or entry.state not in ("released", "refused"):
        return []
    found = json.loads(entry.text)
    return [outcome_from_json(text) for text in found] if isinstance(found, list) else [outcome_from_json(entry.text)]


def _requests(entries: Iterable[LedgerEntry]) -> Iterable[Mapping[str, Any]]:
    for entry in entries:
        yield from entry.request["queries"] if _is_batch(entry.request) else [entry.request]  # type: ignore[misc]


def _is_batch(request: Mapping[str, Any]) -> bool:
    """Return whether queries were released together; a statement is one query, whatever it is made of."""
    return request.get("kind") == "together"


def _asked(entries: Iterable[LedgerEntry]) -> list[str]:
    return list(dict.fromkeys(_title(request) for request in _requests(entries)))


def _title(request: Mapping[str, Any]) -> str:
    if "statement" in request:
        return str(request["statement"])
    parts = [str(request.get("kind", "?")).replace("_", " ")]
    for word, key in (("of", "column"), ("by", "by")):
        value = request.get(key)
        if value:
            parts.append(f"{word} {_list(value) if isinstance(value, list) else value}")
    return " ".join(parts)


def _product(entries: Sequence[LedgerEntry]) -> str:
    kinds = {str(request.get("kind")) for request in _requests(entries)}
    if kinds == {"synthetic_table"}:
        return "Synthetic data"
    if kinds == {"sql"}:
        return "SQL queries"
    models = all(any(word in kind for word in _MODELS) for kind in kinds)
    return "Machine learning model" if models else "Summary statistics"


def _variant(budget: Claim) -> str:
    names = {PureDP: "Pure DP", ApproxDP: "Approximate DP", ZCDP: "Zero-concentrated DP"}
    return names.get(type(budget), "Custom")


def _parameters(budget: Claim) -> tuple[dict[str, float], list[str]]:
    """Return the parameters that the registry has keys for, and what to say about them."""
    if isinstance(budget, PureDP):
        return {"epsilon": _up(budget.epsilon)}, []
    if isinstance(budget, ZCDP):
        return {"rho": _up(budget.rho)}, []
    said: list[str] = []
    if not isinstance(budget, ApproxDP):
        said = [f"The budget is {budget}; the epsilon given here is what it means at that delta."]
        found = Claims.of(budget).approx_at(_READ_AT)
        assert found is not None, "every budget has an (epsilon, delta) reading"
        budget = found
    return {"epsilon": _up(budget.epsilon), "delta": _up(budget.delta)}, said


def _up(amount: Fraction) -> float:
    """Return a number that is not below an exact amount: what is said must hold."""
    if amount.denominator == 1:
        return int(amount)
    found = float(amount)
    return math.nextafter(found, math.inf) if Fraction(repr(found)) < amount else found


def _columns(schema: Schema | Mapping[str, Schema]) -> dict[str, Column]:
    """Return the declared columns by their names, in a database behind that of their table."""
    if isinstance(schema, Schema):
        return {column.name: column for column in schema.columns}
    return {f"{name}.{column.name}": column for name, each in schema.items() for column in each.columns}


def _caps_periods(request: Mapping[str, Any]) -> bool:
    """Return whether a recorded request, or one of its batch, counts rows of each period alone."""
    several = request.get("queries", ())
    view = request.get("view")
    own = isinstance(view, Mapping) and view.get("cap") == "block"
    return own or any(isinstance(each, Mapping) and _caps_periods(each) for each in several)


def _unit_details(scope: Scope, unit: Unit, *, periods: bool) -> str:
    neighbours = f"Neighbours: {scope.definition.neighbours} {unit}."
    if kept := scope.definition.budget.kept:
        relation = f"Neighbours: replace one {unit} by another with the same published totals."
        return _joined(relation, f"Exact: {kept}.", NOT_PROTECTED)
    if isinstance(unit, Person):
        said = (
            f"Two data sets are adjacent if one has, in addition, all rows of one person: rows with the same value of "
            f"the column {unit.column!r}. At most {unit.max_rows} of a person's rows count; which ones is chosen by a "
            "fixed public rule from that person's rows alone. The number of rows and of persons is protected."
        )
    elif isinstance(unit, PersonOf):
        said = (
            "Two data sets are adjacent if one has, in addition, all rows of one person in all tables of "
            f"{unit.database}. How many of them count in a statistic is declared for each table"
            f"{', and holds for each period alone where a release says so' if periods else ''}; which ones is chosen "
            "by a fixed public rule from that person's rows alone. The number of rows and of persons is protected."
        )
    else:
        said = "Two data sets are adjacent if one has one row more. The number of rows is protected."
    parts = scope.definition.partitioned_by
    return _joined(neighbours, said, f"In parts, by {parts}; this is not checked." if parts else None)


def _allotted(scope: Scope, entries: Sequence[LedgerEntry]) -> list[str]:
    lines = [scope.statement(), "How it was allotted, request by request:"]
    for entry in entries:
        paid = "" if entry.state == "released" else f" ({entry.state}; the charge stands)"
        lines.append(f"- {entry.at_utc[:10]}: {_list(_asked([entry]))}: {entry.claims.strongest}{paid}")
    outside = len(scope.charged()) - len(entries)
    if outside:
        lines.append(f"- booked from other tools: {outside} charges")
    lines.append(str(scope.spent()))
    return lines


def _cadence(scope: Scope, days: Sequence[str], *, daily: bool) -> str:
    closed = "The budget never resets: once it is spent, every further request is refused."
    if len(days) == 1:
        first = f"Released on {days[0]}."
        return _joined(first, "A new data set is released every day." if daily else None, closed)
    each = "Every day has rows of its own." if daily else None
    return _joined(f"Released on {len(days)} days, from {days[0]} to {days[-1]}.", each, closed)


def _preprocessing(facts: PublisherFacts) -> str:
    rules = (
        "Cell by cell: numbers and dates are clamped to declared bounds, labels that are not declared count as the "
        "declared other label or are left out, and missing cells are left out or filled with a declared value. Bounds, "
        "labels, steps and caps are declarations: the library reads none of them from the rows, and refuses a plan "
        "that says that they were."
    )
    return _joined(rules, facts.preprocessing)


def _mechanisms(scope: Scope, outcomes: Sequence[Outcome]) -> str:
    drawn: dict[str, int] = {}
    for outcome in outcomes:
        for line in outcome.spending:
            drawn[line["law"]] = drawn.get(line["law"], 0) + 1
    versions = sorted({outcome.circumstances.version for outcome in outcomes})
    idealized = sorted({_title(each.query) for each in outcomes if each.circumstances.numerics != "exact"})
    exact = (
        "Floating point: noise is drawn exactly, on integers or a fixed grid, and added to exact sums; no claim rests "
        "on real-number arithmetic."
    )
    if not idealized and scope.numerics() == "idealized":
        idealized = ["charges without a stored release"]  # of other ledgers and tools, and of failed attempts
    if idealized:
        exact = f"Floating point: exact but for {_list(idealized)}, whose claim holds for real-number arithmetic."
    entropy = "the operating system's generator" if all(each.private for each in outcomes) else "a seed: NOT PRIVATE"
    lines = [
        f"Mechanisms: {_list(sorted(drawn)) or 'none'}.",
        f"Library: sidelight {_list(versions)}. A meter compares the draws of each release with its claim.",
        exact,
        f"Random numbers: {entropy}.",
        "Timing: how long a release takes depends on the rows and is not protected from an observer who can measure "
        "it. The ledger holds the time of every charge; all charges of one `sidelight run` carry the time of its "
        "start, and those of a session in a program their own.",
        "Platform: errors after the rows were opened have fixed texts, and warnings are suppressed then.",
        "The charge is written to a hash-chained ledger before anything is computed from the rows, and never given "
        "back; of a CSV file the records are counted before, for its owner.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _composition(scope: Scope, entries: Sequence[LedgerEntry]) -> str:
    names = {"basic": "the sum of epsilons and deltas", "gdp": "the sum of mu squared", "zcdp": "the sum of rho"}
    how = (
        f"Sequential and fully adaptive, by a privacy filter: {_list([names[route] for route in scope.rule.routes])}"
        f"{', whichever allows more' if len(scope.rule.routes) > 1 else ''}. A request that does not fit is refused "
        "before anything is computed from the rows."
    )
    together = sum(_is_batch(entry.request) for entry in entries)
    batch = f"{together} batches of fixed queries were composed numerically." if together else None
    parts = "Parts are composed in parallel." if scope.definition.partitioned_by else None
    above = scope.definition.parent_id
    return _joined(how, batch, parts, f"All of it is charged to {above!r} as well." if above else None)


def _unprotected(
    schema: Schema | Mapping[str, Schema], scope: Scope, outcomes: Sequence[Outcome], facts: PublisherFacts
) -> str:
    kept = scope.definition.budget.kept
    exact = [f"Released exactly, without noise: {kept}. {NOT_PROTECTED}"] if kept else []
    other = f"No {'other ' if kept else ''}statistic of the rows is released without noise through this ledger."
    lines = [*exact, facts.unprotected or other]
    lines.append("Public by declaration:")
    lines += [f"- {shown}: {_declared(column)}" for shown, column in _columns(schema).items()]
    used = {
        str(outcome.prediction["description"])
        for outcome in outcomes
        if isinstance(outcome, Release) and outcome.prediction is not None
    }
    lines += [f"- side information that was used: {text}" for text in sorted(used)]
    return "\n".join(lines)


def _declared(column: Any) -> str:
    if isinstance(column, PersonId):
        return f"whose row it is; at most {column.max_rows} rows of a person count"
    if isinstance(column, Category):
        return f"the labels {_list(column.labels)}"
    if isinstance(column, Label):
        return "labels that are not listed"
    if isinstance(column, Date):
        return f"dates from {column.start} to {column.end}, in {column.unit}s"
    assert isinstance(column, Number)
    limits = (("from", column.lower), ("to", column.upper), ("in steps of", column.granularity))
    said = [f"{word} {number_text(float(each), digits=15)}" for word, each in limits if each is not None]
    return f"numbers {' '.join(said)}".rstrip()


def _utility(outcomes: Sequence[Outcome]) -> str | None:
    lines: dict[str, None] = {}
    for outcome in outcomes:
        if isinstance(outcome, Release) and outcome.error is not None:
            off = max(outcome.error.at(0.95).ravel().tolist())
            far = f"{outcome.error.basis}: off by {at_most(off)} {outcome.error.unit}".rstrip()
            lines[f"- {_title(outcome.query)}: {far}, if {outcome.error.assumption}"] = None
    return "\n".join(["How far off, at most:", *lines]) if lines else None


def _joined(*texts: str | None) -> str:
    return " ".join(text for text in texts if text)


def _list(words: Iterable[object]) -> str:
    return ", ".join(str(word) for word in words)


def _without_gaps(value: Any) -> Any:
    """Leave out what was not stated."""
    if isinstance(value, dict):
        return {key: _without_gaps(each) for key, each in value.items() if each is not None and each != ""}
    return value
