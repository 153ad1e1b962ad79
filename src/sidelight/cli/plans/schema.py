"""The JSON schema of plan files, made by asking the readers of plans which keys they know and how they read them.

Nothing is written down twice: every reader is run on a section that notes what is asked of it. Where a reader looks at
a key only beside another one, its kind may stay open; a schema for editors may allow more than the reader does, and
must never forbid what it takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NoReturn

from sidelight.accounting import ROUTES
from sidelight.cli.plans.plan import COLUMN_KINDS, TABLES
from sidelight.cli.plans.sequences import LEARNER_KEYS, read_learner, read_sequence
from sidelight.errors import PlanError
from sidelight.plan_section import COMMON, Section
from sidelight.registry import BY_KIND, PLAN_KINDS, plan_reader

#: What a value of each kind looks like in JSON. Amounts may be texts such as "1/3".
_TYPES = {str: "string", bool: "boolean", int: "integer", Decimal: "number", list: "array", dict: "object"}
_SHAPES: tuple[Any, ...] = ("text", 1, Decimal("0.5"), True, ["text"], [1], [["text"]], [{}], {})
Read = Callable[[Section], object]


class _Values(dict[str, Any]):
    """The keys of a section, and which of them a reader looked at by itself, without saying what it takes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.looked_at: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.looked_at.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.looked_at.add(key)
        return super().get(key, default)


class _Listener(Section):
    """A section that notes what is asked of one key, and makes up whatever else a reader wants."""

    known: list[str]
    taken: list[tuple[tuple[type, ...], bool]]
    options: list[str]

    def listen(self, key: str | None) -> _Listener:
        """Begin to note."""
        object.__setattr__(self, "asked", key)
        for name in ("known", "taken", "options"):
            object.__setattr__(self, name, [])
        return self

    def only(self, *known: str) -> Section:
        self.known.extend(known)
        return self

    def choice(self, key: str, options: Sequence[str], default: Any = None) -> Any:
        if key == vars(self)["asked"]:
            self.options.extend(options)
        value = self._value(key) if key in self.values else default
        return value if value in options else next(iter(options))

    def refuse(self, message: str, *, key: str | None = None) -> NoReturn:
        raise PlanError(f"{key}: {message}")

    def __contains__(self, key: str) -> bool:
        return key in self.values  # as `Section` does, and not as a look at the value

    def _value(self, key: str) -> Any:
        return dict(self.values.items())[key]  # without a look that is noted

    def _read(self, key: str, kinds: tuple[type, ...], default: Any) -> Any:
        if key in self.values:
            return self._checked(key, self._value(key), kinds)
        made = {str: "text", bool: False, int: 1, Decimal: Decimal(1), list: ["text"], dict: {}}
        return made[kinds[0]]

    def _checked(self, key: str, value: Any, kinds: tuple[type, ...]) -> Any:
        if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
            self.refuse("another kind", key=key)
        if key == vars(self)["asked"]:
            self.taken.append((kinds, isinstance(self._value(key), list) and list not in kinds))
        return value

    def _inside(self, values: Mapping[str, Any], *more: str | int) -> Section:
        return Section(self.file, {}, (*self.path, *more), values, self.folder)


def plan_schema() -> dict[str, Any]:
    """Return the JSON schema of a plan file (draft 2020-12), for editors that complete and check TOML."""
    query = _one_of("kind", {kind: _described(kind) for kind in PLAN_KINDS}, default=None)
    columns = {kind: _table(read, {}) for kind, read in COLUMN_KINDS.items()}
    for each in columns.values():
        each["properties"]["from_rows"] = {"type": "boolean"}
    column = _one_of("kind", columns, default="number")
    tables: dict[str, Any] = {name: _closed({key: {} for key in keys}) for name, keys in TABLES.items()}
    amount = {"anyOf": [{"type": "number"}, {"type": "string"}]}  # "1/3" is a text
    tables["budget"]["properties"] |= dict.fromkeys(("epsilon", "delta", "rho", "mu"), amount)
    tables["budget"]["properties"]["routes"] = {"type": "array", "items": {"enum": list(ROUTES)}}
    tables["source"]["properties"] |= {"path": {"type": "string"}, "name": {"type": "string"}}
    tables["source"]["properties"]["records"] = {"enum": ["standard", "lines"]}
    tables["ledger"]["properties"] |= {"url": {"type": "string"}, "scope": {"type": "string"}}
    tables["pricing"]["properties"] |= {"queries": {"enum": ["each", "together"]}, "delta": amount}
    whole = _closed(
        {
            "title": {"type": "string"},
            "strict": {"type": "boolean"},
            **tables,
            "column": {"type": "array", "items": column},
            "query": {"type": "array", "items": query},
            "sequence": _sequence(),
        }
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A plan of sidelight",
        "description": "What is released from one source under one budget; `sidelight plan` prices it.",
        **whole,
        "required": ["source", "budget"],
    }


def _sequence() -> dict[str, Any]:
    """Each learner has keys of its own: they are asked one after the other."""
    made = _table(read_sequence, {})
    for key, found in made["properties"].items():
        told = [found, *(_values(read_learner, {"learner": kind}, key) for kind in LEARNER_KEYS if key != "learner")]
        made["properties"][key] = next((each for each in told if each), {})
    made["properties"]["learner"] = {"enum": list(LEARNER_KEYS)}
    return made


def _described(kind: str) -> dict[str, Any]:
    reader = plan_reader(kind)
    made = _table(reader, {"kind": kind}, common=COMMON)
    said = re.sub(r"^Read `kind = \"\w+\"`[:.]?\s*", "", (reader.__doc__ or "").strip().splitlines()[0])
    made["description"] = f"sl.{BY_KIND[kind].name}" + (f": {said}" if said else "")
    return made


def _one_of(key: str, tables: Mapping[str, dict[str, Any]], *, default: str | None) -> dict[str, Any]:
    """Choose a table by one of its keys."""
    chosen = []
    for name, made in tables.items():
        made["properties"][key] = {"const": name}
        made["required"] = [*made.get("required", []), *([] if name == default else [key])]
        chosen.append(made)
    return {"type": "object", "oneOf": chosen}


def _table(read: Read, fixed: Mapping[str, Any], *, common: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of one table: its keys, and for each what the reader takes."""
    known = list(dict.fromkeys(_listened(read, fixed, key=None).known))
    made = {key: _values(read, fixed, key) for key in known if key not in common}
    return _closed(made | ({"title": {"type": "string"}} if "title" in common else {}))


def _values(read: Read, fixed: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the schema of one key: every kind that was asked for where a value of that shape was there."""
    found: list[dict[str, Any]] = []
    open_to_more = False
    for shape in _SHAPES:
        heard = _listened(read, {**fixed, key: shape}, key=key)
        open_to_more = open_to_more or key in getattr(heard.values, "looked_at", ())
        if heard.options:
            found.append({"enum": list(dict.fromkeys(heard.options))})
        for kinds, inside in heard.taken:
            types = [{"type": _TYPES[kind]} for kind in kinds if kind in _TYPES]
            inner = types[0] if len(types) == 1 else {"anyOf": types}
            found.append({"type": "array", "items": inner} if inside else inner)
    found = [each for place, each in enumerate(found) if each not in found[:place]]
    if any("items" in each for each in found):  # what a list holds was asked as well
        found = [each for each in found if each != {"type": "array"}]
    found = [*found, *([{}] if open_to_more and found else [])]
    return {} if not found else found[0] if len(found) == 1 else {"anyOf": found}


def _listened(read: Read, values: Mapping[str, Any], *, key: str | None) -> _Listener:
    section = _Listener("plan", {}, ("query", 0), _Values(values)).listen(key)
    with suppress(Exception):  # made-up values mean nothing: only what was asked for counts
        read(section)
    return section


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}
