"""Names of scopes, keys and labels: what they may hold, and which of them people would read as another one.

Two names that read the same would be two budgets for the same people, or two charges for one answer. What a ledger
holds already is left as it is: only new names are compared.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

from sidelight.errors import LedgerError
from sidelight.readable import alike, first_difference, unprintable, visible

_LONGEST_NAME: Final = 500
#: How the keys begin that requests without one have.
UNNAMED: Final = "auto:"


def checked_name(text: str, *, what: str) -> str:
    """Return a scope id or key that is safe to store and to show, or say what is wrong with it."""
    if not isinstance(text, str) or not text or len(text) > _LONGEST_NAME:
        got = repr(text[:60]) if isinstance(text, str) else type(text).__name__
        raise LedgerError(
            f"{what} must be printable text of 1 to {_LONGEST_NAME} characters, got {got}; "
            "use a short name, or the sha256 of a long one"
        )
    plain = str.__str__(text)
    if (at := unprintable(plain)) is not None:
        sign = plain[at]
        named = unicodedata.name(sign, "a control character or an unassigned one")
        instead = "write a plain space" if unicodedata.category(sign) == "Zs" else "leave it out"
        raise LedgerError(
            f"{what} must be printable text, got {plain[:60]!a}: character {at + 1} is U+{ord(sign):04X} ({named}), "
            f"which does not print there; {instead}"
        )
    return plain


def checked_key(key: str) -> str:
    """Return a key that a user gives to a request. What was asked without one is not answered again by its entry."""
    if (plain := checked_name(key, what="a key")).startswith(UNNAMED):
        raise LedgerError(f"keys that begin with {UNNAMED!r} are those of requests without one; give a key of your own")
    return plain


def check_spelling(name: str, *, what: str) -> None:
    """Refuse a new name that people would read as another one, because of what is drawn as nothing."""
    usual = unicodedata.normalize("NFC", visible(name).strip())
    if name != usual:
        raise LedgerError(
            f"{what} has no spaces around it, no invisible characters, and is spelt in composed letters (Unicode NFC), "
            f"got {name[:60]!a}; it would be paid for apart from {usual[:60]!r}, which people read as the same. "
            "Nothing was charged"
        )


def check_new_scope(name: str, held: Iterable[str]) -> None:
    """Refuse the name of a new scope that people would read as another one; those that a ledger holds stay."""
    check_spelling(name, what="a scope's name")
    shape = alike(name)
    like = next((each for each in held if alike(each) == shape), None)
    if like is not None:
        raise LedgerError(
            f"the ledger has a scope {like[:60]!r}, and {name[:60]!r} would be paid for apart from it, although people "
            f"hardly tell the two apart ({first_difference(name, like)}); write it as the ledger has it, or choose a "
            "name that differs in more than capitals, forms of letters, dashes, quotation marks, spaces and signs that "
            "are drawn as nothing. "
            "Nothing was charged"
        )
