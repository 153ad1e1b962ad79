"""The parameters of statistics of a number, and predictions of several numbers at once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.budget import Budget
from sidelight.predictions import Prior, describe, is_prior, own_prior
from sidelight.records import Schema
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression, Named
from sidelight.summaries.clip_subject import Subject, subject_of
from sidelight.summaries.clipping import Clip, Clipping, clipping_of
from sidelight.summaries.grouped import Grouped, group_labels
from sidelight.summaries.label_selection import known_described, known_digest
from sidelight.summaries.measurement import Measurement, labels_and_budget
from sidelight.summaries.predicted import PredictedTable


@dataclass(frozen=True, kw_only=True)
class OfNumber(Grouped):
    """The parameters that statistics of a number share; see `Mean`."""

    clip: Clip = "auto"
    known: Any = field(default=None, compare=False, repr=False)
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        column = getattr(self, "column", None)
        if self.kind == "mean" and isinstance(column, (list, tuple)) and column:
            object.__setattr__(self, "column", tuple(column))
        for each in column if isinstance(column, (list, tuple)) and column and self.kind == "mean" else (column,):
            if not isinstance(each, (str, Expression)):
                raise SchemaError(f"{self.kind} takes the name of a column or an expression, got {type(each).__name__}")

    def table_columns(self, kind: str) -> tuple[str, ...]:
        """Return the columns that the table may have; where each group has an interval, its ends among them."""
        clipped = ("clip_lower", "clip_upper") if self.clip == "by_group" else ()
        return (*super().table_columns(kind), *clipped)

    def _plan(self, schema: Schema, of: str | Expression, *, spread: bool = False) -> Measurement:
        """Return what is measured how, against a schema. Reads no row."""
        groups = self.groups(schema)
        labels, budget = labels_and_budget(self, schema, groups, self.known)
        clipping = self._clipped(subject_of(schema, of), groups, budget, self.prediction)
        return Measurement(groups=groups, of=of, clipping=clipping, spread=spread, labels=labels)

    def _clipped(
        self,
        subject: Subject,
        groups: Groups,
        budget: Budget,
        prediction: Any,
        *,
        clip: Clip | None = None,
        around_zero: bool = False,
    ) -> Clipping:
        asked = self.clip if clip is None else clip
        return clipping_of(
            subject,
            groups,
            budget,
            clip=tuple(asked) if isinstance(asked, list) else asked,
            values=_prior_of(prediction),
            around_zero=around_zero,
        )

    def asked(
        self, plan: Measurement, table: PredictedTable | None = None, *, names: Sequence[str] | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return the request for the ledger, unique to the query."""
        clip = self.clip if isinstance(self.clip, str) else [str(end) for end in self.clip]
        return self.request(
            self.kind,
            column=str(plan.of) if names is None else list(names),
            clip=clip,
            centre="auto",  # as earlier versions wrote it: a key keeps its request
            law=plan.law,
            prediction=self._digest(table, self.prediction) if names is None else None,
            known=None if plan.labels is None else known_digest(plan.labels.selection),
            **more,
        )

    def _shared(self, plan: Measurement, table: PredictedTable | None = None, **more: Any) -> dict[str, Any]:
        """Return what every prepared query of a number has; `more` goes into the request."""
        return {
            "claims": plan.claims,
            "request": self.asked(plan, table, **more),
            "labels": group_labels(plan.known, self.kind),
            "prediction": self._described(table),
            "plan": plan,
        }

    def _digest(self, table: PredictedTable | None, prediction: Any) -> str | None:
        """Return the digest of a prediction for the ledger."""
        if _prior_of(prediction) is not None:
            return json.dumps(prediction.to_json(), sort_keys=True)
        return None if table is None else str(table.description["sha256"])

    def _described(self, table: PredictedTable | None, prediction: Any = None) -> dict[str, Any] | None:
        """Return the description of the prediction that a release carries."""
        found, prior = None if table is None else table.description, prediction or self.prediction
        if _prior_of(prior) is not None:
            found = {"description": describe(prior), "priors": [prior.to_json()], "origin": prior.origin.to_json()}
        return found if self.known is None else known_described(self.known, found)


def _prior_of(prediction: Any) -> Prior | None:
    """Return a prediction of the values; None where there is none, or where groups are predicted."""
    return None if prediction is None or not is_prior(prediction) else own_prior(prediction)


@dataclass(frozen=True)
class PredictionsOf:
    """The predictions of several columns: by column, or one table with a column of means for each."""

    given: Any
    by_column: bool

    def __getitem__(self, name: str) -> Any:
        return self.given.get(name) if self.by_column else self.given

    def own(self, name: str) -> bool:
        """Return whether a column has its own prediction."""
        return self.by_column and name in self.given


def predictions_of(given: Any, names: Sequence[str]) -> PredictionsOf:
    """Return the prediction of each of these columns."""
    if is_prior(given):
        raise RangeError(
            f"one prior does not fit {len(names)} columns; write prediction={{{names[0]!r}: ..., {names[1]!r}: ...}}"
            if len(names) > 1
            else f"write prediction={{{names[0]!r}: ...}} where columns are a list"
        )
    by_column = isinstance(given, Mapping) and bool(given) and set(given) <= set(names)
    return PredictionsOf(given, by_column)


def joined(names: Sequence[str], described: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return the description of several predictions that a release carries: all words, and each by its column."""
    there = {name: dict(each) for name, each in zip(names, described, strict=True) if each is not None}
    if not there:
        return None
    words = "; ".join(f"{name}: {each['description']}" for name, each in there.items())
    branded = [each["entropy"] for each in there.values() if "entropy" in each]
    return {"description": words, "columns": there, **({"entropy": branded[0]} if branded else {})}


def number_of(schema: Schema, column: str | Expression) -> str | Expression:
    """Return the name of a declared column, or the expression that a text is."""
    if isinstance(column, Named):
        return column.name
    if isinstance(column, str) and column not in {each.name for each in schema.columns}:
        try:
            parsed = parse_expression(column)
        except Exception:
            schema.number(column)
            raise
        return parsed.name if isinstance(parsed, Named) else parsed
    return column
