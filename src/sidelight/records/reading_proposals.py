"""Which declaration would read the texts that a column does not read? For the owner of the data: NOT PRIVATE.

How a program writes numbers and dates is public; which of its texts are in a file is not. So a proposal is a
question to the owner: is this how the program writes? Where texts can be read in two ways, both are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sidelight.records.cells import number_of
from sidelight.records.columns import Category, Column, Label, Number, PersonId
from sidelight.records.date_formats import ISO, DateFormat
from sidelight.records.dates import Date, minutes_of_text
from sidelight.records.readings import NumberReading, TextReading

#: A text that means nothing: a word for it, or signs alone.
NOTHING = re.compile(
    r"(?i)\s*(n\.?/?a\.?|#n/a|#n/v|n\.?d\.?|n\.?v\.?|nan|nul|null|none|nil|missing|unknown|unbekannt|k\.? ?a\.?|"
    r"s/d|s\.d\.|n\.?c\.?|nr|n\.?r\.?|inconnu|ignoto|onbekend|-+|–|—|\?+|\.+|\*+|#+|/+)\s*"
)
#: The most texts for missing that are proposed.
_MOST_TEXTS = 5
_SIGNS = [(decimal, thousands) for thousands in (None, ".", ",", " ", "'") for decimal in (".", ",")]
_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d.%m.%y"),
    *("%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%d %B %Y", "%d. %B %Y", "%d-%b-%Y", "%d-%b-%y", "%B %d, %Y"),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", ", %H:%M:%S")
_DATE_FORMATS = [day + time for time, day in product(_TIMES, _DAYS)]
_DOTTED = re.compile(r"\s*[-+]?[1-9][0-9]{0,2}([.,][0-9]{3})+\s*")


@dataclass(frozen=True, kw_only=True)
class ReadingProposal:
    """What could be declared of a column so that more of its cells are read: NOT PRIVATE.

    Args:
        column: The name of the column.
        reads: How many cells of those that are not read now would be.
        choices: The keys to declare; several choices where nothing in the texts tells which is meant.
    """

    column: str
    reads: int
    choices: tuple[Mapping[str, Any], ...]

    def __str__(self) -> str:
        ways = (", ".join(f"{key}={value!r}" for key, value in choice.items()) for choice in self.choices)
        return f"{self.column}: {self.reads} more cells are read with {' or '.join(ways)}"


def propose_reading(column: Column, texts: Counter[str]) -> ReadingProposal | None:
    """Return the declaration that reads the most of a column's texts; None if none reads more than now."""
    if isinstance(column, Date):
        return _of_dates(column, texts)
    if isinstance(column, Number):
        return _of_numbers(column, texts)
    if isinstance(column, Category):
        return _of_labels(column, texts)
    return _of_ids(column, texts) if isinstance(column, PersonId) else _of_free_labels(column, texts)


def _of_numbers(column: Number, texts: Counter[str]) -> ReadingProposal | None:
    own = column.reading
    read_now = number_of if own is None else own.of_text
    unread = {text for text in texts if _is_nan(read_now(text)) and not (own and own.means_missing(text))}
    found = [NumberReading(*signs) for signs in _SIGNS if signs[0] != signs[1]]
    values = [tuple(reading.of_text(text) for text in texts) for reading in found]
    scores = [
        sum(count for value, count in zip(each, texts.values(), strict=True) if not _is_nan(value)) for each in values
    ]
    best = max(scores, default=0)
    now = sum(count for text, count in texts.items() if not _is_nan(read_now(text)))
    # the simplest of those that read the same numbers of all texts
    kinds = {str(each): place for place, each in reversed(list(enumerate(values))) if scores[place] == best}
    chosen = [_signs(found[place]) for place in sorted(kinds.values())] if best > now else [{}]
    if own is None and best == now and _look_like_thousands(texts):
        chosen = [{"decimal": "."}, {"decimal": ",", "thousands": "."}]
    words = {text for text in unread if NOTHING.fullmatch(text) or not re.search(r"[0-9]", text)}
    nothing = _nothing(texts, words, known=column.missing_texts)
    reads = best - now + sum(texts[text] for text in nothing)
    return _proposal(column, reads, [choice | _missing(column, nothing) for choice in chosen])


def _look_like_thousands(texts: Counter[str]) -> bool:
    """Return whether every text with a dot could be a whole number with dots between its thousands."""
    dotted = [text for text in texts if "." in text]
    return len(dotted) > 1 and all(_DOTTED.fullmatch(text) for text in dotted)


def _signs(reading: NumberReading) -> dict[str, Any]:
    return {"decimal": reading.decimal} | ({"thousands": reading.thousands} if reading.thousands else {})


def _of_dates(column: Date, texts: Counter[str]) -> ReadingProposal | None:
    own, last_year = column.reading, int(column.end[:4])
    read_now = column.calendar.of_text if own is None else own.of_text
    unread = {text for text in texts if _is_nan(read_now(text)) and not (own and own.means_missing(text))}
    words = {text for text in unread if NOTHING.fullmatch(text) or not re.search(r"[0-9]", text)}
    nothing = _nothing(texts, words, known=column.missing_texts)
    chosen: list[str] = []
    left, other = unread - words, ""
    while left and len(chosen) < 3:
        read = {form: _read(DateFormat(form, last_year), left) for form in _DATE_FORMATS}
        counts = {form: sum(texts[text] for text in found) for form, found in read.items()}
        form = max(counts, key=lambda each: counts[each])
        if not counts[form]:
            break
        # as many cells by another form, as other dates: nothing in the cells says which is meant
        rivals = [each for each in counts if counts[each] == counts[form] and read[each] != read[form]]
        if rivals:
            other = rivals[0]
        chosen.append(form)
        left -= read[form].keys()
    usual = [ISO] if own is None and chosen and any(minutes_of_text(text) is not None for text in texts) else []
    forms = [*(column.formats or ()), *chosen, *usual]
    reads = sum(texts[text] for text in unread - words - left) + sum(texts[text] for text in nothing)
    choices = [({"formats": forms} if chosen else {}) | _missing(column, nothing)]
    if other:
        choices.append(choices[0] | {"formats": [other if each == chosen[-1] else each for each in forms]})
    return _proposal(column, reads, choices)


def _read(form: DateFormat, texts: set[str]) -> dict[str, int]:
    found = {text: form.minutes(text.strip()) for text in texts}
    return {text: minutes for text, minutes in found.items() if minutes is not None}


def _of_labels(column: Category, texts: Counter[str]) -> ReadingProposal | None:
    own = column.reading or TextReading(tuple((label, label) for label in column.labels))
    unread = {text for text in texts if (label := own.of_text(text)) is not None and label not in column.labels}
    nothing = _nothing(texts, {text for text in unread if NOTHING.fullmatch(text)}, known=column.missing_texts)
    rest = unread - set(nothing)

    def known(**flags: bool) -> set[str]:
        reading = TextReading(own.labels, missing=own.missing, **flags)
        return {text for text in rest if reading.of_text(text) in (*column.labels, None)}

    options = [{}, {"strip": True}, {"casefold": True}, {"strip": True, "casefold": True}]
    found = [known(**({"strip": own.strip, "casefold": own.casefold} | flags)) for flags in options]
    place = max(range(len(options)), key=lambda each: (len(found[each]), -each))
    aliases: dict[str, list[str]] = {label: list(each) for label, each in column.aliases}
    guessed, flags = 0, options[place]
    for text in sorted(rest - found[place], key=lambda each: -texts[each])[: 4 * _MOST_TEXTS]:
        alike = [label for label in column.categories if _begins(text, label)]
        if len(alike) == 1:
            plain = " ".join(text.split())
            flags = flags if plain == text or own.strip else flags | {"strip": True}
            if plain not in aliases.setdefault(alike[0], []):
                aliases[alike[0]].append(plain)
            guessed += texts[text]
    reads = sum(texts[text] for text in (*found[place], *nothing)) + guessed
    choice = flags | ({"aliases": aliases} if guessed else {}) | _missing(column, nothing)
    return _proposal(column, reads, [choice])


def _begins(text: str, label: str) -> bool:
    """Return whether one of two texts begins with the other: "male" and "M"."""
    one, other = text.strip().casefold(), label.strip().casefold()
    return bool(one) and bool(other) and (one.startswith(other) or other.startswith(one))


def _of_ids(column: PersonId, texts: Counter[str]) -> ReadingProposal | None:
    nothing = _nothing(texts, {text for text in texts if NOTHING.fullmatch(text)}, known=column.missing_texts)
    apart = len(texts)
    flags: dict[str, bool] = {}
    reads = sum(texts[text] for text in nothing)
    for flag in ("strip", "casefold"):
        now = {"strip": column.strip, "casefold": column.casefold} | flags | {flag: True}
        reading = TextReading(one_spelling=True, strip=now["strip"], casefold=now["casefold"])
        spelt = len({reading.key(text) for text in texts})
        if spelt < apart and not getattr(column, flag):
            flags[flag] = True
            reads, apart = reads + apart - spelt, spelt
    return _proposal(column, reads, [flags | _missing(column, nothing)])


def _of_free_labels(column: Label, texts: Counter[str]) -> ReadingProposal | None:
    nothing = _nothing(texts, {text for text in texts if NOTHING.fullmatch(text)}, known=column.missing_texts)
    return _proposal(column, sum(texts[text] for text in nothing), [_missing(column, nothing)])


def _nothing(texts: Counter[str], words: set[str], *, known: Sequence[str]) -> list[str]:
    """Return the most frequent texts that seem to mean missing, each without white space around."""
    counts: Counter[str] = Counter()
    for text in words:
        counts[text.strip()] += texts[text]
    return [text for text, _ in counts.most_common(_MOST_TEXTS) if text and text not in known]


def _missing(column: Column, nothing: list[str]) -> dict[str, Any]:
    return {"missing_texts": [*column.missing_texts, *nothing]} if nothing else {}


def _proposal(column: Column, reads: int, choices: Sequence[Mapping[str, Any]]) -> ReadingProposal | None:
    given = [choice for choice in choices if choice]
    return ReadingProposal(column=column.name, reads=reads, choices=tuple(given)) if given else None


def _is_nan(value: float) -> bool:
    return value != value
