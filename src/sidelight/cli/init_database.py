"""`sidelight init folder/`: a plan of a database, from the headers of a folder's files and the owner's declarations.

Tables that have the person's column belong to that person. For other tables, a column with the name of another table's
key is proposed as a reference: as a question on a terminal, otherwise as a comment. No file is assumed to be
public unless that is stated. No row is read.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from sidelight.cli.answers import note
from sidelight.cli.init import MAX_ROWS, InitOptions, columns_of, declare, first_queries, price_lines, write_plan
from sidelight.cli.look import check_target
from sidelight.cli.terminal import tell
from sidelight.errors import PlanError, SchemaError
from sidelight.plans import read_plan
from sidelight.plans.columns import write_column
from sidelight.plans.toml_text import toml_key, toml_lines, toml_value
from sidelight.records import PersonId
from sidelight.records.keys import Key, PersonVia, Reference
from sidelight.records.rows import ColumnType

_ENDINGS = (".csv", ".parquet")
_OF_ONE_TABLE = ("metadata", "write_metadata", "force")


@dataclass
class ProposedTable:
    """A file of the folder: its columns, declarations and proposals."""

    name: str
    path: str
    types: Mapping[str, ColumnType]
    columns: list[Any] = field(default_factory=list)
    proposals: list[Any] = field(default_factory=list)
    public: bool = False

    @property
    def is_used(self) -> bool:
        """Whether it is linked to the person, or public."""
        return self.public or any(isinstance(each, (PersonId, PersonVia)) for each in self.columns)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the CSV and Parquet files of a folder by the names of their tables; {} if they are parts of one table."""
    files = [each for each in sorted(folder.iterdir()) if each.is_file() and each.suffix.lower() in _ENDINGS]
    headers = {tuple(columns_of(each)) for each in files}
    if len(headers) < 2:
        return {}
    names = [each.name.partition(".")[0] for each in files]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"two files of {str(folder)!r} would be the table {name!r}; rename or move one of them")
    return dict(zip(names, files, strict=True))


def write_first_plan(data: Path, *, output: Path, look: bool, ask: bool, overwrite: bool, **options: Any) -> None:
    """Write a plan for a file, or for the tables of a folder whose files have different headers."""
    files = files_of(data) if data.is_dir() else {}
    if not files:
        write_plan(data, output=output, look=look, ask=ask, overwrite=overwrite, **options)
        return
    other = {"--look": look, **{f"--{key.replace('_', '-')}": options.pop(key) for key in _OF_ONE_TABLE}}
    for option, given in other.items():
        if given:
            raise PlanError(f"{option} is for one table, and {str(data)!r} holds {len(files)}; leave it out")
    check_target(output, look=False, overwrite=overwrite, inputs=list(files.values()))
    answers, asked = InitOptions(**options), ask or sys.stdin.isatty()
    write_database_plan(files, folder=data, answers=answers, asked=asked, output=output)


def write_database_plan(
    files: Mapping[str, Path], *, folder: Path, answers: InitOptions, asked: bool, output: Path
) -> None:
    """Write a plan of the tables of a folder; headers and footers are read, and no row."""
    person = answers.person
    if person is None:
        raise PlanError(
            f"{str(folder)!r} holds {len(files)} tables; a database is about people: name the column with the person's "
            "id, --person COLUMN. A table without it is linked to the others by its keys"
        )
    root = output.absolute().parent
    tables = {
        name: ProposedTable(name, os.path.relpath(path.absolute(), root), columns_of(path))
        for name, path in files.items()
    }
    if not any(person in table.types for table in tables.values()):
        raise SchemaError(f"no file of {str(folder)!r} has a column {person!r}; name the one with the person's id")
    _declare_columns(answers, tables)
    for table in tables.values():
        if person in table.types:
            rows = MAX_ROWS if answers.max_rows is None else answers.max_rows
            table.columns.insert(0, PersonId(person, max_rows=rows, **answers.spelling))
    _propose(tables, person=person, max_rows=answers.max_rows or MAX_ROWS, asked=asked)
    text, queries = _plan_text(tables, folder=folder, answers=answers)
    output.write_text(text, encoding="utf-8")
    read_plan(output)
    _tell(tables, output=output, queries=queries)


def _declare_columns(answers: InitOptions, tables: Mapping[str, ProposedTable]) -> None:
    """Apply options for "table.column"."""
    known = {f"{name}.{column}": kind for name, table in tables.items() for column, kind in table.types.items()}
    dotted = replace(answers, person=None, max_rows=None, declared={})
    declare(dotted, known)
    for path, declared in dotted.declared.items():
        table, _, name = path.partition(".")  # names of columns may have dots, and those of tables have none
        column = copy.copy(declared.column)
        object.__setattr__(column, "name", name)
        tables[table].columns.append(column)


def _propose(tables: Mapping[str, ProposedTable], *, person: str, max_rows: int, asked: bool) -> None:
    """Find columns with the name of another table's key, and ask about each; others become comments."""
    keys = {name: key for name, table in tables.items() if (key := _key_of(table)) is not None}
    for table in sorted(tables.values(), key=lambda each: person not in each.types):
        for to, key in keys.items():
            column = next((each for each in (key, f"{to}_id") if each in table.types and each != "id"), None)
            if to == table.name or column is None or column == person:
                continue
            owned = table.is_used and not table.public
            tie = Reference(column, to=to) if owned else PersonVia(column, to=to, max_rows=max_rows)
            question = f"does {table.name}.{column} name a row of {to} by its {key}"
            if not owned:
                question += ", whose person the row belongs to"
            leads = owned or (tables[to].is_used and not tables[to].public)
            if asked and leads and typer.confirm(f"{question}?", default=False):
                table.columns.append(tie)
                if not any(isinstance(each, Key) for each in tables[to].columns):
                    tables[to].columns.append(Key(key))
            else:
                table.proposals.append(tie)
        if asked and not table.is_used:
            table.public = typer.confirm(f"may everyone see every row of {table.name} (a code list)?", default=False)
            if table.public and table.name in keys and not any(isinstance(each, Key) for each in table.columns):
                table.columns.append(Key(keys[table.name]))


def _key_of(table: ProposedTable) -> str | None:
    return next((each for each in (f"{table.name}_id", "id") if each in table.types), None)


def _plan_text(tables: Mapping[str, ProposedTable], *, folder: Path, answers: InitOptions) -> tuple[str, int]:
    used = [table for table in tables.values() if table.is_used and table.columns]
    asked = [query for table in used if not table.public for query in _queries(table)]
    budget, price = price_lines(answers.epsilon, answers.delta, len(asked))
    name = folder.absolute().name
    lines = [
        f"# A first plan for the tables of {toml_value(name)}, written by `sidelight init`. Everything below must be",
        "# public: true of everybody, not of these rows. Lines that begin with `# proposed` are questions: a table",
        "# that is neither tied to the person nor declared public is not read.",
        f"title = {toml_value(name)}",
        *("", "[database]", f"name = {toml_value(name)}"),
    ]
    for table in tables.values():
        lines += ["", *_table_lines(table, comment="" if table in used else "# ")]
    lines += ["", *budget, "", "[ledger]", f"url = {toml_value(answers.ledger)}"]
    for query in asked:
        lines += ["", "[[query]]", *toml_lines(query), f"epsilon = {price}"]
    return "\n".join([*lines, ""]), len(asked)


def _table_lines(table: ProposedTable, *, comment: str) -> Iterator[str]:
    header = f"table.{toml_key(table.name)}"
    yield f"{comment}[{header}]"
    yield f"{comment}path = {toml_value(table.path)}"
    if table.public:
        yield f"{comment}public = true"
    elif comment:
        yield "# proposed: public = true, if everyone may see every row"
    for column in table.columns:
        yield from (f"{comment}{line}" for line in (f"[[{header}.column]]", *toml_lines(write_column(column))))
    for tie in table.proposals:
        written = write_column(tie)
        yield f"# proposed, and {tie.to} then needs its key: [[{header}.column]] {', '.join(toml_lines(written))}"
    named = {name for each in table.columns for name in getattr(each, "columns", (getattr(each, "name", ""),))}
    rest = [name for name in table.types if name not in named]
    if rest:
        yield f"# Not declared, and never read: {', '.join(map(toml_value, rest))}"


def _queries(table: ProposedTable) -> Sequence[dict[str, Any]]:
    """Return common first queries of a table; a person may be found through another table."""
    via = [PersonId("person", max_rows=each.max_rows) for each in table.columns if isinstance(each, PersonVia)]
    columns = [*via, *(each for each in table.columns if not isinstance(each, (Key, Reference, PersonVia)))]
    return [each | {"title": f"{each['title']}, {table.name}", "from": table.name} for each in first_queries(columns)]


def _tell(tables: Mapping[str, ProposedTable], *, output: Path, queries: int) -> None:
    used = {name: table for name, table in tables.items() if table.is_used and table.columns}
    declared = [
        f"{name}.{each.name}" for name, table in used.items() for each in table.columns if hasattr(each, "name")
    ]
    left = [f"{name}.{each}" for name, table in tables.items() for each in table.types]
    skipped = [each for each in left if each not in declared]
    note(plan=str(output), declared=declared, not_declared=skipped, from_rows=[], queries=queries)
    tell(f"wrote {output}: {len(used)} tables, {queries} queries for half of the budget")
    for name, table in tables.items():
        for tie in table.proposals:
            tell(
                f"proposed, not assumed: {name}.{tie.columns[0]} names a row of {tie.to}; see the comments of {output}"
            )
        if name not in used:
            tell(f"not read: {name}; nothing links it to the person, and it was not declared public")
    tell(f"next: `sidelight check {output}`, `sidelight plan {output}`, `sidelight run {output}`; the first is for you")
