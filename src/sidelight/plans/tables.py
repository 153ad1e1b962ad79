"""Tables of a plan, derived from the classes that they make: a class's parameters are the keys of its table.

Names, types and defaults stand once, in the class. What a plan does differently (a key that it does not offer, another
name for one, a form that an annotation does not give) is passed to `table_of`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from decimal import Decimal
from fractions import Fraction
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sidelight.errors import PlanError, nearest
from sidelight.plans.forms import (
    AMOUNT,
    COLUMN,
    CONDITION,
    FLAG,
    REAL,
    TEXT,
    WHOLE,
    KeyForm,
    KeyPlace,
    choice,
    either,
    list_of,
    take,
)
from sidelight.plans.section import Resolver, Section
from sidelight.records.expressions import Expression

#: Stands for "there is no default".
REQUIRED: Any = inspect.Parameter.empty
_PLAIN: Mapping[Any, KeyForm] = {str: TEXT, bool: FLAG, int: WHOLE, float: REAL}


@dataclass(frozen=True)
class PlanKey:
    """One key of a table: the parameter that it sets, its form, its default, and what it means."""

    parameter: str
    form: KeyForm
    default: Any = REQUIRED
    meaning: str = ""


@dataclass(frozen=True)
class TableForm(KeyForm):
    """A table that makes an object: its keys become the arguments of `make`.

    `common` are keys that are read elsewhere, such as `kind`; `hidden` are parameters that no key sets, with their
    defaults. `check` refuses what the keys together cannot mean, and `parts` returns the parameters of an object that
    does not keep them as attributes. `removed` are keys of earlier versions, and what to do without them.
    """

    words: str = "a table"
    toml: tuple[type, ...] = (dict,)
    described: Any = None
    make: Callable[..., Any] = dict
    keys: Mapping[str, PlanKey] = field(default_factory=dict)
    common: Mapping[str, KeyForm] = field(default_factory=dict)
    hidden: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Section], None] | None = None
    parts: Callable[[Any], Mapping[str, Any]] | None = None
    removed: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> list[str]:
        """The keys that may stand here."""
        more = ["title"] if any(each.form.titled for each in self.keys.values()) else []
        return [*self.common, *self.keys, *more]

    def read(self, place: KeyPlace, value: Any) -> Any:
        return self.read_section(place.table(value))

    def read_section(self, section: Section) -> Any:
        """Make the object; errors of the class get the place of the table."""
        values = self.read_values(section)
        with section.naming():
            return self.make(**values)

    def read_values(self, section: Section) -> dict[str, Any]:
        """Check all keys and return the arguments, without making the object."""
        for key in section.values:
            if key in self.removed:
                section.refuse(f"the key {key!r} is gone; {self.removed[key]}", key=key)
            if key not in self.known:
                section.refuse(f"unknown key {key!r}; {nearest(key, self.known)}", key=key)
        if self.check is not None:
            self.check(section)
        for key, form in self.common.items():
            if key in section.values:
                take(form, KeyPlace(section, key), section.values[key])
        given = {}
        for key, each in self.keys.items():
            if key in section.values:
                given[each.parameter] = take(each.form, KeyPlace(section, key), section.values[key])
            elif each.default is REQUIRED:
                how = f"[{key}] and its keys below" if dict in each.form.toml else f"{key} = ... ({each.form.words})"
                section.refuse(f"{key!r} is missing; write {how}")
        return given

    def write(self, value: Any, resolver: Resolver) -> dict[str, Any]:
        names = [*(each.parameter for each in self.keys.values()), *self.hidden]
        parts = {name: getattr(value, name, None) for name in names} if self.parts is None else self.parts(value)
        for name, usual in self.hidden.items():
            if not _same(parts.get(name, usual), usual):
                raise PlanError(f"a plan cannot say {name} of {type(value).__name__}; leave it out to write a plan")
        written: dict[str, Any] = {}
        for key, each in self.keys.items():
            usual = None if each.default is REQUIRED else each.default
            part = parts.get(each.parameter, usual)
            if _same(part, usual) or (isinstance(part, tuple) and not part):
                continue
            written[key] = each.form.write(part, resolver)
            if each.form.titled and resolver.name_of(part)[1] is not None:
                written["title"] = resolver.name_of(part)[1]
        return written

    def schema(self) -> dict[str, Any]:
        forms = {**self.common, **{key: each.form for key, each in self.keys.items()}}
        required = [key for key, each in self.keys.items() if each.default is REQUIRED]
        properties = {key: forms.get(key, TEXT).schema() for key in self.known}
        found = {"type": "object", "properties": properties, "additionalProperties": False}
        return found | ({"required": required} if required else {})


@dataclass(frozen=True)
class OneOfForm(KeyForm):
    """One of several tables, chosen by which of the named keys it has; `which` names the key that an object gets."""

    toml: tuple[type, ...] = (dict,)
    described: Any = None
    tables: Mapping[str, KeyForm] = field(default_factory=dict)
    which: Callable[[Any], str] | None = None

    def holds(self, value: Any) -> bool:
        return any(form.holds(value) for form in self.tables.values())

    def read(self, place: KeyPlace, value: Any) -> Any:
        section = place.table(value)
        known = list(dict.fromkeys(key for form in self.tables.values() for key in getattr(form, "known", ())))
        for key in value:
            if key not in known:
                section.refuse(f"unknown key {key!r}; {nearest(key, known)}", key=key)
        named = [key for key in self.tables if key in value]
        if len(named) != 1:
            section.refuse(f"it is {self.words}: name one of the {'two' if len(self.tables) == 2 else 'three'}")
        own = getattr(self.tables[named[0]], "known", ())
        foreign = next((key for key in value if key not in own), None)
        if foreign is not None:
            section.refuse(f"{foreign} does not go with {named[0]}; leave it out", key=foreign)
        return self.tables[named[0]].read(place, value)

    def write(self, value: Any, resolver: Resolver) -> Any:
        if self.writer is not None:
            return self.writer(value, resolver)
        return self.tables[self.which(value) if self.which else next(iter(self.tables))].write(value, resolver)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [form.schema() for form in self.tables.values()]}


@dataclass(frozen=True)
class TaggedForm(KeyForm):
    """One of several tables, chosen by the value of one key: `kind` or `family`."""

    words: str = "a table"
    toml: tuple[type, ...] = (dict,)
    described: Any = None
    tag: str = "kind"
    tables: Mapping[str, TableForm] = field(default_factory=dict)
    default: str = ""
    opaque: bool = False

    @property
    def known(self) -> list[str]:
        """The keys that may stand in one of the tables."""
        return list(dict.fromkeys([self.tag, *(key for table in self.tables.values() for key in table.known)]))

    def holds(self, value: Any) -> bool:
        return any(type(value) in form.python for form in self.tables.values())

    def read(self, place: KeyPlace, value: Any) -> Any:
        return self.read_section(place.table(value))

    def read_section(self, section: Section) -> Any:
        """Read the table that the tag names."""
        return self.tables[self.tag_of(section)].read_section(section)

    def tag_of(self, section: Section) -> str:
        """Return the tag of a table."""
        if self.tag not in section.values and self.default:
            return self.default
        if self.tag not in section.values:
            section.refuse(f"{self.tag!r} is missing; write {self.tag} = ... (text in quotes)")
        return str(take(choice(*self.tables), KeyPlace(section, self.tag), section.values[self.tag]))

    def write(self, value: Any, resolver: Resolver) -> dict[str, Any]:
        tag = next((tag for tag, form in self.tables.items() if type(value) in form.python), None)
        if tag is None:
            raise PlanError(f"a plan has no {self.tag} for {type(value).__name__}; it knows {', '.join(self.tables)}")
        return {self.tag: tag, **self.tables[tag].write(value, resolver)}

    def schema(self) -> dict[str, Any]:
        if self.opaque:
            return {"type": "object"}
        chosen = []
        for tag, form in self.tables.items():
            found = form.schema()
            found["properties"][self.tag] = {"const": tag}
            required = [*found.get("required", []), *([] if tag == self.default else [self.tag])]
            chosen.append(found | ({"required": required} if required else {}))
        return {"type": "object", "oneOf": chosen}


def table_of(
    made: type,
    *,
    without: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    forms: Mapping[str, KeyForm] | None = None,
    required: Sequence[str] = (),
    common: Mapping[str, KeyForm] | None = None,
    numbers: KeyForm = REAL,
) -> TableForm:
    """Derive the table that makes objects of a class: its parameters are the keys.

    Args:
        made: A dataclass, or a class with an annotated constructor that keeps its arguments.
        without: Parameters that a plan does not offer.
        names: What a plan calls a parameter, where that is another name.
        forms: Forms of parameters whose annotation does not give one.
        required: Parameters that a plan must give although they have a default.
        common: Keys that are read elsewhere.
        numbers: The form of floats; `AMOUNT` hands them on as they are written.
    """
    meanings = _arguments(made)
    keys, hidden = {}, {}
    for name, (hint, usual) in _parameters(made).items():
        if name in without:
            hidden[name] = usual
            continue
        form = (forms or {}).get(name) or _form_of(name, hint, numbers)
        default = REQUIRED if name in required else usual
        keys[(names or {}).get(name, name)] = PlanKey(name, form, default, meanings.get(name, ""))
    return TableForm(make=made, python=(made,), keys=keys, common=common or {}, hidden=hidden)


def _parameters(made: type) -> dict[str, tuple[Any, Any]]:
    """Return the type and the default of each parameter."""
    hints = get_type_hints(made if is_dataclass(made) else vars(made)["__init__"])
    found: dict[str, tuple[Any, Any]] = {}
    for name, parameter in inspect.signature(made).parameters.items():
        found[name] = hints[name], parameter.default
    return found


def _form_of(name: str, hint: Any, numbers: KeyForm) -> KeyForm:
    """Return the form of a parameter by its annotation; None in it means that the key may be left out."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    options = tuple(each for each in options if each is not NoneType)
    if name == "where":
        return CONDITION
    forms: list[KeyForm] = []
    if Expression in options:
        forms, options = [COLUMN], tuple(each for each in options if each not in (str, Expression))
    if Fraction in options:
        forms, options = [AMOUNT], tuple(each for each in options if each not in _NUMBERS)
    for each in options:
        origin, inside = get_origin(each), get_args(each)
        if origin is Literal:
            forms.append(choice(*inside))
        elif each in _PLAIN:
            forms.append(numbers if each is float else _PLAIN[each])
        elif isinstance(origin, type) and issubclass(origin, Sequence):
            fixed = len(inside) if origin is tuple and Ellipsis not in inside else None
            shape = f"a list of {fixed} values in [brackets]" if fixed else ""
            forms.append(list_of(_form_of("", inside[0], numbers), shape=shape, make=_sequence(origin, fixed)))
        else:
            raise TypeError(f"the parameter {name!r} of type {each} needs a form of its own")
    return either(*forms)


def _sequence(origin: type, length: int | None) -> Callable[[list[Any]], Any]:
    def make(found: list[Any]) -> Any:
        if length not in (None, len(found)):
            raise PlanError("another length")
        return tuple(found) if origin is tuple else found

    return make


_NUMBERS = (str, int, float, Decimal, Fraction)


def _arguments(made: type) -> dict[str, str]:
    """Return what the docstring of a class, or of its bases, says about each parameter."""
    found: dict[str, str] = {}
    for each in made.__mro__:
        text = inspect.cleandoc(each.__dict__.get("__doc__") or "")
        block = re.search(r"^Args:\n((?:    .*\n|\n)*)", text + "\n", flags=re.MULTILINE)
        for names, said in re.findall(
            r"^    ([a-z_, ]+): (.*(?:\n        .*)*)", block[1] if block else "", re.MULTILINE
        ):
            for name in names.split(", "):
                found.setdefault(name, re.sub(r"\s+", " ", said))
    return found


def _same(value: Any, default: Any) -> bool:
    """Return whether a value is the default; of arrays and expressions, which compare in their own way, never."""
    plain = isinstance(value, (*_NUMBERS, bool, tuple, dict)) or is_dataclass(value)
    return value is default or (plain and type(value) is type(default) and bool(value == default))


def section_of(described: Callable[[], dict[str, Any]] | None = None) -> KeyForm:
    """Return the form of a table that is read later, with its place."""
    return KeyForm("a table", (dict,), described or {}, lambda place, value: place.table(value))
