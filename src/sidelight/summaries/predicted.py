"""Predictions of tables by group: an earlier release, a public frame, or a mapping, all read into one form.

A prediction is public before anything is charged. It moves released numbers after the noise, never a guarantee, and it
says where it came from.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError, SidelightWarning, nearest
from sidelight.group_table import ALL, HIERARCHY, PARENT, GroupTable, has_levels
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions.origin import Origin, guess, public, released
from sidelight.predictions.public_data import PublicData, made_with_seeded_noise, refuse_look_alike
from sidelight.records import Table
from sidelight.release import Release
from sidelight.release.earlier_dates import CountedDates
from sidelight.summaries.shrink import USUAL_DOUBT, count_doubt

Floats: TypeAlias = NDArray[np.float64]
Group: TypeAlias = tuple[str, ...]
#: Larger counts and sums do not occur.
_LARGEST = 1e100


@dataclass(frozen=True, eq=False, repr=False)
class Predicted:
    """Hold a prediction of a table by group together with how far it may be off.

    Without a doubt a quarter of each predicted number is taken, as for a bare table. Doubts change accuracy only.

    Args:
        table: A release, a `GroupTable`, a frame or `sl.PublicData` of one with the key columns, a pandas Series whose
            index has the labels, or a mapping from labels (tuples of labels for several columns) to numbers.
        doubt: How far off each number is, as a share of it: 0.1 for 10 %.
        sd: How far off each number is, in its own unit; instead of `doubt`.
        shares: Whether only the proportions of the numbers are meant: they are scaled to the released total.
        origin: Where it came from, in words; needed for public tables that do not say so themselves.
        column: Which column of a frame holds the numbers, where there are several.

    >>> import sidelight as sl
    >>> sl.Predicted({"cook": 120, "nurse": 80}, doubt=0.1, origin="register of 2025")
    Predicted(2 groups, public: register of 2025)
    """

    table: Any
    _: KW_ONLY
    doubt: float | None = None
    sd: float | None = None
    shares: bool = False
    origin: str | Origin | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        for name in ("doubt", "sd"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and 0 < value <= _LARGEST):
                raise RangeError(f"{name} must be a number above 0, got {value!r}; doubt=0.1 means 10 % off")
        if self.doubt is not None and self.sd is not None:
            raise RangeError("say how far off the prediction is once: doubt (a share of it) or sd (in its own unit)")

    def __repr__(self) -> str:
        origin = self._origin
        size = self.table.rows if isinstance(self.table, GroupTable) else None
        size = len(self.table) if isinstance(self.table, Mapping) and size is None else size
        parts = [f"{size} groups" if size is not None else type(self.table).__name__]
        return f"Predicted({', '.join([*parts, *([str(origin)] if origin is not None else [])])})"

    @property
    def _origin(self) -> Origin | None:
        return public(self.origin) if isinstance(self.origin, str) else self.origin


@dataclass(frozen=True, eq=False, kw_only=True)
class Matched:
    """The prediction of each group of a table, in its order: NaN where there is none.

    `sds` is the noise of an earlier release or the `stated` sd, NaN where nothing is known; `relative` the stated share
    of doubt, None for the usual one.
    """

    values: Floats
    sds: Floats
    relative: float | None = None
    stated: bool = False
    shares: bool = False

    def scaled_to(self, values: ArrayLike) -> Matched:
        """Return predicted shares as numbers that add up as these released ones do, where there is a prediction."""
        if not self.shares:
            return self
        there = np.isfinite(self.values)
        whole = float(np.maximum(self.values[there], 0.0).sum())
        total = max(0.0, float(np.asarray(values, np.float64)[there].sum()))
        factor = total / whole if whole > 0 else 0.0
        return replace(self, values=np.maximum(self.values, 0.0) * factor, sds=self.sds * factor)

    def count_doubt(self) -> Floats:
        """Return the doubt γ (a variance) of each predicted count.

        Of a stated `sd` it is its square; of an earlier release its noise variance and a relative drift; else the usual
        (0.25·p)² + p + 1. NaN where nothing is predicted.
        """
        if self.stated:
            return self.sds**2
        relative = USUAL_DOUBT if self.relative is None else self.relative
        usual = count_doubt(self.values, relative=relative)
        drifted = self.sds**2 + (relative * np.maximum(self.values, 0.0)) ** 2
        return np.where(np.isfinite(self.sds), drifted, usual)


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictedTable:
    """A prediction by group as all queries use it: numbers with their noise by group, and where they came from."""

    entries: Mapping[Group, tuple[float, float]] = field(repr=False)
    origin: Origin
    relative: float | None = None
    sd: float | None = None
    shares: bool = False
    seeded: bool = False  # from a release with seeded noise, which is not private: for tests only
    others: tuple[PredictedTable, ...] = ()  # of the same numbers; the better one is taken after the noise

    def on(self, groups: Iterable[Group]) -> Matched:
        """Return the prediction of each of these groups."""
        found = np.array([self.entries.get(tuple(group), (math.nan, math.nan)) for group in groups], np.float64)
        found = found.reshape(-1, 2)
        sds = found[:, 1] if self.sd is None else np.where(np.isfinite(found[:, 0]), self.sd, math.nan)
        return Matched(
            values=found[:, 0].copy(),
            sds=np.array(sds),
            relative=self.relative,
            stated=self.sd is not None,
            shares=self.shares,
        )

    def check(self, groups: Sequence[Group]) -> None:
        """Refuse a prediction that is about none of these groups; warn about rows that no group has. All public."""
        for other in self.others:
            other.check(groups)
        there = set(groups)
        extra = [group for group in self.entries if group not in there]
        if groups and len(extra) == len(self.entries):
            wanted, came = "/".join(groups[0]), "/".join(extra[0]) if extra else "nothing"
            raise RangeError(
                f"the prediction has none of the {len(groups)} groups: they are named like {wanted!r}, and it has "
                f"{came!r}; {_nearest_group(extra, groups)}; name groups as the schema does, in the order of by"
            )
        if extra:
            warnings.warn(
                f"{len(extra)} of the {len(self.entries)} predicted groups are no group of this query and are left "
                f"out, {'/'.join(extra[0])!r} for one; {_nearest_group(extra, groups)}",
                SidelightWarning,
                stacklevel=2,
            )

    @property
    def description(self) -> dict[str, Any]:
        """The description for a release: words, origin, the numbers of each group, and their digest."""
        listed = sorted([*group, repr(value), repr(sd)] for group, (value, sd) in self.entries.items())
        if self.relative is not None or self.sd is not None or self.shares:  # they change what is made of the entries
            listed.append([repr(self.relative), repr(self.sd), str(self.shares)])
        written = json.dumps(listed)
        doubt = self.relative if self.relative is not None else self.sd
        kind = "doubt" if self.relative is not None else "sd"
        what = "predicted shares" if self.shares else "a predicted table"
        found = {
            "description": f"{what} of {len(self.entries)} groups ({self.origin})",
            "origin": self.origin.to_json(),
            "values": [[*group, repr(value)] for group, (value, _) in self.entries.items()],
            "sha256": hashlib.sha256(written.encode("utf-8")).hexdigest(),
            **({} if doubt is None else {kind: str(doubt)}),
            **({"shares": "yes"} if self.shares else {}),
            **({"entropy": SEEDED_BRANDING} if self.seeded else {}),
        }
        return found if not self.others else _of_several([found, *(other.description for other in self.others)])


def read_prediction(
    given: Any,
    *,
    keys: Sequence[str],
    names: Sequence[str],
    noise_name: str = "noise_sd",
    dates: CountedDates | None = None,
) -> PredictedTable | None:
    """Read what a user may pass as the prediction of a table by group; None stays None.

    Args:
        given: A release or its table, a mapping {label or tuple of labels: number}, a frame with the key columns,
            `sl.PublicData` of such a frame, or `Predicted(any of these, doubt=...)`; or a list of several.
        keys: The key columns of the query; for none of them a bare number is a prediction, too.
        names: The columns that hold the predicted number, the best first: ("unbiased", "count"). Where the first has no
            number the next is taken; a frame with one further column needs none of these names.
        noise_name: The column that says how noisy each number is itself; with another name than the usual one the
            table holds several numbers, which must not be confused.
        dates: How the number counts, where it may be a date: those of a release are counted from the same start.

    >>> read_prediction({"cook": 12, "nurse": 30}, keys=["job"], names=["count"]).on([("nurse",), ("clerk",)]).values
    array([30., nan])
    """
    if given is None:
        return None
    if isinstance(given, (list, tuple)) and given:
        asked: dict[str, Any] = {"keys": keys, "names": names, "noise_name": noise_name, "dates": dates}
        first, *others = (read_prediction(each, **asked) for each in given)
        if first is None or None in others:
            raise RangeError("one of the predictions is None; leave it out")
        return replace(first, others=tuple(each for each in others if each is not None))
    refuse_look_alike(given, Predicted, PublicData)
    stated = given if isinstance(given, Predicted) else Predicted(given)
    names = names if stated.column is None else (stated.column,)
    entries, origin = _entries(stated.table, tuple(keys), tuple(names), noise_name, named=stated.column is not None)
    if dates is not None and isinstance(stated.table, Release) and (later := dates.later(stated.table.query)):
        entries = {group: (value - later, sd) for group, (value, sd) in entries.items()}
    for group, (value, _) in entries.items():
        if not abs(value) <= _LARGEST:  # nor NaN; squares of what is left stay finite
            raise RangeError(f"the prediction of {'/'.join(group)!r} is not a finite number; leave such groups out")
    if not entries:
        raise RangeError("the prediction has no groups; leave it out where nothing is known")
    return PredictedTable(
        entries=entries,
        origin=stated._origin or origin,
        relative=None if stated.doubt is None else float(stated.doubt),
        sd=None if stated.sd is None else float(stated.sd),
        shares=stated.shares,
        seeded=not stated.table.private if isinstance(stated.table, Release) else made_with_seeded_noise(stated.table),
    )


def check_single(table: PredictedTable | None, *, what: str) -> None:
    """Refuse several predictions where only one is supported."""
    if table is not None and table.others:
        raise RangeError(f"{what} takes one prediction, got {1 + len(table.others)}; counts and sums take several")


def _of_several(described: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the description of several predictions: the first, with the words and digests of all."""
    digests = "".join(each["sha256"] for each in described)
    return {
        **described[0],
        "description": f"the best of {len(described)}: " + "; ".join(each["description"] for each in described),
        "sha256": hashlib.sha256(digests.encode("utf-8")).hexdigest(),
        "others": described[1:],
        **({"entropy": SEEDED_BRANDING} if any("entropy" in each for each in described) else {}),
    }


def _entries(
    table: Any, keys: Group, names: Group, noise_name: str, *, named: bool = False
) -> tuple[dict[Group, tuple[float, float]], Origin]:
    if isinstance(table, Release):
        if not isinstance(table.value, GroupTable):
            raise RangeError(f"a {table.kind} release cannot predict a table by group; it has no groups")
        entry = table.circumstances.entry_id
        words = "" if table.private else "made with seeded noise"
        origin = released(entry, words) if entry else guess(f"an earlier {table.kind} release, which no ledger names")
        return _of_columns(_whole(table.value), keys, names, noise_name, named=named), origin
    if isinstance(table, GroupTable):
        return _of_columns(_whole(table), keys, names, noise_name, named=named), guess(
            "a table by group, without its release"
        )
    refuse_look_alike(table, PublicData)
    if isinstance(table, PublicData):
        return _entries(table.rows, keys, names, noise_name, named=named)[0], table.origin
    if isinstance(table, (int, float)) and not isinstance(table, bool) and not keys:
        return {(): (_number(table), math.nan)}, guess()
    if isinstance(table, Table):
        raise RangeError("a sidelight.Table is a private source and cannot be a prediction; pass a published table")
    if hasattr(table, "index") and hasattr(table, "items") and not hasattr(table, "columns"):
        table = dict(table.items())  # a pandas Series: its index has the labels
    if isinstance(table, Mapping) and not _has_columns(table, keys):
        if named:
            raise RangeError(
                f"column={names[0]!r} is for a frame with several columns, and this table has one number each"
            )
        return {_group(group, keys): (_number(value), math.nan) for group, value in table.items()}, guess()
    return _of_columns(_columns(table), keys, names, noise_name, named=named), guess()


def _nearest_group(extra: Sequence[Group], groups: Sequence[Group]) -> str:
    """Name the group that the first of these probably misspells, if one is close."""
    close = get_close_matches("/".join(extra[0]) if extra else "", ["/".join(group) for group in groups], n=1)
    return f"did you mean {close[0]!r}" if close else "none has a similar name"


def _has_columns(table: Mapping[Any, Any], keys: Group) -> bool:
    """Return whether a mapping holds columns by name; a group may be called as its key column is."""
    return bool(keys) and all(key in table and not isinstance(table[key], (int, float, np.number)) for key in keys)


class _Released(dict[str, Sequence[Any]]):
    """Columns of a released table, which may have gaps; in a public frame a gap is a mistake."""


def _whole(table: GroupTable) -> _Released:
    if has_levels(table):  # its leaves, under the name of their column
        leaf = str(table.notes[HIERARCHY]["column"])
        finest = table.level(leaf, *table.keys_of_groups[3:])
        label = finest.keys_of_groups[0]
        return _Released((leaf if name == label else name, list(finest[name])) for name in finest if name != PARENT)
    return _Released((name, list(table[name])) for name in table)


def _columns(frame: Any) -> dict[str, Sequence[Any]]:
    """Return the columns of a frame or a mapping of columns as lists."""
    if isinstance(frame, Mapping):
        return {str(name): list(values) for name, values in frame.items()}
    import narwhals.stable.v2 as nw

    try:
        whole = nw.from_native(frame)
    except TypeError:
        raise RangeError(
            "a prediction of a table by group is a release, a frame with the key columns, or a mapping from labels to "
            f"numbers, got {type(frame).__name__}; read a file first (with pandas, or of a release with "
            "sl.Release.from_json), and call reset_index() on what a groupby made"
        ) from None
    whole = whole.collect() if isinstance(whole, nw.LazyFrame) else whole
    return {name: whole[name].to_list() for name in whole.columns}


def _of_columns(
    columns: Mapping[str, Sequence[Any]], keys: Group, names: Group, noise_name: str, *, named: bool = False
) -> dict[Group, tuple[float, float]]:
    for key in keys:
        if key not in columns:
            raise RangeError(f"the prediction has no key column {key!r}; {nearest(key, list(columns))}")
    others = [name for name in columns if name not in keys]
    chosen = [name for name in names if name in columns] or (
        others if len(others) == 1 and noise_name == "noise_sd" and not named else []
    )
    if not chosen:
        raise RangeError(
            f"the prediction has no column {' or '.join(map(repr, names))}; it has {', '.join(others) or 'none'}; "
            "name one: sl.Predicted(table, column=...)"
        )
    if len({len(columns[name]) for name in (*keys, *chosen)}) > 1:
        raise RangeError("the columns of the prediction must be of one length")
    found: dict[Group, tuple[float, float]] = {}
    for place in range(len(columns[chosen[0]])):
        group = tuple(_label(columns[key][place]) for key in keys)
        value = next((n for name in chosen if math.isfinite(n := _number(columns[name][place]))), math.nan)
        if math.isnan(value) and not isinstance(columns, _Released):
            raise RangeError(f"the prediction of {'/'.join(group)!r} is not a finite number; leave such groups out")
        if math.isnan(value) or (ALL in group and len(columns[chosen[0]]) > 1):
            continue  # nothing is predicted there; or a total of a rolled-up table, which is no group
        if group in found:
            raise RangeError(f"the prediction has the group {'/'.join(group)!r} twice")
        sd = _number(columns[noise_name][place]) if noise_name in columns else math.nan
        sd = sd if 0 <= sd <= _LARGEST else math.nan
        found[group] = (value, sd)
    return found


def _group(label: Any, keys: Group) -> Group:
    given = label if isinstance(label, tuple) else (label,)
    if len(given) != len(keys):
        by = f"tuples of {len(keys)} labels, one for each of {', '.join(keys)}" if len(keys) > 1 else "single labels"
        raise RangeError(f"the keys of the prediction must be {by if keys else 'a number alone'}, got {label!r}")
    return tuple(_label(each) for each in given)


def _label(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # pandas turns whole numbers with gaps into floats
    return str.__str__(str(value))  # not a subclass


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise RangeError(f"a prediction holds numbers, got {value!r}") from None
    except OverflowError:  # of 10**400; refused with its group, as infinity is
        return math.inf
