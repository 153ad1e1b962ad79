"""Where a prediction came from: public knowledge, values released before, or a person's guess.

The origin never changes the guarantee of the release that uses the prediction. It says why that is so: a public source
and a guess do not depend on the records, and released values were paid for by the ledger entries named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sidelight.errors import RangeError, nearest
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.readable import shown_text

OriginKind = Literal["public", "released", "guess"]
_KINDS = ("public", "released", "guess")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Build it with `public`, `released` or `guess`; all fields are public text.

    `files` are the paths that public rows were read from. They are kept in this process alone, to be compared with that
    of the private table. `seeded` says that a release with seeded noise, which is not private, is part of it: whatever
    is predicted with it is refused, unless it is made with seeded noise itself.
    """

    kind: OriginKind
    description: str = ""
    entries: tuple[str, ...] = ()
    seeded: bool = False
    files: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise RangeError(f"an origin is public, released or guess, got {self.kind!r}; {nearest(self.kind, _KINDS)}")
        if self.kind == "public" and not self.description:
            raise RangeError("a public origin needs a description; name the data set or the knowledge it came from")
        if (self.kind == "released") != bool(self.entries):
            raise RangeError(
                f"ledger entries belong to released predictions and only to them, got kind={self.kind!r} with "
                f"{len(self.entries)} entries; use released([entry, ...]) for values that earlier releases paid for"
            )

    def to_json(self) -> dict[str, object]:
        """Return strings and a list of strings; `origin_from_json` is the inverse."""
        written: dict[str, object] = {"kind": self.kind}
        if self.description:
            written["description"] = self.description
        if self.entries:
            written["entries"] = list(self.entries)
        if self.seeded:
            written["entropy"] = SEEDED_BRANDING
        return written

    def __str__(self) -> str:
        words = shown_text(self._words)
        return f"{words}; NOT PRIVATE: made with seeded noise" if self.seeded else words

    @property
    def _words(self) -> str:
        if self.kind == "released":
            return f"released before (entries {', '.join(self.entries)})"
        return f"public: {self.description}" if self.kind == "public" else self.description or "a guess"


def public(description: str) -> Origin:
    """Name the public data set or public knowledge that a prediction came from.

    >>> str(public("census 2020, table B01"))
    'public: census 2020, table B01'
    """
    return Origin(kind="public", description=description)


def released(entries: str | Iterable[str], description: str = "") -> Origin:
    """Name the ledger entry, or entries, whose releases a prediction was computed from."""
    named = (entries,) if isinstance(entries, str) else tuple(entries)
    return Origin(kind="released", description=description, entries=named)


def guess(description: str = "") -> Origin:
    """Return the origin of a prediction that a person chose without looking at the records."""
    return Origin(kind="guess", description=description)


def stated_origin(given: Any) -> Origin:
    """Read where a stated prediction came from: a text names a public source, and without one it is a guess."""
    if given is not None and not isinstance(given, str | Origin):
        raise RangeError(f"origin is a text that names the source, got {type(given).__name__}")
    return guess() if given is None else public(given) if isinstance(given, str) else given


def joint_origin(origins: Iterable[Origin]) -> Origin:
    """Join the origins of several parts: entries are never lost, and a guess outweighs a public source."""
    everything = tuple(origins)
    files = tuple(dict.fromkeys(file for part in everything for file in part.files))
    seeded = any(part.seeded for part in everything)
    return replace(_joint(tuple(dict.fromkeys(everything))), files=files, seeded=seeded)


def _joint(parts: tuple[Origin, ...]) -> Origin:
    if len(parts) == 1:
        return parts[0]
    words = "; ".join(dict.fromkeys(part.description for part in parts if part.description))
    entries = tuple(dict.fromkeys(entry for part in parts for entry in part.entries))
    if entries:
        return released(entries, description=words)
    return guess(words) if any(part.kind == "guess" for part in parts) or not words else public(words)


def origin_from_json(written: Mapping[str, object]) -> Origin:
    """Read what `Origin.to_json` wrote."""
    kind: Any = str(written.get("kind", ""))
    entries = written.get("entries", ())
    if not isinstance(entries, (list, tuple)):
        raise RangeError("the entries of an origin must be a list of entry ids")
    return Origin(
        kind=kind,
        description=str(written.get("description", "")),
        entries=tuple(str(entry) for entry in entries),
        seeded="entropy" in written,
    )
