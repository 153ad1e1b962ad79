"""The hash chain: every event commits to the one before it, over one text for one value (canonical JSON).

`hash = sha256("sidelight-ledger\\n" + C)`, C the canonical JSON of the event with the hash of its predecessor; with a
secret key the same as HMAC-SHA256. A plain chain shows edits; it cannot show that the whole file was rewritten or is an
older copy. Against the first there is the key, against the second the head that every release carries.

Canonical JSON is UTF-8 with sorted ASCII keys, no spaces, escapes only where JSON demands them, and no JSON numbers: a
number is a string, so no reader can round it. Hand-made because the chain depends on every byte, and because the
standard reader silently keeps the last of two equal keys.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from sidelight.errors import LedgerDamagedError, LedgerError

#: Of a request: far more than most queries have, and far less than Python's own limit of nested calls.
DEEPEST = 99
#: Of any text: a line of an export holds a body, which holds a request.
_DEEPEST_LINE = DEEPEST + 2
Json: TypeAlias = "str | list[Json] | dict[str, Json] | None"
Kind = Literal["open", "scope", "reserve", "release", "refuse", "fail", "import", "migrate", "close"]
KINDS: Final = get_args(Kind)
#: Selects the encoder: of an event without and with the digest of the scopes' rows after it.
_PLAIN: Final = "1"
_SIGNING: Final = "2"
NO_HASH: Final = "0" * 64
_PREFIX: Final = b"sidelight-ledger\n"
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_SEQ: Final = re.compile(r"0|[1-9][0-9]{0,17}")


@dataclass(frozen=True, kw_only=True)
class LedgerEvent:
    """One line of the ledger's history. `body` is canonical JSON text, the very bytes that are stored and hashed.

    `books` is the digest of all scopes' definitions and totals after the event; events of schema 1 have none.
    """

    seq: int
    at_utc: str
    kind: str
    scope_id: str | None
    entry_id: str | None
    body: str
    prev_hash: str
    hash: str
    books: str | None = None

    @property
    def content(self) -> dict[str, Json]:
        """The body as plain values."""
        value = read(self.body)
        if not isinstance(value, dict):
            raise LedgerDamagedError(
                f"the body of event {self.seq} is not a JSON object; run `sidelight ledger verify`"
            )
        return value

    def to_line(self) -> str:
        """Return the event as one line of an export."""
        return canonical({**self._beside_body(), "at_utc": self.at_utc, "body": read(self.body), "hash": self.hash})

    def committed_text(self) -> str:
        """Return the canonical text that the hash commits to.

        The body goes in as it is stored, unread, because bodies can be long: it is canonical, or the hash is wrong.
        """
        start, rest = canonical({"at_utc": self.at_utc})[:-1], canonical(self._beside_body())[1:]
        return f'{start},"body":{self.body},{rest}'  # the keys in their order: at_utc, body, the rest

    def _beside_body(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            "entry_id": self.entry_id,
            "kind": self.kind,
            "prev_hash": self.prev_hash,
            "scope_id": self.scope_id,
            "seq": str(self.seq),
            "v": _PLAIN if self.books is None else _SIGNING,
        }
        return fields if self.books is None else {"books": self.books, **fields}


def chained(
    *,
    seq: int,
    at_utc: str,
    kind: Kind,
    body: Mapping[str, object],
    prev_hash: str,
    scope_id: str | None = None,
    entry_id: str | None = None,
    books: str | None = None,
    key: bytes | None = None,
) -> LedgerEvent:
    """Return the next event of a chain, with its hash."""
    unhashed = LedgerEvent(
        seq=seq,
        at_utc=checked_time(at_utc),
        kind=kind,
        scope_id=scope_id,
        entry_id=entry_id,
        body=canonical(body),
        prev_hash=prev_hash,
        hash=NO_HASH,
        books=books,
    )
    return LedgerEvent(**{**vars(unhashed), "hash": event_hash(unhashed, key=key)})


def event_hash(event: LedgerEvent, *, key: bytes | None = None) -> str:
    """Return the hash that the event should carry."""
    committed = _PREFIX + event.committed_text().encode()
    if key is None:
        return hashlib.sha256(committed).hexdigest()
    return hmac.new(key, committed, hashlib.sha256).hexdigest()


def event_from_line(line: str) -> LedgerEvent:
    """Read one line of an export. The hash is taken as written; `broken_links` judges it."""
    value = read(line)
    names = {"at_utc", "body", "entry_id", "hash", "kind", "prev_hash", "scope_id", "seq", "v"}
    signing = isinstance(value, dict) and value.get("v") == _SIGNING
    if not isinstance(value, dict) or set(value) != (names | {"books"} if signing else names):
        raise LedgerError(f"a line of an export is a JSON object with {', '.join(sorted(names))}; this one is not")
    if value["v"] not in (_PLAIN, _SIGNING):
        raise LedgerError(
            f"the export uses encoding {value['v']!r}, this version reads {_PLAIN!r} and {_SIGNING!r}; "
            "upgrade sidelight"
        )
    required = ("at_utc", "kind", "prev_hash", "hash", "seq", *(("books",) if signing else ()))
    texts = {name: value[name] for name in required}
    if not all(isinstance(text, str) for text in texts.values()) or not _SEQ.fullmatch(str(texts["seq"])):
        raise LedgerError("a line of an export has a field that is not text, or a seq that is not a number")
    optional = [value[name] for name in ("scope_id", "entry_id")]
    if not all(text is None or isinstance(text, str) for text in optional):
        raise LedgerError("scope_id and entry_id of an exported event are text or null")
    return LedgerEvent(
        seq=int(str(texts["seq"])),
        at_utc=str(texts["at_utc"]),
        kind=str(texts["kind"]),
        scope_id=None if optional[0] is None else str(optional[0]),
        entry_id=None if optional[1] is None else str(optional[1]),
        body=canonical(value["body"]),
        prev_hash=str(texts["prev_hash"]),
        hash=str(texts["hash"]),
        books=str(texts["books"]) if signing else None,
    )


def link_problem(event: LedgerEvent, *, previous: LedgerEvent | None, key: bytes | None = None) -> str | None:
    """Return what is wrong with an event as the successor of `previous`, or None."""
    wanted_seq = 0 if previous is None else previous.seq + 1
    wanted_prev = NO_HASH if previous is None else previous.hash
    if event.seq != wanted_seq:
        return f"event {wanted_seq} is missing (found {event.seq})"
    if event.prev_hash != wanted_prev:
        return f"event {event.seq} does not follow the event before it"
    if event.kind not in KINDS or (event.kind == "open") != (event.seq == 0):
        return f"event {event.seq} has kind {event.kind!r}, which cannot stand there"
    if not is_time(event.at_utc):
        return f"event {event.seq} has a time that is not UTC text"
    if not is_canonical(event.body):
        return f"the body of event {event.seq} is not canonical JSON"
    if not hmac.compare_digest(event.hash.encode(), event_hash(event, key=key).encode()):
        return f"event {event.seq} was changed: its hash does not match"
    return None


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What the first event says about a ledger."""

    ledger_id: str
    testing: bool
    keyed: bool


def identity_of(genesis: LedgerEvent) -> Identity:
    """Read the identity from the first event."""
    body = genesis.content
    if genesis.kind != "open" or not isinstance(body.get("ledger_id"), str):
        raise LedgerDamagedError("the first event does not say which ledger this is; it is damaged")
    return Identity(
        ledger_id=str(body["ledger_id"]), testing=body.get("testing") == "1", keyed=body.get("mac") == "hmac-sha256"
    )


def check_key(genesis: LedgerEvent, *, key: bytes | None, shown: str) -> None:
    """Refuse a missing, superfluous or wrong key."""
    keyed = identity_of(genesis).keyed
    if keyed and key is None:
        raise LedgerError(f"{shown} was made with a secret key; pass key=..., or --key-file FILE to a command")
    if not keyed and key is not None:
        raise LedgerError(f"{shown} was made without a key (or rewritten without it); it cannot be checked with one")
    if key is not None and not hmac.compare_digest(genesis.hash, event_hash(genesis, key=key)):
        raise LedgerDamagedError(f"the key does not belong to {shown}, or its first event was changed")


def now_utc() -> str:
    """Return the present time as a ledger writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def is_time(text: str) -> bool:
    """Return whether the text is a UTC time as a ledger writes it."""
    if not _TIME.fullmatch(text):
        return False
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
    except ValueError:
        return False
    return True


def checked_time(text: str) -> str:
    """Return the text if it is a UTC time, else raise."""
    if not is_time(text):
        raise LedgerError(f"at_utc is written like 2026-01-01T00:00:00.000000Z, got {text!r}")
    return text


def checked_head(text: str) -> str:
    """Return the text if it looks like a head of a ledger, else raise."""
    if not _HASH.fullmatch(text):
        raise LedgerError(
            f"a ledger's head is 64 hexadecimal digits, got {text!r}; a release carries it "
            "as release.circumstances.ledger_head"
        )
    return text


def canonical(value: object) -> str:
    """Return the canonical JSON text of strings, None, lists and mappings.

    >>> canonical({"b": ["1", None], "a": "tab\\t"})
    '{"a":"tab\\\\t","b":["1",null]}'
    """
    text = json.dumps(plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise LedgerError(
            "a ledger stores text that is valid Unicode, got a lone surrogate; decode the text with the right encoding"
        ) from None
    return text


def checked_request(request: Mapping[str, object]) -> dict[str, Any]:
    """Return a request as plain values, or say why a ledger cannot store it."""
    value = plain(request, where="request", depth=_DEEPEST_LINE - DEEPEST)
    if not isinstance(value, dict) or not value:
        raise LedgerError("a request is a non-empty mapping that says what is asked; an empty request has no price")
    return value


def plain(value: object, *, where: str = "value", depth: int = 0) -> Json:
    """Return the value rebuilt from plain strings, None, lists and dicts, or say where it is something else."""
    if depth > _DEEPEST_LINE:
        raise LedgerError(
            f"the request is nested too deep: a ledger stores {DEEPEST} levels; make it flatter, a long sum by "
            "parentheses around parts of it"
        )
    if value is None:
        return None
    if isinstance(value, str):
        return str.__str__(value)  # a NumPy string or a string enum becomes its plain text
    if isinstance(value, Mapping):
        return {_key(key, where): plain(entry, where=f"{where}.{key}", depth=depth + 1) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, where=f"{where}[{index}]", depth=depth + 1) for index, entry in enumerate(value)]
    raise LedgerError(
        f"a ledger stores strings, lists and mappings of them only, got {type(value).__name__} at {where}; "
        "write a number as its decimal text"
    )


def read(text: str) -> Json:
    """Parse JSON text, refusing numbers, booleans and doubled keys.

    >>> read('{"a":"1"}')
    {'a': '1'}
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_unique, parse_int=_no_number, parse_float=_no_number, parse_constant=_no_number
        )
        return plain(value)
    except RecursionError:
        raise LedgerError("the JSON of a ledger is nested too deeply to be one of its events") from None
    except ValueError as error:
        raise LedgerError(f"the text is not JSON of a ledger ({error})") from None


def is_canonical(text: str) -> bool:
    """Return whether the text is, byte for byte, what `canonical` writes for the value it holds."""
    try:
        return canonical(read(text)) == text
    except LedgerError:
        return False


def _key(key: object, where: str) -> str:
    if not isinstance(key, str) or not key.isascii():
        raise LedgerError(
            f"keys in a ledger are ASCII text, got {key!r} in {where}; put names that users choose into values"
        )
    return str.__str__(key)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _no_number(text: str) -> Any:
    raise ValueError(f"a bare {text[:20]} where a string was expected")
