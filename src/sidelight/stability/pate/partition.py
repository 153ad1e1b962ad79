"""Which teacher a record belongs to: a keyed hash of its id, and nothing else.

A share by position (every 250th row, equal slices) is a privacy bug: one row more moves all rows behind it to other
teachers, and the votes of all of them change instead of one. Here the other records have no say: a record's teacher
is a function of its own id and the key.

The key is secret although the guarantee does not need it to be: without it nobody can choose ids that fill one
teacher's share with their own rows, or tell from an id whose rows a vote came from.
"""

from __future__ import annotations

import hashlib
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.records.cells import text_of

#: Whole numbers of so many digits are floats as well. Longer ids that agree as floats share a teacher.
_EXACT_DIGITS = 15
#: What a missing id, or one of a kind without an identity, becomes: such records count as one person's.
_NOBODY = b"?"


def checked_key(key: bytes) -> bytes:
    """Return a key that hashing can use, or say what it must be; the message never shows it."""
    if not isinstance(key, bytes) or not 16 <= len(key) <= 64:
        raise RangeError("partition_key must be 16 to 64 secret bytes; leave it out to have one drawn")
    return key


def shares_of(record_ids: Any, *, teachers: int, key: bytes) -> NDArray[np.int64]:
    """Return the teacher of every record. No id raises: whatever it is, it has a teacher.

    1, 1.0 and "1" are one id: in a column of ids one text makes texts of all numbers, and one missing id makes floats
    of them, and neither may move anybody else. Records with equal ids have the same teacher.

    >>> first = shares_of(["ann", "bob", "cai"], teachers=100, key=b"sixteen bytes or more")
    >>> later = shares_of(["bob", "cai"], teachers=100, key=b"sixteen bytes or more")
    >>> first[1:].tolist() == later.tolist()
    True
    """
    ids = cells_of(record_ids)
    found = np.empty(len(ids), np.int64)
    for place, cell in enumerate(ids):
        digest = hashlib.blake2b(_identity(cell), digest_size=16, key=key, person=b"sidelight/share").digest()
        found[place] = int.from_bytes(digest, "big") % teachers  # off from uniform by 2**-100
    return found


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column as Python values, each as it is: no cell decides about the type of another."""
    return list(column.tolist() if hasattr(column, "tolist") else column)


def teacher_seed(number: int, *, key: bytes) -> int:
    """Return the seed of a teacher's own randomness: it repeats after an interruption and depends on no record."""
    digest = hashlib.blake2b(str(number).encode(), digest_size=4, key=key, person=b"sidelight/seed").digest()
    return int.from_bytes(digest, "big")


def _identity(cell: Any) -> bytes:
    """Return what an id is, whatever the ids of others made of its type."""
    kind = type(cell)  # what isinstance asks second, __class__, an id may answer as it likes
    if not (issubclass(kind, (str, bytes, Real, np.bool_)) or _is_plain(kind)):
        return _NOBODY  # lists and other containers have no identity
    text = text_of(cell)
    if text is None or (issubclass(kind, Real) and text in ("inf", "-inf")):
        return _NOBODY
    if len(text) > _EXACT_DIGITS and text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 300:
        # a float, which one missing id makes of all others, holds no more digits: so few decide in every case
        text = str(int(float(text)))
    return b"s" + text.encode("utf-8", "surrogatepass")


def _is_plain(kind: type) -> bool:
    import datetime
    import uuid
    from decimal import Decimal

    return issubclass(kind, (datetime.date, datetime.time, uuid.UUID, Decimal))
