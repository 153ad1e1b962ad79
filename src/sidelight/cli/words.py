"""The library's advice in the words of plan files and of the command line: who uses them writes no Python.

Errors are raised by queries, which do not know how they were asked for, and say what to write in Python. The command
line tells them once more, `sl.PersonId(..., max_rows=...)` as a `[[column]]` of a plan and `max_groups=` as an option.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_COLUMNS = {"Number": "number", "Date": "date", "Category": "category", "Label": "label", "PersonId": "person"}
#: A call with brackets inside it up to one deep.
_CALL = r"\(((?:[^()]|\([^()]*\))*)\)"
_KEY = r"(?<![\w.])([a-z_]+)"


def in_plan_words(message: str, *, options: bool = False) -> str:
    """Return a message of the library as it reads for somebody with a plan, or (`options`) at the command line.

    >>> in_plan_words("write max_groups=2, or declare sl.Category('sex', [...], per_person=1)")
    'write max_groups = 2, or declare a [[column]] of kind = "category", name = "sex", per_person = 1'
    >>> in_plan_words("write max_groups=..., a small number", options=True)
    'write --max-groups, a small number'
    """
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    if options:
        return re.sub(r"\b(max_groups|max_rows_per_group)(?: = \.\.\.| = (\d+))?", _option, message)
    return message


def _option(found: re.Match[str]) -> str:
    name = "--" + found[1].replace("_", "-")
    return name if found[2] is None else f"{name} {found[2]}"


def _column(found: re.Match[str]) -> str:
    return _table("column", _COLUMNS[found[1]], found[2])


def _query(found: re.Match[str]) -> str:
    return _table("query", _snake(found[1]), found[2] or "")


def _table(table: str, kind: str, arguments: str) -> str:
    name = re.match(r"\s*['\"](\w+)['\"]", arguments)
    key = "name" if table == "column" else "column"
    told = [f'{key} = "{name[1]}"'] if name else []
    told += [f"{key} = {value}" for key, value in re.findall(_KEY + r"=(\[[^\]]*\]|[^,\s]+)", arguments)]
    return ", ".join([f'a [[{table}]] of kind = "{kind}"', *told])


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"sl\.col\((['\"]?)([^'\"()]+)\1\)\.(cut|lookup)\(([^()]*)\)", r"\3(\2, \4)"),
    (r"sl\.col\((['\"]?)([^'\"()]+)\1\)", r"\2"),
    (r"(?<=\)) & (?=\()", " and "),
    (r"sl\.Fill\(([^()]*)\)", r"{fill = \1}"),
    (r"sl\.Drop\(\)", '"drop"'),
    (r"sl\.Predicted\(\.\.\., doubt=([\d.]+)\)", r"prediction = {..., doubt = \1}"),
    (r"sl\.priors\.(\w+)\(([^,()]+), ([^()]+)\)", lambda found: _prior(found)),
    (r"sl\.Table" + _CALL, "[[column]] tables in the plan"),
    (r"\bsl\.Table\b", "the plan's source"),
    (r"sl\.Release\.from_json", "release = in a plan"),
    (r"sl\.(Number|Date|Category|Label|PersonId)" + _CALL, _column),
    (r"sl\.(Number|Date|Category|Label|PersonId)\b", lambda found: f"a {_COLUMNS[found[1]]} [[column]]"),
    (r"sl\.([A-Z]\w*)" + _CALL, _query),
    (r"sl\.([A-Z]\w*)", lambda found: f'a [[query]] of kind = "{_snake(found[1])}"'),
    (_KEY + r"='([^']*)'", r'\1 = "\2"'),
    (_KEY + r"=True\b", r"\1 = true"),
    (_KEY + r"=False\b", r"\1 = false"),
    (_KEY + r"=(?=\.\.\.|[\d\[{\"])", r"\1 = "),
)


def _prior(found: re.Match[str]) -> str:
    numbers = (text.strip().replace("_", "") if text.strip()[0].isdigit() else "..." for text in (found[2], found[3]))
    location, scale = numbers
    return f'{{family = "{_snake(found[1])}", location = {location}, scale = {scale}}}'
