"""The form of a deployment record: its YAML, its parts for people, and what of it only the publisher knows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sidelight.errors import RangeError
from sidelight.readable import shown_html

CuratorType = Literal["Government", "Industry", "Nonprofit"]
Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]


@dataclass(frozen=True, kw_only=True)
class PublisherFacts:
    """What a deployment record needs and neither a plan nor a ledger says.

    Args:
        curator: Who publishes.
        curator_type: What the curator is: "Government", "Industry" or "Nonprofit".
        intended_use: What the published numbers are for.
        region: What region the data describes, or whose laws apply.
        authors: Who wrote the record.
        description: What is published, in a sentence; the queries are listed if it is left out.
        sector: The domain of the data.
        units: About how many persons (or rows) the data has, where that is public; it is not read from the rows.
        data_domain: Which data sets are eligible for protection; made from the declared columns if left out.
        unprotected: What is published about these people without noise, besides what goes through this ledger.
        preprocessing: What was done to the rows before, and how bounds and prices were chosen.
        post_processing: What is done to the released numbers before they are published.
        actors: Who sees the rows and the releases, and what each is trusted with.
        justification: Why these choices were made.
        data_source: "Dynamic" where new rows come in over time.
        access: "Interactive" where people ask queries of their own.
        links: Addresses of papers, pages or the published numbers.
    """

    curator: str
    curator_type: CuratorType
    intended_use: str
    region: str
    authors: Sequence[str]
    description: str | None = None
    sector: Sector | None = None
    units: int | None = None
    data_domain: str | None = None
    unprotected: str | None = None
    preprocessing: str | None = None
    post_processing: str | None = None
    actors: str | None = None
    justification: str | None = None
    data_source: Literal["Static", "Dynamic"] | None = None
    access: Literal["Interactive", "Non-interactive"] = "Non-interactive"
    links: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, allowed in (("curator_type", CuratorType), ("sector", Sector)):
            value = getattr(self, name)
            if value is not None and value not in get_args(allowed):
                raise RangeError(f"{name} must be one of {', '.join(get_args(allowed))}, got {value!r}")
        if isinstance(self.authors, str) or not self.authors:
            raise RangeError(f"authors must be a list of at least one name, got {self.authors!r}")


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """A deployment record, as the public registry of differential-privacy deployments keeps them.

    Args:
        record: The record, in the registry's keys.
    """

    record: Mapping[str, Any]

    @property
    def file_name(self) -> str:
        """A name for the record's file as the registry wants them: small letters, digits and underscores."""
        return f"{str(self.record['url_slug']).replace('-', '_')}.yaml"

    def to_yaml(self) -> str:
        """Return the record as YAML."""
        return "\n".join(_yaml(self.record)) + "\n"

    def sections(self) -> Iterable[tuple[str, list[tuple[str, str]]]]:
        """Yield the parts of the record for people: a heading, and names with texts."""
        for part, content in self.record["deployment"].items():
            yield _words(part), [(_words(key), _plain(value)) for key, value in content.items()]

    def _repr_html_(self) -> str:
        """Return the record for a notebook."""
        rows = (
            f"<tr><th scope='row'>{shown_html(name)}</th>"
            f"<td style='white-space: pre-wrap'>{shown_html(text, lines=True)}</td></tr>"
            for heading, entries in self.sections()
            for name, text in [(heading.upper(), ""), *entries]
        )
        return f"<table>{''.join(rows)}</table>"


def _words(key: str) -> str:
    return key.replace("_", " ").replace("dp ", "DP ").capitalize().replace("Dp ", "DP ")


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(each)}" for key, each in value.items())
    if isinstance(value, list):
        return "; ".join(", ".join(each.values()) if isinstance(each, Mapping) else str(each) for each in value)
    return str(value)


# YAML: texts in double quotes, as JSON writes them, which YAML reads alike; several lines as a block.


def _yaml(values: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{key}:", *(f"  {line}" for line in _yaml(value))]
        elif isinstance(value, list):
            lines.append(f"{key}:")
            for each in value:
                first, *rest = _yaml(each) if isinstance(each, Mapping) else [_scalar(each)]
                lines += [f"  - {first}", *(f"    {line}" for line in rest)]
        elif isinstance(value, str) and "\n" in value and _fits_a_block(value):
            lines += [f"{key}: |-", *(f"  {line}".rstrip() for line in value.split("\n"))]
        else:
            lines.append(f"{key}: {_scalar(value)}")
    return lines


def _fits_a_block(text: str) -> bool:
    """Return whether a block of YAML reads a text back as it is."""
    ends = text != text.strip() or any(line != line.rstrip() for line in text.split("\n"))
    return not ends and all(sign == "\n" or sign.isprintable() for sign in text)


def _scalar(value: Any) -> str:
    if isinstance(value, float) and "e" in repr(value):  # YAML 1.1 wants the point in 1.0e-06
        digits, _, power = repr(value).partition("e")
        return f"{digits if '.' in digits else digits + '.0'}e{power}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
