"""The curve of a number in words, by where it turns."""

from __future__ import annotations

from itertools import pairwise

from sidelight.readable import supported
from sidelight.records.dates import Calendar
from sidelight.regression.losses import Floats


def shape_in_words(edges: Floats, values: Floats, calendar: Calendar | None) -> str:
    """Return where the curve of a number rises, falls or is level.

    >>> import numpy as np
    >>> shape_in_words(np.arange(5.0), np.array([0.0, 1.0, 2.0, 3.0]), None)
    'rises from 0.5 to 3.5'
    """
    span = float(values.max() - values.min())
    if span == 0 or len(values) < 2:
        return "level"
    turns = [0]
    for place in range(1, len(values) - 1):  # where it turns by more than a tenth of its span
        before, after = values[place] - values[turns[-1]], values[place:]
        ahead = float(after.min() - values[place]) if before > 0 else float(after.max() - values[place])
        top = values[place] == (values[turns[-1] :].max() if before > 0 else values[turns[-1] :].min())
        if abs(before) > span / 10 and abs(ahead) > span / 10 and top:
            turns.append(place)
    turns.append(len(values) - 1)
    middles, reach = (edges[1:] + edges[:-1]) / 2, float(edges[-1] - edges[0])
    words = []
    for start, end in pairwise(turns):
        change = float(values[end] - values[start])
        verb = "is about level" if abs(change) <= span / 10 else "rises" if change > 0 else "falls"
        ends = (
            supported(middles[at], reach / 10, least=4, separated=10**6)
            if calendar is None
            else calendar.text(middles[at])
            for at in (start, end)
        )
        words.append(f"{verb} from {' to '.join(ends)}")
    return ", then ".join(words)
