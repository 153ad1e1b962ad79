"""JSON with numbers exactly as they are written, and limits that hold before anything is computed from them.

The standard library reads it; by hand are the limits: a number of a few characters (1e12000000) can take minutes of
exact arithmetic, and a text can hold the same number.
"""

from __future__ import annotations

import json
import re
from decimal import Context, Decimal
from typing import Any, NoReturn

from sidelight.errors import ProblemError

#: Bytes of a body, levels of nesting, characters of a text, digits and decimal exponent of a number.
MOST_BYTES, DEEPEST, LONGEST, DIGITS, EXPONENT = 256 * 1024, 32, 10_000, 40, 300
#: Digits of every script, as Python reads them. Possessive throughout: a text that is no number is refused in one
#: pass, however long it is.
_NUMBER = re.compile(r"\s*+[+-]?[\d_]*+(?:\.[\d_]*+)?(?:[eE][+-]?([\d_]++))?(?:\s*+/\s*+[+-]?[\d_]++)?\s*+")
_EXACT = Context(prec=2 * DIGITS)
_PLAIN = json.JSONEncoder(allow_nan=False, sort_keys=True, separators=(",", ":"))


def read_json(body: bytes | str) -> dict[str, Any]:
    """Read the JSON object of a request: strictly, and within the limits.

    Raises:
        ProblemError: `malformed` or `too-large`.

    >>> read_json('{"epsilon": 0.1}')
    {'epsilon': Decimal('0.1')}
    """
    if len(body) > MOST_BYTES:
        raise ProblemError("too-large", f"a body has at most {MOST_BYTES} bytes")
    try:
        text = body if isinstance(body, str) else body.decode("utf-8")
        found = json.loads(
            text,
            parse_float=_decimal,
            parse_int=_whole,
            parse_constant=_not_finite,
            object_pairs_hook=_members,
        )
    except UnicodeDecodeError:
        raise ProblemError("malformed", "the body is not UTF-8") from None
    except RecursionError:
        raise ProblemError("malformed", f"JSON may be nested {DEEPEST} deep") from None
    except json.JSONDecodeError as error:
        raise ProblemError("malformed", f"not JSON: {error.msg} at character {error.pos}") from None
    if not isinstance(found, dict):
        raise ProblemError("malformed", "a request is a JSON object, such as {}")
    _check(found, DEEPEST)
    return found


def _decimal(text: str) -> Decimal:
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > DIGITS + 2 or len(exponent) > 5 or abs(int(exponent or 0)) > EXPONENT:
        raise ProblemError("malformed", f"a number has at most {DIGITS} digits and an exponent within ±{EXPONENT}")
    return Decimal(text)


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS:
        raise ProblemError("malformed", f"a number has at most {DIGITS} digits")
    return int(text)


def _not_finite(_: str) -> NoReturn:
    raise ProblemError("malformed", "numbers are finite")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ProblemError("malformed", "a member of an object stands twice")
    return found


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        if len(value) > LONGEST:
            raise ProblemError("malformed", f"a text has at most {LONGEST} characters")
        if not value.isascii():
            _check_text(value)
        number = _NUMBER.fullmatch(value) if len(value) <= 2 * LONGEST and value else None
        if number is not None and (
            len(value) > 2 * DIGITS + 8 or int((number[1] or "0").replace("_", "") or 0) > EXPONENT
        ):
            raise ProblemError("malformed", f"a number has at most {DIGITS} digits and an exponent within ±{EXPONENT}")
    elif isinstance(value, dict | list):
        if not depth:
            raise ProblemError("malformed", f"JSON may be nested {DEEPEST} deep")
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str):
                _check(key, depth)
            _check(each, depth - 1)


def _check_text(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair, which JSON can write and UTF-8 cannot
        raise ProblemError("malformed", "a text holds half of a surrogate pair") from None


def write_json(value: Any) -> str:
    """Write JSON with members sorted and decimals as exact numbers: equal values are equal texts.

    >>> write_json({"b": [1, True, None], "a": Decimal("0.10")})
    '{"a":0.1,"b":[1,true,null]}'
    """
    try:  # most have no decimals, and the encoder of the library is ten times as quick
        return _PLAIN.encode(value)
    except TypeError:
        return _written(value)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_written(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value() and abs(value.adjusted()) <= DIGITS
        return str(int(value)) if whole else str(_EXACT.normalize(value))
    return json.dumps(value, allow_nan=False)
