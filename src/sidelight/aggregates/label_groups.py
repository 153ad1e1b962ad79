"""Groups by labels that nobody declared: which are there is private, and so is everything here until a threshold.

Labels are normalised record by record (`Label.normalised`), so the same text on every engine is the same group. In the
mix that chooses a person's groups and rows a label is 60 bits of a hash of its text, and ties are broken by the text:
what others' labels are enters nowhere. Rows are held in memory, some whole numbers each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays, Coding
from sidelight.aggregates.collect import totals_of
from sidelight.aggregates.contributions import places_that_count
from sidelight.aggregates.groups import Groups
from sidelight.aggregates.persons import Persons
from sidelight.records import Table
from sidelight.records.rows import DistinctTexts, Wanted
from sidelight.records.schema import person_key

#: The range of the hash of a label.
_KEYS = (0, (1 << 60) - 1)


def labelled_rows(table: Table, groups: Groups, coding: Coding) -> tuple[tuple[str, ...], CodeArrays]:
    """Return the labels that are there, in order of their texts, and the rows that count.

    The codes of a row are those of the declared axes, then the place of its label, then the rest of `coding`.
    """
    label, person = groups.label, table.schema.person
    assert label is not None
    texts = tuple(dict.fromkeys([*coding.texts, label.name]))
    wanted = Wanted(numbers=coding.numbers, texts=texts, person=None if person is None else person.name)
    numbers: dict[str | None, int] = {}  # of a text, before it is normalised
    names: dict[str, int] = {}
    parts: list[CodeArrays] = []
    ids = Persons()
    for batch in table.rows.batches(wanted):
        codes, kept = coding.kernel(batch)
        texts_here = batch.texts[label.name]
        cells = texts_here.cells if isinstance(texts_here, DistinctTexts) else texts_here.tolist()
        for text in set(cells) - numbers.keys():
            name = label.label_of(text)
            numbers[text] = -1 if name is None else names.setdefault(name, len(names))
        places = np.fromiter((numbers[text] for text in cells), np.int64, len(cells))
        places = places[texts_here.places] if isinstance(texts_here, DistinctTexts) else places
        stays: NDArray[np.bool_] = places >= 0 if kept is None else kept & (places >= 0)
        if batch.person is not None:
            stays = ids.fold(batch.person, stays)
        parts.append(tuple(each[stays] for each in (places, *codes)))
    width = 1 + len(coding.ranges)
    none = np.empty(0, np.int64)
    place, *rest = (np.concatenate([none, *(part[at] for part in parts)]) for at in range(width))
    ordered = sorted(names)
    rank = np.empty(len(names), np.int64)
    rank[[names[name] for name in ordered]] = np.arange(len(names))
    axes = len(groups.axes)
    codes = (*rest[:axes], rank[place], *rest[axes:])
    if person is not None:
        keys = np.array([person_key(name) for name in names], np.int64)
        mixed = (*rest[:axes], keys[place], *rest[axes:])
        ranges = (*coding.ranges[:axes], _KEYS, *coding.ranges[axes:])
        whose = ids.numbers()
        stays_at = places_that_count((ids, whose), codes, mixed, ranges, groups.cap)
        codes = tuple(code[stays_at] for code in codes)
        codes = totals_of(whose[stays_at], codes) if groups.totals else codes
    return tuple(ordered), codes


def present_groups(groups: Groups, names: tuple[str, ...], codes: CodeArrays) -> tuple[Any, NDArray[np.int64]]:
    """Return the keys of the groups that are there, by label and then by declared cell, and the group of each row.

    A key is the labels of the declared axes, then the label that nobody declared.
    """
    cells = np.zeros(len(codes[0]), np.int64)
    for code, size in zip(codes, groups.shape, strict=False):
        cells = cells * size + code
    present, places = np.unique(codes[len(groups.axes)] * groups.cells + cells, return_inverse=True)
    keys = []
    for each in present.tolist():
        label, cell = divmod(each, groups.cells)
        key: list[str] = [names[label]]
        for labels in reversed(groups.keys):
            cell, place = divmod(cell, len(labels))
            key.insert(0, labels[place])
        keys.append(tuple(key))
    return tuple(keys), places.astype(np.int64)
