"""`Synthetic`: what can be made of a released distribution: a table, answers, a report. All is post-processing."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path, PurePath
from typing import Any, get_args

from sidelight.errors import NotPrivateWarning, RangeError, SchemaError, SidelightError, SourceError, nearest
from sidelight.guarantees.claims import SEEDED
from sidelight.noise import Source
from sidelight.readable import shown_text
from sidelight.release import Outcome, Release, read_outcomes
from sidelight.synthesis.answers import (
    Answers,
    ErrorBounds,
    MeasuredMarginal,
    answer_workload,
    contradicted_rows,
    expected_errors,
)
from sidelight.synthesis.axes import Axis, Within, axis_from_json, domain_of
from sidelight.synthesis.domain import Domain, Mass
from sidelight.synthesis.synthetic_rows import (
    Library,
    PublicEntropy,
    as_typed,
    library_of,
    make_frame,
    sample_codes,
    with_enumerations,
    write_table,
)
from sidelight.synthesis.workload import Workload, marginals

KIND = "synthetic_table"


class Synthetic:
    """Read the release of a `SyntheticTable`: rows, answers and a report, as often as wanted, for nothing more.

    Guarantee: a function of the release alone, which was paid for. The same release and seed give the same table.

    Args:
        release: The release of a `SyntheticTable` query.

    >>> import sidelight as sl
    >>> schema = [sl.Number("age", lower=0, upper=79, granularity=1)]
    >>> people = sl.Table({"age": list(range(80)) * 5}, schema=schema)
    >>> synthetic = Synthetic(sl.SyntheticTable(sl.marginals(1), bins={"age": 4}, epsilon=1).release(people))
    >>> synthetic.table(rows=3, library="pyarrow").num_rows, synthetic.answer("age").counts.shape
    (3, (4,))
    """

    def __init__(self, release: Outcome) -> None:
        if not isinstance(release, Release):
            raise RangeError(
                f"a synthetic table is made of the release of a SyntheticTable query, got {type(release).__name__}"
            )
        if release.kind != KIND:
            raise RangeError(f"a synthetic table is made of a {KIND} release, got a {release.kind} release")
        self.release = release

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The columns with their labels and bins."""
        return tuple(axis_from_json(entry) for entry in self.release.value["columns"])

    @property
    def domain(self) -> Domain:
        """The cells."""
        return self.mass.domain

    @cached_property
    def mass(self) -> Mass:
        """The released distribution."""
        return Mass.from_value(self.release.value["distribution"], domain_of(self.axes))

    @property
    def rows(self) -> float:
        """The number of rows: public, or released with noise."""
        return float(self.release.value["rows"])

    @cached_property
    def measurements(self) -> tuple[MeasuredMarginal, ...]:
        """The marginals that were measured, with their noise."""
        return tuple(MeasuredMarginal.from_value(entry) for entry in self.release.value["measurements"])

    @cached_property
    def bounds(self) -> ErrorBounds:
        """How far marginals, or single queries that were measured, can be off, all at once with 95 % confidence."""
        return ErrorBounds.from_value(self.release.value.get("bounds"))

    @property
    def contradicted_rows(self) -> float | None:
        """The number of rows that measured counts sum to, where a public `rows` is clearly another one; else None."""
        if self.release.query.get("rows", "private") == "private":
            return None
        return contradicted_rows(self.measurements, self.rows)

    @property
    def missed(self) -> list[dict[str, Any]]:
        """Measured cells that clearly have rows where the support of the public rows has none: it misses a region.

        An entry names columns, how many neighbouring values of each were counted together ("widths"), and the groups.
        """
        return [dict(entry) for entry in self.release.value["missed"]]

    def table(
        self,
        rows: int | None = None,
        *,
        library: Library = "pandas",
        like: Any = None,
        within: Within = "smooth",
        seed: int | str = 0,
    ) -> Any:
        """Return synthetic rows as a frame, those of a `Date` as dates.

        Args:
            rows: How many; the number of the release if left out.
            library: "pandas" or "polars", packages of their own, or "pyarrow", which the extra `files` installs.
            like: A public frame whose library, types and column order are copied.
            within: Where numbers lie inside their bins: "smooth", more of them towards the fuller neighbour; "uniform",
                anywhere alike; "middle", one value a bin. A value that many rows have, such as 0, wants a bin of its
                own when the table is asked for: bins={"fee": [0, 0.05, 1, 5, 20]}.
            seed: Another one gives other rows from the same distribution.
        """
        if within not in get_args(Within):
            raise RangeError(f'within must be "smooth", "uniform" or "middle", got {within!r}')
        if library not in ("pandas", "polars", "pyarrow"):
            raise RangeError(f'library must be "pandas", "polars" or "pyarrow", got {library!r}')
        library = library if like is None else library_of(like)
        wanted = round(self.rows) if rows is None else rows
        with Source(PublicEntropy(str(seed))) as source:
            codes = sample_codes(self.mass, wanted, source)
            frame = make_frame(self.axes, codes, source, library=library, within=within, mass=self.mass)
        return self._branded(frame if like is None else as_typed(frame, like, library=library))

    def _branded(self, frame: Any) -> Any:
        """Return the frame with the word whether it is private, where its library has a place for one."""
        if self.release.private:
            return frame
        if hasattr(frame, "attrs"):  # of pandas; `release.to_pandas()` says it in the same place
            frame.attrs["private"] = False
        if hasattr(frame, "replace_schema_metadata"):  # of Arrow, and from there of a Parquet file
            frame = frame.replace_schema_metadata({**(frame.schema.metadata or {}), "private": "false"})
        return frame

    def write(self, path: str | PathLike[str], rows: int | None = None, **choices: Any) -> None:
        """Write a synthetic table as CSV or Parquet, by the path's ending.

        Written through Arrow unless a library is named; of a Parquet file the categories are enumerations.

        Args:
            path: Where to; ends in .csv or .parquet.
            rows: How many; the number of the release if left out.
            choices: The other arguments of `table`.
        """
        ending = PurePath(fspath(path)).suffix.lower()
        if ending not in (".csv", ".parquet"):
            raise RangeError(f"a synthetic table is written to a path that ends in .csv or .parquet, got {ending!r}")
        if not self.release.private:
            warnings.warn(f"{SEEDED}; do not publish the table", NotPrivateWarning, stacklevel=2)
        if choices.get("like") is None and "library" not in choices:
            frame = self.table(rows, **choices, library="pyarrow")
            frame = frame if ending == ".csv" else with_enumerations(frame, self.axes)
        else:
            frame = self.table(rows, **choices)
        write_table(frame, fspath(path), ending=ending)

    def answer(self, query: Workload | Sequence[str] | str) -> Answers | list[Answers]:
        """Return the answers to a workload, or to one marginal that is named by its columns. Nothing is charged.

        A workload of several parts gives a list. The axes of a marginal that is named by its columns are in the order
        named, those of a workload in the table's.
        """
        if isinstance(query, Workload):
            found = answer_workload(query, self.mass, self.measurements, self.bounds, rows=self.rows)
            found = [replace(each, private=self.release.private) for each in found]
            return found[0] if len(found) == 1 else found
        names = (query,) if isinstance(query, str) else tuple(query)
        if not names or len(set(names)) != len(names):
            raise SchemaError("a marginal names at least one column, and each once")
        asked = marginals(sets=[names])
        (found_one,) = answer_workload(asked, self.mass, self.measurements, self.bounds, rows=self.rows)
        return replace(found_one.in_order(names), private=self.release.private)

    def report(self, workload: Workload | None = None) -> list[dict[str, Any]]:
        """Return for each marginal whether it was measured, with what noise, and how far its counts can be off.

        Of the measured marginals if no workload is named (of single queries, of those whose queries have a bound).
        `expected_error` is what the standard errors of all cells make; `bound` (rows), `bound_share` (of the rows, a
        count) and `total_variation_bound` hold with the release's confidence, and are None where nothing released
        bounds them.
        Computed from released numbers: nothing here compares with the private rows. Of a release with seeded noise
        each entry says `"private": False`.
        """
        measured = [each.columns for each in self.measurements] or [columns for columns, _ in self.bounds.queries]
        asked = workload or marginals(sets=list(dict.fromkeys(measured)))
        found = expected_errors(self.mass, asked, self.measurements, self.bounds, rows=self.rows)
        return found if self.release.private else [each | {"private": False} for each in found]

    def __repr__(self) -> str:
        names = shown_text(", ".join(axis.name for axis in self.axes))
        said = [f"{round(self.rows)} rows", f"columns {names}", f"{len(self.measurements)} measured marginals"]
        return f"Synthetic({', '.join([*said, *([] if self.release.private else [SEEDED])])})"


def open_table(release: Release) -> Synthetic:
    """Unpack the distribution of a release, which may come from a file; a damaged one is an error that says so."""
    made = Synthetic(release)
    try:
        sound = made.rows > 0 and made.mass.total > 0 and bool((made.mass.units >= 0).all())
        for name in made.domain.columns:
            made.mass.marginal((name,))
        _ = made.measurements, made.bounds
    except (KeyError, TypeError, ValueError, IndexError, zlib.error):
        sound = False
    if not sound:
        raise RangeError("the release of a synthetic table is damaged; use the file that `sidelight run` wrote")
    return made


def stored_table(path: Path, *, title: str | None = None) -> Synthetic:
    """Read the synthetic table of a stored release; where there are several, the one with this title."""
    try:
        found = read_outcomes(path)
    except SourceError:
        raise
    except SidelightError as error:
        raise RangeError(f"{path.name!r} holds no releases: {error}") from None
    tables = [(name, each) for name, each in found if isinstance(each, Release) and each.kind == KIND]
    if not tables:
        kinds = ", ".join(dict.fromkeys(str(each.query["kind"]) for _, each in found)) or "nothing"
        raise RangeError(f'{path.name!r} holds no release of kind = "{KIND}", but {kinds}; name another file')
    if title is not None:
        titles = [name for name, _ in tables]
        tables = [item for item in tables if item[0] == title]
        if not tables:
            raise RangeError(f"{path.name!r} has no synthetic table with the title {title!r}; {nearest(title, titles)}")
    if len(tables) > 1:
        known = ", ".join(repr(name) for name, _ in tables)
        raise RangeError(f"{path.name!r} holds {len(tables)} synthetic tables; say which one by its title: {known}")
    try:
        return open_table(tables[0][1])
    except SidelightError as error:
        raise RangeError(f"{path.name!r}: {error}") from None
