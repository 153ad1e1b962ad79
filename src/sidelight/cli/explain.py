"""`sidelight explain`: the terms of the documentation, from the file of its glossary."""

from __future__ import annotations

import re
from importlib.resources import files

from sidelight.cli.answers import note
from sidelight.cli.terminal import tell
from sidelight.errors import RangeError, nearest

#: Letters and other spellings that people type.
_SPELLINGS = {
    "ε": "epsilon",
    "δ": "delta",
    "ρ": "rho",
    "μ": "mu",
    "dp": "differential privacy",
    "zcdp": "rho",
    "gdp": "mu",
    **dict.fromkeys(("laplace", "gaussian", "normal", "laplace noise", "gaussian noise", "geometric"), "noise"),
    **dict.fromkeys(("eps", "privacy loss"), "epsilon"),
}


def glossary() -> dict[str, str]:
    """Return every term with its meaning.

    >>> glossary()["charge"]
    'The cost that the ledger records for a query, before the data is opened. Never refunded.'
    """
    text = (files("sidelight.cli") / "glossary.md").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for terms, meaning in re.findall(r"^\*\*([^*]+)\*\*\n: (.*?)(?=\n\n|\Z)", text, flags=re.DOTALL | re.MULTILINE):
        text_of_it = re.sub(r"\s+", " ", re.sub(r"\[([^\]]*)\]\([^)]*\)|[*]+", r"\1", meaning)).strip()
        found |= {term.strip(): text_of_it for term in terms.split(",")}
    return found


def explain(term: str | None) -> None:
    """Print the meaning of a term, or all terms."""
    known = glossary()
    if term is None:
        for each, meaning in sorted(known.items()):
            tell(f"{each}: {meaning}")
        note(terms=known)
        return
    asked = term.strip().lower()
    asked = _SPELLINGS.get(asked, asked)
    # columns of several means have prefixes: mean_age_low is a `low`
    ends = [asked[place + 1 :] for place, sign in enumerate(asked) if sign == "_"]
    name = next((each for each in (asked, asked.removesuffix("s"), f"{asked}s", *ends) if each in known), None)
    if name is None:
        raise RangeError(f"{term!r} is not in the glossary; {nearest(asked, list(known))}")
    tell(f"{name}: {known[name]}")
    note(terms={name: known[name]})
