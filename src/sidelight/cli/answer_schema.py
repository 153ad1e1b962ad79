"""The JSON schema of what each command writes with `--json`."""

from __future__ import annotations

from typing import Any

from sidelight.errors import RangeError, nearest

_TEXT, _FLAG, _COUNT, _NUMBER = ({"type": kind} for kind in ("string", "boolean", "integer", "number"))
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}


def _maybe(kind: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [kind, {"type": "null"}]}


def _thing(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": _thing(**properties)}


_EXPECTED = _thing(
    size=_maybe(_NUMBER),
    unit=_TEXT,
    basis=_TEXT,
    condition=_TEXT,
    likely=_maybe(_NUMBER),
    columns={"type": "object", "additionalProperties": _NUMBER},
)
_SWEEP = _list(price=_TEXT, amount=_NUMBER, expected=_EXPECTED)
_REPORT = {
    "type": {"const": "report"},
    "format": _TEXT,
    "title": _TEXT,
    "day": _TEXT,
    "introduction": _TEXT,
    # queries and releases, as `Release.to_json` writes them
    "items": _list(title=_TEXT, outcome={"type": "object"}),
    "account": _maybe({"type": "object"}),
    "comparison": _maybe({"type": "object"}),
}
#: Of a database: the base table, looked-up columns, folds, and the numbers of rows per person, present and counted.
_READS = _thing(
    base=_TEXT, cap=_TEXT, rows_a_person=_COUNT, counted_a_person=_COUNT, lookups=_TEXTS, folds={"type": "object"}
)
_PRICED = {
    "title": _TEXT,
    "fits": _FLAG,
    "queries": _list(title=_TEXT, guarantee=_TEXT, expected=_EXPECTED, advice=_TEXTS, reads=_maybe(_READS)),
    "charges": _list(title=_TEXT, guarantee=_TEXT, status=_TEXT, periods=_maybe(_TEXT)),
    "promised": _TEXT,
    "left": _TEXT,
}
_ENTRIES = _list(at=_TEXT, what=_TEXT, guarantee=_TEXT, state=_TEXT, entry=_TEXT)

_CHECKED = {
    "rows": _COUNT,
    "persons": _maybe(_COUNT),
    "beyond_cap": _COUNT,
    "broken_lines": _maybe(_COUNT),
    "rows_by_pandas": _maybe(_COUNT),
    "columns": _list(name=_TEXT, kind=_TEXT, missing=_COUNT, unreadable=_COUNT, clamped=_COUNT, unknown=_COUNT),
    "problems": _TEXTS,
    "proposals": _list(column=_TEXT, reads=_COUNT, declare=_TEXTS),
}
#: Of a table of a database: owners of its rows, and matches of its references.
_TIED = {
    **dict.fromkeys(("contested", "dangling", "repeated_keys", "elsewhere"), _COUNT),
    "references": _list(name=_TEXT, to=_TEXT, missing=_COUNT, dangling=_COUNT, of_others=_COUNT),
}

#: Results of each command in addition to `command`, `version`, `ok` and `error`; one entry per form.
ANSWERS: dict[str, tuple[dict[str, Any], ...]] = {
    "demo": (
        {
            "ways": _list(name=_TEXT, mean_error=_NUMBER, standard_error=_NUMBER),
            "by_town": _list(title=_TEXT, error_alone=_NUMBER, error_with_table=_NUMBER),
            "output": _TEXT,
        },
    ),
    "init": ({"plan": _TEXT, "declared": _TEXTS, "not_declared": _TEXTS, "from_rows": _TEXTS, "queries": _COUNT},),
    "check": (
        {"private": {"const": False}, **_CHECKED},
        {"private": {"const": False}, "tables": _list(table=_TEXT, **_CHECKED, **_TIED)},
    ),
    "dummy": ({"rows": _COUNT, "columns": _TEXTS, "generated": {"const": True}, "output": _TEXT},),
    "plan": (
        _PRICED,
        {"title": _TEXT, "day": _TEXT, "promised": _TEXT, "days_left": _maybe(_COUNT)},
        {"title": _TEXT, "sweeps": _list(title=_TEXT, prices=_SWEEP)},
    ),
    "accuracy": (
        {
            "title": _TEXT,
            "price": _TEXT,
            "amount": _NUMBER,
            "expected": _EXPECTED,
            "confidence": _NUMBER,
            "prices": _SWEEP,
        },
    ),
    "run": (_REPORT | {"output": _TEXT},),
    "sql": (
        _REPORT | {"output": _TEXT, "translation": _TEXT},
        {"translation": _TEXT} | _PRICED,
    ),
    "today": (_REPORT | {"output": _TEXT, "days": _COUNT, "again": _FLAG},),
    "audit": (
        {"plan": _TEXT, "long": _FLAG, "queries": {"type": "array", "items": {"type": "object"}}, "output": _TEXT},
    ),
    "disclose": ({"record": {"type": "object"}, "output": _TEXT, "page": _TEXT},),
    "report": ({"releases": _COUNT, "output": _TEXT},),
    "table": ({"rows": _COUNT, "columns": _TEXTS, "private": _FLAG, "output": _TEXT},),
    "privacy-page": ({"output": _TEXT},),
    "explain": ({"terms": {"type": "object", "additionalProperties": _TEXT}},),
    "token new": ({"tokens": _list(client=_TEXT, token=_TEXT)},),
    "token revoke": ({"client": _TEXT},),
    "token list": ({"clients": _list(client=_TEXT, token=_maybe(_TEXT))},),
    "server check": (
        {
            "tables": _list(
                table=_TEXT, promise=_TEXT, requests=_COUNT, ledger_bytes=_COUNT, unpriced={"type": "object"}
            ),
            "windows": _TEXTS,
        },
    ),
    "server calibrate": ({"tables": _list(table=_TEXT, lines=_TEXT, durations={"type": "object"})},),
    "server status": ({"accounts": _list(table=_TEXT, account=_TEXT, remaining={"type": "object"}, paused=_FLAG)},),
    "server pause": ({"table": _TEXT, "paused": _FLAG},),
    "server resume": ({"table": _maybe(_TEXT), "paused": _FLAG},),
    "ledger show": (
        {"scopes": _list(scope=_TEXT, statement=_TEXT, spent=_TEXT, left=_TEXT, entries=_ENTRIES), "head": _TEXT},
    ),
    "ledger verify": (
        {"intact": _FLAG, "problems": _TEXTS, "events": _COUNT, "entries": _COUNT, "scopes": _COUNT, "head": _TEXT},
    ),
    "ledger export": ({"events": _COUNT, "output": _TEXT},),
    "ledger reap": ({"given_up": _TEXTS},),
}


#: Results of a refused command in addition to the reason.
_REFUSED: dict[str, tuple[dict[str, Any], ...]] = {"sql": ({}, {"translation": ANSWERS["sql"][0]["translation"]})}


def answer_schema(command: str) -> dict[str, Any]:
    """Return the JSON schema of the results of a command.

    >>> answer_schema("explain")["anyOf"][0]["required"]
    ['command', 'version', 'ok', 'error', 'terms']
    """
    if command not in ANSWERS:
        raise RangeError(f"no command {command!r} writes JSON; {nearest(command, ANSWERS)}")
    every = {"command": {"const": command}, "version": _TEXT, "ok": _FLAG, "error": _maybe(_TEXT)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"sidelight {command} --json",
        "anyOf": [_thing(**(every | form)) for form in (*ANSWERS[command], *_REFUSED.get(command, ({},)))],
    }
