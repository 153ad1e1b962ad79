"""`sidelight init`: a plan for a file, from its header and the owner's declarations of columns.

Rows are not read without `--look`; with it, every declaration from rows has the key `from_rows`, and no other
command accepts the plan until the owner has confirmed each: no guarantee covers them.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal, InvalidOperation
from pathlib import Path, PurePath
from typing import Any, cast

import typer

from sidelight.cli.answers import note
from sidelight.cli.look import Declared, check_target, declare_from, looked_at, tell_lacking, write_for_others
from sidelight.cli.terminal import tell
from sidelight.errors import PlanError, RangeError, SchemaError, SidelightWarning, nearest
from sidelight.plans import read_plan
from sidelight.plans.columns import write_column
from sidelight.plans.toml_text import toml_lines, toml_value
from sidelight.records import Category, Column, Date, Label, Number, PersonId
from sidelight.records.dates import DateUnit, minutes_of_text
from sidelight.records.engines import open_rows
from sidelight.records.numbers import LARGEST_EXPONENT
from sidelight.records.rows import ColumnType
from sidelight.report import check_writable

_KINDS = ("number", "date", "category", "label", "person", "skip")
_IDS = re.compile(r"(?i)(.*[_ -])?(id|person|patient|customer|client|user|member)([_ -]?(id|no|number))?")
_TIMES = re.compile(r"(?i).*(date|time|day|month|visit|created|updated).*|.*_(at|on)")
#: The default cap of a person's rows.
MAX_ROWS = 5


#: The number of columns of a kind with a query: more would leave each too little of the budget.
_MOST = 2
_LEVELS = [Decimal("0.25"), Decimal("0.5"), Decimal("0.75")]
_UNCONFIRMED = [
    "# NOT PUBLIC YET: declarations with `from_rows = true` were read from private rows. Replace them by what",
    "# is true of everybody, and remove that line from each: until then `plan`, `check`, `run` and `sql` refuse.",
]


@dataclass(kw_only=True)
class InitOptions:
    """The owner's options: specifications such as "age:0:110", one per column."""

    person: str | None = None
    max_rows: int | None = None
    number: Sequence[str] | None = None
    category: Sequence[str] | None = None
    date: Sequence[str] | None = None
    label: Sequence[str] | None = None
    decimal: str | None = None
    thousands: str | None = None
    date_format: Sequence[str] | None = None
    missing_text: Sequence[str] | None = None
    casefold: bool = False
    strip: bool = False
    epsilon: str
    delta: str
    ledger: str
    declared: dict[str, Declared] = field(default_factory=dict)

    @property
    def texts(self) -> dict[str, Any]:
        """How the texts of every column are read."""
        return {"missing_texts": self.missing_text or ()}

    @property
    def spelling(self) -> dict[str, Any]:
        """How the texts of labels and ids are read."""
        return self.texts | {"casefold": self.casefold, "strip": self.strip}


def write_plan(
    data: Path,
    *,
    output: Path,
    look: bool,
    ask: bool,
    overwrite: bool,
    force: bool,
    metadata: Path | None = None,
    write_metadata: Path | None = None,
    **options: Any,
) -> None:
    """Write a plan for a file; the header is read, and the rows only with `look`."""
    answers = InitOptions(**options)
    if force:
        warnings.warn("--force is now named --overwrite, as in other commands", SidelightWarning, stacklevel=2)
    overwrite |= force
    if output.exists() and not overwrite:
        raise PlanError(f"{str(output)!r} exists already; name another file with -o, or replace it with --overwrite")
    inputs = [data, *([] if metadata is None else [metadata])]
    check_writable(output, inputs=inputs)
    check_target(write_metadata, look=look, overwrite=overwrite, inputs=[*inputs, output])
    types = columns_of(data)
    declare(answers, types)
    lacking = {} if metadata is None else declare_from(metadata, answers.declared, types, of=data.stem)
    open_columns = [name for name in types if name not in answers.declared]
    if look:
        persons = (each.column for each in answers.declared.values() if isinstance(each.column, PersonId))
        answers.declared |= looked_at(data, open_columns, person=next(persons, None))
    elif ask or (sys.stdin.isatty() and (lacking or (open_columns and not answers.declared))):
        asked = open_columns if ask or not answers.declared else list(lacking)
        _ask(answers, {name: types[name] for name in asked})
    tell_lacking(metadata, lacking, answers.declared)
    declared = [answers.declared[name] for name in types if name in answers.declared]
    skipped = [name for name in types if name not in answers.declared]
    if not declared:
        raise PlanError(
            "no column is declared, so there is nothing to query, and no plan was written; declare what is publicly "
            "known about the columns that you want to use, as --number NAME:lowest:highest, --category "
            "NAME:label,label, --date "
            "NAME:first day:last day, --label NAME or --person NAME, or write --ask for questions on a terminal. For "
            f"this file that could be: sidelight init {data} {' '.join(_example(name, types[name]) for name in types)}"
        )
    try:
        source = os.path.relpath(data.absolute(), output.absolute().parent)
    except ValueError:  # another drive
        source = str(data.absolute())
    text = plan_text(
        declared, skipped, source=source, epsilon=answers.epsilon, delta=answers.delta, ledger=answers.ledger
    )
    before = output.read_bytes() if output.exists() else None
    output.write_text(text, encoding="utf-8")
    try:
        plan = read_plan(output, from_rows=True)
        write_for_others(write_metadata, plan)
    except BaseException:  # a plan that no command accepts is not left behind
        output.unlink() if before is None else output.write_bytes(before)
        raise
    _say(plan_file=output, declared=declared, skipped=skipped, queries=len(plan.queries))


def _example(name: str, found: ColumnType) -> str:
    """Return an example option for a column, from its name and type in the file."""
    kind = _guess(name, found, person=True)
    spec = {"number": ":0:100", "date": ":2020-01-01:2025-12-31", "person": ""}.get(kind, ":label,label")
    return shlex.join([f"--{'category' if kind == 'skip' else kind}", f"{name}{spec}"])


def columns_of(data: Path) -> Mapping[str, ColumnType]:
    """Read the header, or the footer."""
    types = open_rows(str(data), ()).types
    if any(_is_value(name) for name in types):
        raise SchemaError(
            f"the first line of {str(data)!r} contains numbers or dates, so it is probably a record and not a header; "
            "add a header line. The line is not shown here"
        )
    return {name: kind for name, kind in types.items() if name}


def _is_value(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return minutes_of_text(name) is not None
    return True


def declare(answers: InitOptions, types: Mapping[str, ColumnType]) -> None:
    """Read the specifications of the command line."""
    if answers.person is not None:
        rows = MAX_ROWS if answers.max_rows is None else answers.max_rows
        _add(answers, Declared(PersonId(_known(answers.person, types), max_rows=rows, **answers.spelling)))
    elif answers.max_rows is not None:
        raise RangeError(
            "--max-rows is the number of rows of a person that count, so it needs --person, the column with their ids"
        )
    for spec in answers.number or ():
        name, rest = _split(spec, types, "--number age:0:110")
        parts = (rest.split(":") if rest else []) + ["", "", ""]
        low, high, step = (part or None for part in parts[:3])
        if len(parts) > 6:
            raise RangeError(f"--number {spec!r} has too many parts; write name:lower:upper or name:lower:upper:step")
        signs: dict[str, Any] = {"decimal": answers.decimal, "thousands": answers.thousands}
        _add(answers, Declared(Number(name, lower=low, upper=high, granularity=step, **signs, **answers.texts)))
    for spec in answers.category or ():
        name, rest = _split(spec, types, "--category sex:F,M")
        labels, _, count = rest.rpartition(":")
        labels, per_person = (labels, int(count)) if labels and count.isdecimal() else (rest, None)
        found = [_spellings(label) for label in next(csv.reader([labels], skipinitialspace=True), []) if label]
        aliases = {label: others for label, *others in found if others}
        names = [label for label, *_ in found]
        _add(
            answers,
            Declared(Category(name, names, per_person=per_person, aliases=aliases, **answers.spelling)),
        )
    for spec in answers.date or ():
        name, rest = _split(spec, types, "--date visit:2020-01-01:2025-12-31")
        parts = rest.split(":")
        if not 2 <= len(parts) <= 3:
            raise RangeError(f"--date {spec!r} must be name:first day:last day, such as {name}:2020-01-01:2025-12-31")
        unit = cast("DateUnit", parts[2] if len(parts) > 2 else "day")
        forms = answers.date_format or ()
        _add(answers, Declared(Date(name, start=parts[0], end=parts[1], unit=unit, formats=forms, **answers.texts)))
    for name in answers.label or ():
        _add(answers, Declared(Label(_known(name, types), casefold=answers.casefold, **answers.texts)))


def _spellings(label: str) -> list[str]:
    """Return a label and its aliases from "m=male=1"; "==" stands for an equals sign in the label.

    >>> _spellings("m=male=1"), _spellings("a==b")
    (['m', 'male', '1'], ['a=b'])
    """
    return [part.replace("\0", "=") for part in label.replace("==", "\0").split("=") if part]


def _add(answers: InitOptions, declared: Declared) -> None:
    name = declared.column.name
    if name in answers.declared:
        raise SchemaError(f"column {name!r} is declared twice; leave one of the options out")
    answers.declared[name] = declared


def _known(name: str, types: Mapping[str, ColumnType]) -> str:
    if name not in types:
        raise SchemaError(f"the file has no column {name!r}; {nearest(name, types)}")
    return name


def _split(spec: str, types: Mapping[str, ColumnType], example: str) -> tuple[str, str]:
    """Return the column of a specification and the text after it; a name may contain a colon."""
    names = [name for name in types if spec == name or spec.startswith(f"{name}:")]
    if not names:
        _known(spec.partition(":")[0], types)
        raise SchemaError(f"{spec!r} is not understood; write {example}")
    name = max(names, key=len)
    return name, spec[len(name) + 1 :]


def _ask(answers: InitOptions, types: Mapping[str, ColumnType]) -> None:
    """Prompt for each column without an option."""
    tell("What is publicly known about each column? An empty answer takes the default in brackets. No row is read.")
    for name, found in types.items():
        has_person = any(isinstance(each.column, PersonId) for each in answers.declared.values())
        kind = ""
        while kind not in _KINDS:
            kind = typer.prompt(f"{name} ({', '.join(_KINDS)})", default=_guess(name, found, person=not has_person))
        if kind == "number":
            low = typer.prompt(f"  {name}: lowest", default="none")
            high = typer.prompt(f"  {name}: highest", default="none")
            step = typer.prompt(f"  {name}: step (1 for whole numbers)", default="none")
            answers.number = [":".join([name, *("" if each == "none" else each for each in (low, high, step))])]
        elif kind == "date":
            ends = [typer.prompt(f"  {name}: {which} day") for which in ("first", "last")]
            answers.date = [":".join([name, *ends])]
        elif kind == "category":
            answers.category = [f"{name}:{typer.prompt(f'  {name}: labels, with commas between')}"]
        elif kind == "label":
            answers.label = [name]
        elif kind == "person":
            answers.person, answers.max_rows = name, typer.prompt("  rows of one person that count", MAX_ROWS, type=int)
        declare(answers, types)
        answers.number = answers.date = answers.category = answers.label = answers.person = answers.max_rows = None
    answers.epsilon = typer.prompt("budget: epsilon", default=answers.epsilon)
    answers.delta = typer.prompt("budget: delta", default=answers.delta)


def _guess(name: str, found: ColumnType, *, person: bool) -> str:
    """Propose a kind from the name of a column and its type in the file; no cell is read."""
    if person and _IDS.fullmatch(name):
        return "person"
    if found.kind == "date" or (found.kind in ("any", "text") and _TIMES.fullmatch(name)):
        return "date"
    return "number" if found.kind in ("integer", "float") else "skip"


def _say(*, plan_file: Path, declared: Sequence[Declared], skipped: Sequence[str], queries: int) -> None:
    looked = [each for each in declared if each.looked]
    note(
        plan=str(plan_file),
        declared=[each.column.name for each in declared],
        not_declared=list(skipped),
        from_rows=[each.column.name for each in looked],
        queries=queries,
    )
    tell(f"wrote {plan_file}: {len(declared)} columns, {queries} queries for half of the budget")
    if skipped:
        tell(f"not declared, and never read: {', '.join(skipped)}")
    if looked:
        tell(
            "FROM PRIVATE ROWS: "
            + "; ".join(f"{each.column.name!r} ({each.looked})" for each in looked)
            + f". Replace each in {plan_file} by what is public, then remove its line `from_rows = true`: until then "
            "no command accepts the plan",
            style="bold",
        )
    steps = ", ".join(f"`sidelight {each} {plan_file}`" for each in ("check", "plan", "run"))
    tell(f"{'after that' if looked else 'next'}: {steps}; the first is for you alone")


# The text of the plan: columns as declared, a budget, and common first queries.


def plan_text(
    declared: Sequence[Declared], skipped: Sequence[str], *, source: str, epsilon: str, delta: str, ledger: str
) -> str:
    """Return a plan as TOML, with queries that spend half of the budget in equal parts."""
    columns = [each.column for each in declared]
    asked = list(first_queries(columns))
    budget, price = price_lines(epsilon, delta, len(asked))
    file = PurePath(source).name
    name = file.partition(".")[0]
    lines = [
        f"# A first plan for {toml_value(file)}, written by `sidelight init`. Everything below must be",
        "# public: true of everybody, not of these rows. `sidelight plan` prints the price, `sidelight run` releases.",
        *(_UNCONFIRMED if any(each.looked for each in declared) else []),
        f"title = {toml_value(name)}",
        "",
        "[source]",
        f"path = {toml_value(source)}",
        f"name = {toml_value(name)}",
    ]
    for each in declared:
        looked = [f"from_rows = true  # {each.looked}"] if each.looked else []
        lines += ["", "[[column]]", *toml_lines(write_column(each.column)), *looked]
    if skipped:
        lines += ["", f"# Not declared, and never read: {', '.join(map(toml_value, skipped))}"]
    lines += ["", *budget]
    lines += ["", "[ledger]", f"url = {toml_value(ledger)}"]
    for query in asked:
        lines += ["", "[[query]]", *toml_lines(query), f"epsilon = {price}"]
    return "\n".join([*lines, ""])


def price_lines(epsilon: str, delta: str, parts: int) -> tuple[list[str], str]:
    """Return the table of the budget, and the price of each of the queries."""
    price = _part(epsilon, parts)
    return ["[budget]", f"epsilon = {Decimal(epsilon):f}", *_delta(delta)], price


def _part(epsilon: str, parts: int) -> str:
    """Return half of the budget divided by the number of parts, rounded down to two digits."""
    try:
        whole = Decimal(epsilon)
    except InvalidOperation:
        whole = Decimal(-1)
    if not whole.is_finite() or whole <= 0 or abs(whole.adjusted()) > LARGEST_EXPONENT:
        raise RangeError(f"--epsilon must be a positive number, got {epsilon!r}; 1 is a common choice")
    part = whole / 2 / parts
    return format(part.quantize(Decimal(1).scaleb(part.adjusted() - 1), rounding=ROUND_DOWN), "f")


def _delta(delta: str) -> list[str]:
    try:
        found = Decimal(delta)
    except InvalidOperation:
        found = Decimal(-1)
    if not 0 <= found < 1:
        raise RangeError(f"--delta must lie between 0 (none) and 1, got {delta!r}; 1e-6 is a common choice")
    return [f"delta = {found.normalize():E}"] if found else []


def first_queries(columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
    """Return a count, counts and means by group, and quartiles: few queries, so that each gets enough budget.

    Means are of persons where they are declared: one row of each counts, and the noise is that of one row. A mean
    without declared bounds would spend most of its price on estimating them.
    """
    person = next((each for each in columns if isinstance(each, PersonId)), None)
    categories = [each for each in columns if isinstance(each, Category)]
    numbers = [each for each in columns if isinstance(each, Number) and not isinstance(each, Date)]
    dates = [each for each in columns if isinstance(each, Date)]
    who = "people" if person else "rows"
    yield {"kind": "count", "title": f"How many {who}"}
    for category in categories[:_MOST]:
        yield {"kind": "count", "title": f"{who.capitalize()} by {category.name}", **_by(category, person)}
    once = {} if person is None else {"of": "persons"}
    for number in [each for each in numbers if each.lower is not None and each.upper is not None][:_MOST]:
        title, groups = f"Mean of {number.name}", {}
        if categories:
            title, groups = f"{title} by {categories[0].name}", _by(categories[0], person)
        title += ", each person once" if person else ""
        yield {"kind": "mean", "title": title, "column": number.name, **groups, **once}
    for number in [*numbers, *dates][:_MOST]:
        title = f"Quartiles of {number.name}{', of rows' if person else ''}"
        yield {"kind": "quantiles", "title": title, "column": number.name, "levels": _LEVELS}


def _by(group: Category, person: PersonId | None) -> dict[str, Any]:
    """Return the keys of a grouping; without a declared limit a person may be in every group."""
    most = {} if person is None or group.per_person else {"max_groups": len(group.labels)}
    return {"by": group.name, **most}
