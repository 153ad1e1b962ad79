"""Queries from the wire: a `[[query]]` section of a plan as JSON, with names in place of paths, within limits."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sidelight.errors import PlanError, ProblemError, SidelightError, SourceError, nearest
from sidelight.plans import Section, read_query, write_query
from sidelight.plans.section import T
from sidelight.records import Category, Schema
from sidelight.registry import PLAN_KINDS
from sidelight.release import Release
from sidelight.session import Query
from sidelight.wire.json_text import write_json

#: The largest lists and numbers of a query, by key; "groups" is the product of the declared labels of `by`, and
#: "answer_bytes" what the public shape of an answer may need.
LIMITS: Mapping[str, int] = {
    "levels": 1000,
    "bins": 10_000,
    "k": 1000,
    "columns": 50,
    "features": 200,
    "candidates": 10,
    "priors": 50,
    "knots": 10_000,
    "groups": 100_000,
    "elements": 20_000,
    "expression": 2000,
    "answer_bytes": 4 * 2**20,
}
#: The keys of texts that are limited as expressions.
_EXPRESSIONS = ("where", "column", "condition", "select", "by", "impossible")
#: Kinds that hold state between requests, or whose running time is part of their proof, do not travel.
KINDS = PLAN_KINDS
_UNKNOWN = "which is no name of public data here, and no release of yours that is ready"
#: The key of a paid request, as a header carries it: 1 to 200 printable ASCII characters, no space at either end.
REQUEST_KEY = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
#: The id of a release, or of its entry in the ledger; no name of public data looks like one.
RELEASE_ID = re.compile(r"[0-9a-f]{64}|[0-9a-f]{32}")


@dataclass(frozen=True)
class WireResolver:
    """Names of the curator's public data and ids of the analyst's own releases, and nothing else.

    No text of a request ever becomes part of a path: a name is looked up, and the file is the curator's. One text
    answers whatever is not there.

    Args:
        public: The file of each name.
        releases: Files that the service wrote from its ledger, by the id of the release.
    """

    public: Mapping[str, Path] = field(default_factory=dict)
    releases: Mapping[str, Path] = field(default_factory=dict)

    def open(self, name: str, read: Callable[[Path], T], *, title: str | None = None) -> T:
        """Read what the name stands for."""
        del title
        file = (self.releases if RELEASE_ID.fullmatch(name) else self.public).get(name)
        if file is None:
            raise SourceError(_UNKNOWN)
        try:
            return read(file)
        except SidelightError:  # a release where rows are wanted, or the other way round; its text names a file
            raise SourceError(_UNKNOWN) from None

    def name_of(self, opened: Any) -> tuple[str, str | None]:
        """Return the name of a text, or the id of a release that this server wrote."""
        if isinstance(opened, str):
            return opened, None
        entry = opened.circumstances.entry_id if isinstance(opened, Release) else None
        if entry is None:
            raise PlanError(
                f"a {type(opened).__name__} cannot travel; send the id of an earlier release of this server, the name "
                "of its public data, a law such as sl.priors.Cauchy(...), or rows in memory"
            )
        return str(entry), None


def read_wire_query(values: Mapping[str, Any], *, kinds: Collection[str], resolver: WireResolver) -> Query:
    """Read a query that an analyst sent.

    Raises:
        ProblemError: the table does not allow its kind.
        PlanError: it is not understood.
    """
    kind = values.get("kind")
    if isinstance(kind, str) and kind in KINDS and kind not in kinds:
        raise ProblemError("not-allowed", f"this table does not answer {kind!r}; {nearest(kind, sorted(kinds))}")
    return read_query(Section(values, "query", resolver=resolver))


def write_wire_query(query: Any) -> dict[str, Any]:
    """Write a query object as the section that travels; what cannot travel is refused here, before it is sent.

    >>> from sidelight.summaries.count import Count
    >>> write_wire_query(Count(by="sex", epsilon="0.5"))
    {'kind': 'count', 'by': ['sex'], 'epsilon': '0.5'}
    """
    if isinstance(query, Mapping):
        return dict(query)
    try:
        return write_query(query, resolver=WireResolver())
    except (TypeError, AttributeError, ValueError) as error:
        if isinstance(error, SidelightError):
            raise
        raise PlanError(
            f"something in this {type(query).__name__} cannot be written as data, and does not travel"
        ) from None


def query_digest(values: Mapping[str, Any]) -> str:
    """Return the name of a request's JSON: members in any order, numbers by value."""
    return hashlib.sha256(write_json(dict(values)).encode()).hexdigest()


def release_ids(value: Any) -> Iterator[str]:
    """Yield the ids of earlier releases that a request names."""
    if isinstance(value, dict):
        given = value.get("release")
        if isinstance(given, str) and RELEASE_ID.fullmatch(given):
            yield given
        for each in value.values():
            yield from release_ids(each)
    elif isinstance(value, list):
        for each in value:
            yield from release_ids(each)


def check_limits(values: Mapping[str, Any], schema: Schema) -> None:
    """Refuse what would be too large to price, before it is read as a query.

    Raises:
        ProblemError: `too-dear`, with the limit.
    """
    for key, value in _keys(values):
        most = LIMITS.get(key, LIMITS["elements"])
        size = len(value) if isinstance(value, list) else value if isinstance(value, int) and key in LIMITS else 0
        if size > most:
            raise ProblemError("too-dear", f"{key} has at most {most}")
        if key in _EXPRESSIONS and _characters(value) > LIMITS["expression"]:
            raise ProblemError("too-dear", f"{key} has at most {LIMITS['expression']} characters")
    by = values.get("by")
    names = [by] if isinstance(by, str) else by if isinstance(by, list) else []
    labels = {each.name: len(each.labels) for each in schema.columns if isinstance(each, Category)}
    if math.prod(labels.get(name, 1) for name in names if isinstance(name, str)) > LIMITS["groups"]:
        raise ProblemError("too-dear", f"groups are at most {LIMITS['groups']}, the product of the labels of by")


def _characters(value: Any) -> int:
    """Return the length of a text, or of all expressions in a list, in which names of columns have no limit."""
    if isinstance(value, list):
        return sum(len(each) for each in value if isinstance(each, str) and "(" in each)
    return len(value) if isinstance(value, str) else 0


def _keys(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield key, each
            yield from _keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)
