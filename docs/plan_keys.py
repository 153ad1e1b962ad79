"""The page of all keys of plan files, written anew by every build from the tables that read plans."""

from __future__ import annotations

import inspect
from pathlib import Path

from sidelight.plans import query_table
from sidelight.plans.columns import TIED_COLUMN_TABLE
from sidelight.plans.predictions import PRIOR
from sidelight.plans.tables import REQUIRED, TableForm
from sidelight.plans.toml_text import toml_value
from sidelight.registry import PLAN_KINDS, load_query

_INTRODUCTION = """# Keys of plan files

Every key of every table of a [plan](plan-files.md), with what it takes, its default and its meaning. Meanings are
those of the parameters of the Python classes, which are the same; the definitions that read and write plans make this
page.
"""


def page() -> str:
    """Return the page as Markdown."""
    queries = {f'kind = "{kind}"': (query_table(kind), _first_line(load_query(kind))) for kind in PLAN_KINDS}
    columns = {f'kind = "{kind}"': (table, _first_line(table.make)) for kind, table in TIED_COLUMN_TABLE.tables.items()}
    priors = {f'family = "{name}"': (table, _first_line(table.make)) for name, table in PRIOR.tables.items()}
    parts = [_INTRODUCTION]
    for title, tables in (("`[[query]]`", queries), ("`[[column]]`", columns), ("`prediction`", priors)):
        parts.append(f"## {title}\n")
        parts += [f"### `{name}`\n\n{line}\n\n{rows_of(table)}\n" for name, (table, line) in tables.items()]
    return "\n".join(parts)


def rows_of(table: TableForm) -> str:
    """Return the keys of a table as a Markdown table."""
    lines = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    for name, key in table.keys.items():
        default = "must be given" if key.default is REQUIRED else _default(key.default)
        lines.append(f"| `{name}` | {_cell(key.form.words)} | {default} | {_cell(key.meaning)} |")
    return "\n".join(lines)


def _default(value: object) -> str:
    plain = isinstance(value, (str, int, float)) and value != ""
    return f"`{toml_value(value)}`" if plain else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _first_line(made: object) -> str:
    return (inspect.getdoc(made) or "").partition("\n")[0]


def write(path: Path) -> None:
    """Write the page; an unchanged one is not built again."""
    text = page()
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
