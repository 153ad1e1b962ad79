"""How texts and numbers are written for people: nothing hidden in a text, and the digits that an interval leaves.

Labels, column names, titles and origins come from files and from other people. On a terminal a control character moves
the cursor, in SVG it is an error, and a direction mark shows a line in another order: each is shown as an escape.
What is written for programs (JSON, CSV, Parquet, frames) keeps the texts as they are.
"""

from __future__ import annotations

import datetime
import html
import math
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import zip_longest
from typing import Any
from urllib.parse import urlsplit

#: C0 and C1 controls, line and paragraph separators, marks of direction, spaces without width, halves of characters,
#: and what is drawn as nothing: soft hyphens, joiners of graphemes, fillers, invisible operators, annotations, tags,
#: the empty pattern of Braille, and selectors of variants, unless they say how the symbol before them is drawn.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff"
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u2061-\u2064\u206a-\u206f\u3164\uffa0\ufff9-\ufffb\U000e0000-\U000e007f"
    "\u180b-\u180d\u180f\u2800\U000e0100-\U000e01ef]|(?<![\u203c-\u3299\U0001f000-\U0001faff])[\ufe00-\ufe0f]"
)
_SELECTOR = re.compile("[\ufe00-\ufe0f]")
#: Numbers from here on have thousands separators where smaller ones have none.
_MILLION = 10**6
#: What a number of 64 bits holds.
_MOST_DIGITS = 15


def shown_text(text: object, *, lines: bool = False) -> str:
    r"""Return a text with control characters and marks of direction as escapes.

    Args:
        text: Any text, or what has one.
        lines: Whether line breaks stay, in a text of several lines.

    >>> shown_text("a\x1b[2Jb"), shown_text("a\nb\u202e"), shown_text("a\nb\t", lines=True)
    ('a\\x1b[2Jb', 'a\\nb\\u202e', 'a\nb\\t')
    """
    if lines:
        return "\n".join(map(shown_text, str(text).split("\n")))
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text))


def shown_address(address: str) -> str:
    """Return the address of a server without its password, and without its options, where one may stand too.

    Raises:
        ValueError: It cannot be read.

    >>> shown_address("https://ann:secret@dp.example.org:8443/survey")
    'https://ann:***@dp.example.org:8443/survey'
    """
    parts = urlsplit(address)
    login, at, host = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    query = "?***" if parts.query else ""
    return f"{parts.scheme}://{user}{':***' if colon else ''}{at}{host}{parts.path}{query}"


def shown_script() -> str:
    """Return JavaScript of the function `shownText`: what `shown_text` does, for pages that a browser fills."""
    pattern = "".join(sign if " " <= sign <= "~" else f"\\u{{{ord(sign):x}}}" for sign in _HIDDEN.pattern)
    return f"""const shownText = (text) => text.replace(/{pattern}/gu, (sign) => {{
  const code = sign.codePointAt(0), [letter, digits] = code < 256 ? ["x", 2] : code < 65536 ? ["u", 4] : ["U", 8];
  return {{ 9: "\\\\t", 10: "\\\\n", 13: "\\\\r" }}[code] || "\\\\" + letter + code.toString(16).padStart(digits, "0");
}});
"""


def visible(text: str) -> str:
    r"""Return a text without what `shown_text` shows as escapes.

    >>> visible("peo\u00adple")
    'people'
    """
    return _HIDDEN.sub("", text)


#: Drawn as nothing, or as an empty box, although Unicode counts them as letters, marks or symbols; and joiners.
_NOTHING = frozenset("\u200c\u200d\u2d7f\ufffc\U0001107f\U00016fe4\U0001d159")
#: Signs that most fonts draw as another one: dashes, quotation marks and the like, the letters i and sigma.
_TWINS = {
    **dict.fromkeys(
        map(ord, "\u02d7\u058a\u05be\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2e3a\u2e3b\ufe58"), "-"
    ),
    **dict.fromkeys(
        map(ord, "`\u00b4\u02b9\u02bb\u02bc\u02bd\u02c8\u02ca\u02cb\u2018\u2019\u201b\u2032\u2035\u05f3"), "'"
    ),
    **dict.fromkeys(map(ord, "\u02ba\u02ee\u201c\u201d\u201e\u201f\u2033\u2036\u05f4"), '"'),
    **dict.fromkeys(map(ord, "\u2044\u2215"), "/"),
    **dict.fromkeys(map(ord, "\u2236\ua789"), ":"),
    0x2223: "|",
    0x201A: ",",
    0x223C: "~",
    0x2217: "*",
    0x2027: "\u00b7",
    0x22C5: "\u00b7",
    ord("\u0131"): "i",
    ord("\u03c2"): "\u03c3",
}
#: What has another meaning than the letters that Unicode would put in its place: 10² is not 102.
_APART = ("<super>", "<fraction>")
#: Scripts that write joiners inside words.
_JOINED = frozenset(
    re.findall(
        r"\w+",
        "ARABIC SYRIAC MONGOLIAN NKO DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA MALAYALAM SINHALA "
        "KHMER MYANMAR TIBETAN BALINESE JAVANESE",
    )
)


@lru_cache(maxsize=1 << 16)  # a ledger compares each new name with all that it has
def alike(text: str) -> str:
    """Return what texts have in common that people hardly tell apart.

    Capitals, widths and forms of letters, dashes, apostrophes, runs of spaces, doubled marks, and whatever is drawn as
    nothing make no difference. Superscripts and ß do, and so do letters of other scripts.

    >>> alike("Older  people") == alike("older \uff50eople"), alike("İSTANBUL") == alike("istanbul")
    (True, True)
    >>> alike("10²") == alike("102"), alike("Maße") == alike("Masse")
    (False, False)
    """
    if text.isascii():
        return " ".join(text.lower().replace("`", "'").split())
    parts = unicodedata.normalize("NFD", _SELECTOR.sub("", visible(text)).translate(_TWINS))
    letters = unicodedata.normalize("NFD", "".join(map(_usual_sign, parts))).lower().translate(_TWINS)
    return " ".join(_without_odd_marks(letters).split())


@lru_cache(maxsize=1 << 12)
def _usual_sign(sign: str) -> str:
    """Return the letters that a form of letters stands for: a wide one, a ligature, a space of another width."""
    kind, _, codes = unicodedata.decomposition(sign).partition(" ")
    if not kind.startswith("<") or kind in _APART:
        return sign
    return "".join(_usual_sign(chr(int(code, 16))) for code in codes.split())


def _without_odd_marks(text: str) -> str:
    """Leave out signs that are drawn as nothing, and marks that repeat, or that belong to another script's letters."""
    found, base, seen = [], "", set[str]()
    for sign in text:
        if sign in _NOTHING:
            continue
        if not unicodedata.combining(sign) and unicodedata.category(sign) not in ("Mn", "Me"):
            base, seen = sign, set()
        elif sign in seen or (base in ("i", "j") and sign == "\u0307") or _script(sign) not in ("", _script(base)):
            continue
        else:
            seen.add(sign)
        found.append(sign)
    return "".join(found)


@lru_cache(maxsize=1 << 12)
def _script(sign: str) -> str:
    """Return the script of a sign, from its name in Unicode; "" for a mark that goes with every script."""
    words = unicodedata.name(sign, "NONE").split() if sign else ["NONE"]
    if words[0] != "COMBINING":
        return words[0]
    return words[1] if words[1] in ("GREEK", "CYRILLIC") else ""


def first_difference(name: str, other: str) -> str:
    r"""Return where two texts differ that people may take for one: the place, code points and names of the signs.

    >>> first_difference("people", "pe\u043eple")
    'character 3 is U+006F (LATIN SMALL LETTER O), not U+043E (CYRILLIC SMALL LETTER O)'
    >>> first_difference("age", "ages")
    'character 4 is the end, not U+0073 (LATIN SMALL LETTER S)'
    """
    pairs = enumerate(zip_longest(name, other), start=1)
    place, signs = next(((place, pair) for place, pair in pairs if pair[0] != pair[1]), (1, ("", "")))
    one, two = (f"U+{ord(sign):04X} ({unicodedata.name(sign, 'no letter')})" if sign else "the end" for sign in signs)
    return f"character {place} is {one}, not {two}"


def unprintable(text: str) -> int | None:
    """Return where a text holds a sign that cannot be printed, and is no joiner where Unicode uses joiners.

    >>> unprintable("می\u200cخواهم"), unprintable("pe\u200cople")
    (None, 2)
    """
    return next((at for at, sign in enumerate(text) if not sign.isprintable() and not _joins(text, at)), None)


def _joins(text: str, at: int) -> bool:
    """Return whether a joiner stands between letters of a script that has joiners, or between two emoji."""
    before, sign, after = text[at - 1 : at], text[at], text[at + 1 : at + 2]
    if sign not in ("\u200c", "\u200d") or not before or not after:
        return False
    if _script(before) == _script(after) and _script(before) in _JOINED:
        return True
    emoji = before > "\u203b" and (before == "\ufe0f" or unicodedata.category(before) in ("So", "Sk"))
    return sign == "\u200d" and emoji and after > "\u203b" and unicodedata.category(after) == "So"


def shown_html(text: object, *, lines: bool = False) -> str:
    """Return a text for HTML and SVG: with escapes as `shown_text` has them, and without markup."""
    return html.escape(shown_text(text, lines=lines))


def date_text(value: datetime.date | None) -> str:
    """Write a date, or a date and the time of an hour; nothing for none."""
    if value is None:
        return ""
    return value.isoformat(" ", "minutes") if isinstance(value, datetime.datetime) else value.isoformat()


def percent(share: float | Fraction, *, decimals: int | None = None) -> str:
    """Write a share in percent, with all its decimals or with some, and never as 100 % where it is less.

    >>> percent(0.95), percent(0.999999), percent(0.99996, decimals=1), percent(Fraction(3, 4), decimals=1)
    ('95 %', '99.9999 %', '99.9 %', '75.0 %')
    """
    exact = Decimal(repr(float(share))) * 100
    if decimals is None:
        return f"{exact.normalize():f} %"
    step = Decimal(1).scaleb(-decimals)
    rounded = exact.quantize(step)
    return f"{100 - step if share < 1 and rounded >= 100 else rounded:f} %"


def as_read(value: Any, *, digits: int = 10, separated: float = 0) -> str:
    """Write a number with thousands separators and without noise in the last digits, and never without its last unit.

    Args:
        value: A number; dates and texts are written as they are.
        digits: The significant digits of a number that has a fraction.
        separated: From which size on there are separators.

    >>> as_read(1234567.0), as_read(0.30000000000000004), as_read(2.5e-9), as_read(True)
    ('1,234,567', '0.3', '2.5e-09', 'True')
    """
    if isinstance(value, datetime.date):
        return date_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    text = f"{value:,.{decimals}f}" if abs(value) >= separated else f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def number_text(value: Any, *, digits: int = 10) -> str:
    """Write a number or a date of an answer, or a declared limit (`digits=15`), with separators from a million on.

    >>> number_text(41183.75), number_text(1234567898.086), number_text(2010), number_text(20_000_000)
    ('41183.75', '1,234,567,898', '2010', '20,000,000')
    >>> number_text(1234567898.086, digits=15)
    '1,234,567,898.086'
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) >= _MILLION else str(value)
    return as_read(value, digits=digits, separated=_MILLION)


def at_most(value: float) -> str:
    """Write a bound, rounded up: what is said must hold.

    >>> at_most(239.41), at_most(0.10012), at_most(0), at_most(14900.5)
    ('240', '0.101', '0', '15,000')
    """
    return _three_digits(value, lambda steps: math.ceil(steps - 1e-9))


def at_least(value: float) -> str:
    """Write a limit that must be kept from below, rounded down.

    >>> at_least(239.61), at_least(0.10097), at_least(0), at_least(2.0**61)
    ('239', '0.1', '0', '2.3e+18')
    """
    return _three_digits(value, lambda steps: math.floor(steps + 1e-9))


def _three_digits(value: float, rounded: Callable[[float], int]) -> str:
    if value <= 0 or not math.isfinite(value):
        return as_read(value)
    step = 10.0 ** max(math.floor(math.log10(value)) - 2, -323)  # below there is no power of ten
    return as_read(rounded(value / step) * step, digits=3)


def supported(
    value: float,
    error: float,
    *,
    rounded: Callable[[Fraction], int] = round,
    least: int = 0,
    separated: float = 0,
) -> str:
    """Write a number with the digits that its error leaves: two of the error's own.

    A number and the ends of its interval, written with the same `error` and `least`, stay in order: rounding to the
    same decimals does not change it.

    Args:
        value: The number.
        error: How far off it can be; where that is not known it is written with six digits, and to its last unit.
        rounded: How the last digit is found: `math.floor` and `math.ceil` for the ends of an interval, which must hold.
        least: At least so many significant digits.
        separated: From which size on there are thousands separators.

    >>> supported(1234567.89, 2470.0), supported(0.123456, 0.0031), supported(7.0, 0.0)
    ('1,234,600', '0.1235', '7')
    >>> supported(47.5678, 0.48, rounded=math.floor), supported(47.6612, 0.48, rounded=math.ceil)
    ('47.56', '47.67')
    >>> supported(1234567898.0859, 0.083, least=6), supported(41183.7177, 2.4, least=6, separated=1e6)
    ('1,234,567,898.086', '41183.7')
    """
    if not math.isfinite(value) or value == 0:
        return as_read(value)
    top = math.floor(math.log10(abs(value)))
    if math.isfinite(error) and error > 0:
        places = 1 - math.floor(math.log10(error))
        places = max(places, least - 1 - top) if least else places
    else:
        places = max(5 - top, 0)
    places = min(places, _MOST_DIGITS - 1 - top)
    steps = Fraction(value) * Fraction(10) ** places  # exact: an end that lies on a step stays there
    found = float(rounded(steps) / Fraction(10) ** places)
    return as_read(found, digits=_MOST_DIGITS, separated=separated)
