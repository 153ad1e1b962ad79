"""How wide a text of a chart is, about, and a label cut to the room there is.

Estimated, because nothing here knows the reader's font: the widths are those of DejaVu Sans, wider than most.
"""

from __future__ import annotations

import unicodedata

#: Widths in pixels at the size of a tick, 12 pixels.
_WIDTHS = {**dict.fromkeys("iljtfI.,:;'|!()[] -/", 5.0), **dict.fromkeys("mwMW%@…—", 12.0)}
_USUAL, _CAPITAL, _FULL = 7.7, 9.3, 12.5


def text_width(text: str) -> float:
    """Return about how many pixels a tick of a chart takes.

    >>> text_width("ill") < text_width("age") < text_width("WWW")
    True
    """
    return sum(_WIDTHS.get(letter) or _width(letter) for letter in text)


def cut(label: str, room: float) -> str:
    """Shorten a label to the room that a chart has for it.

    >>> cut("driver", 60), cut("cook and baker", 60)
    ('driver', 'cook a…')
    """
    if text_width(label) <= room:
        return label
    kept = label
    while kept and text_width(kept) + text_width("…") > room:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def _width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return _FULL
    return _CAPITAL if letter.isupper() else _USUAL
