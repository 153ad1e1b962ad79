"""What is known beforehand, as tables of a plan: priors with their origin, public rows, and earlier releases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sidelight.errors import PlanError
from sidelight.plans.forms import AMOUNT, AMOUNTS, MATRIX, TEXT, TEXTS, KeyForm, choice, either, file_of, list_of, word
from sidelight.plans.section import Resolver, Section
from sidelight.plans.tables import OneOfForm, PlanKey, TableForm, TaggedForm, table_of
from sidelight.predictions import (
    Cauchy,
    Gaussian,
    HalfCauchy,
    Histogram,
    Laplace,
    Mixture,
    Origin,
    PublicData,
    ScaleFree,
    Uniform,
    guess,
    hedge,
    public,
    released,
)
from sidelight.predictions.origin import joint_origin

_ORIGIN = '"guess", {public = "where it is published"} or {released = ["entry id", ...]}'


def _write_origin(origin: Origin, _: Resolver) -> Any:
    if origin.kind == "guess":
        return "guess"
    return {"public": origin.description} if origin.kind == "public" else {"released": list(origin.entries)}


ORIGIN = either(
    word("guess", guess()),
    OneOfForm(
        _ORIGIN,
        tables={
            "public": TableForm(make=public, keys={"public": PlanKey("description", TEXT)}),
            "released": TableForm(make=released, keys={"released": PlanKey("entries", TEXTS)}),
        },
    ),
    words=_ORIGIN,
    writer=_write_origin,
)

_FAMILIES: dict[str, TableForm] = {}
#: A prior inside a prior; its schema says no more, which would have no end.
_INNER = TaggedForm(tag="family", tables=_FAMILIES, opaque=True)
_FORMS: dict[str, KeyForm] = {"origin": ORIGIN, "priors": list_of(_INNER), "resolution": AMOUNT}


def _mixture(prior: Mixture) -> dict[str, Any]:
    own = prior.origin != joint_origin(part.origin for part in prior.priors)
    return {name: part for name, part in vars(prior).items() if own or name != "origin"}


_FAMILIES |= {
    name: table_of(law, forms=_FORMS, numbers=AMOUNT, common={"family": TEXT})
    for name, law in {
        "uniform": Uniform,
        "cauchy": Cauchy,
        "half_cauchy": HalfCauchy,
        "laplace": Laplace,
        "gaussian": Gaussian,
        "histogram": Histogram,
        "scale_free": ScaleFree,
        "mixture": Mixture,
    }.items()
}
_FAMILIES["mixture"] = replace(_FAMILIES["mixture"], parts=_mixture)
#: A hedge is a mixture, and written as one.
_FAMILIES["hedge"] = TableForm(
    make=hedge,
    keys={
        "prediction": PlanKey("prediction", _INNER, meaning="The prior that may be wrong."),
        "with": PlanKey("with_", _INNER, meaning="The robust prior."),
        "weight": PlanKey("weight", AMOUNT, None, "The weight of the robust prior, 0.1 if left out."),
    },
    common={"family": TEXT},
)
#: `prediction = {family = "cauchy", ...}`.
PRIOR = TaggedForm(tag="family", tables=_FAMILIES)
#: One prior, or a list with one for each level.
PRIORS = either(PRIOR, list_of(PRIOR))
#: The same, or the quantiles of all rows, released first.
PRIORS_OR_TOTAL = either(choice("total"), PRIOR, list_of(PRIOR))
FAMILIES = tuple(_FAMILIES)

#: Public rows of a file: `{public = "rows.csv", origin = "where they are published"}`.
PUBLIC_FILE = table_of(
    PublicData,
    names={"rows": "public", "description": "origin"},
    forms={"rows": file_of(lambda file, title: str(file))},
)


def _write_rows(value: Any, resolver: Resolver) -> dict[str, Any]:
    """Write what has `rows` and an `origin`."""
    origin = {"origin": value.origin.description}
    if value.origin.files:
        return {"public": resolver.name_of(value.origin.files[0])[0], **origin}
    return {"rows": MATRIX.write(value.rows, resolver), **origin}


#: Public rows of a file, or in the plan itself.
PUBLIC_ROWS = OneOfForm(
    '{public = "rows.csv", origin = "where they are published"} or {rows = [[1.5, 2], [3, 4]], origin = "..."}',
    writer=_write_rows,
    tables={
        "public": PUBLIC_FILE,
        "rows": table_of(PublicData, names={"description": "origin"}, forms={"rows": MATRIX}),
    },
)


def check_columns(section: Section) -> None:
    """Refuse public rows of a file without `columns`: they are found by name."""
    given = section.values.get("prediction")
    if isinstance(given, dict) and "public" in given and "columns" not in section.values:
        section.inside(given, "prediction").refuse(
            "public rows of a file are found by name; write columns = [...] in the query", key="public"
        )


def _write_guess(value: Any, resolver: Resolver) -> Any:
    if len(value) != 1:
        raise PlanError(f"a plan can say one predicted matrix, got {len(value)}")
    return MATRIX.write(value[0].matrix, resolver)


#: A guess of a matrix, row by row, which a query keeps with its origin.
MATRIX_GUESS = replace(MATRIX, writer=_write_guess)
#: The public centre of a covariance.
CENTRE = either(choice("mean", "pairs"), AMOUNTS)
