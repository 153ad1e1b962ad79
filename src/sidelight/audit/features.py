"""What an attacker sees of one run, as named numbers: everything that the release says, that it failed, how long.

A release is taken by its JSON, which is what leaves: every number by its path, every text by its path and content. A
text that stands in a list is also a member of it, wherever it stands, because found groups have no fixed place.
"""

from __future__ import annotations

import base64
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.noise import Entropy, Source
from sidelight.records import Table
from sidelight.release import encode_value
from sidelight.session.query import Answer, Prepared, Refusal

#: Runs a mechanism once: a table and fresh seeded bytes in, whatever is released out. What it raises is an outcome.
Run = Callable[[Table, Entropy], Any]
Floats = NDArray[np.float64]

#: More numbers of one release than this are not looked at one by one.
MOST_NUMBERS = 400


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One run as an attacker sees it: numbers by name, whether it ended in an error, and its processor time."""

    numbers: Mapping[str, float]
    raised: bool
    seconds: float


def run_of(prepared: Prepared) -> Run:
    """Return how the door runs a prepared query, without an account."""

    def run(table: Table, entropy: Entropy) -> Any:
        with Source(entropy, declared=prepared.numerics) as source:
            return prepared.run(table, source)

    return run


def look(run: Run, table: Table, entropy: Entropy) -> Seen:
    """Run once and return what was seen."""
    start, raised = time.thread_time(), False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            released = run(table, entropy)
            seconds = time.thread_time() - start
            numbers = dict(_numbers_of(released))
    except Exception as error:  # whatever it is: that it came is what an attacker sees
        seconds, raised = time.thread_time() - start, True
        numbers = {f"raised {type(error).__name__}": 1.0}
    return Seen(numbers=numbers, raised=raised, seconds=seconds)


def as_columns(seen: Sequence[Sequence[Seen]]) -> tuple[list[str], list[Floats]]:
    """Return the names of all numbers that any run showed, and a matrix for each sample; what was not there is NaN."""
    names = list(dict.fromkeys(name for sample in seen for each in sample for name in each.numbers))
    place = {name: number for number, name in enumerate(names)}
    matrices = []
    for sample in seen:
        matrix = np.full((len(sample), len(names)), np.nan)
        for row, each in enumerate(sample):
            for name, number in each.numbers.items():
                matrix[row, place[name]] = number
        matrices.append(matrix)
    return names, matrices


def _numbers_of(released: Any) -> Iterator[tuple[str, float]]:
    if isinstance(released, Refusal):
        yield f"refused {released.reason}", 1.0
        return
    if isinstance(released, Answer):
        text = {"value": encode_value(released.value), "labels": list(released.labels)}
        if released.error is not None:
            text["error"] = released.error.to_json()
        released = json.loads(json.dumps(text, allow_nan=False))  # as the door writes it
    for count, each in enumerate(_walk(released, "")):
        if count >= MOST_NUMBERS:
            return
        yield each


def _walk(thing: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(thing, bool | int | float | np.number):
        yield path or "value", float(thing)
    elif isinstance(thing, str):
        yield f"{path} = {thing[:40]}", 1.0
    elif isinstance(thing, np.ndarray):
        yield from _walk(thing.tolist(), path)
    elif isinstance(thing, Mapping):
        if set(thing) >= {"bytes", "dtype"}:  # a long array
            yield from _walk(np.frombuffer(base64.b64decode(thing["bytes"]), thing["dtype"]).tolist(), path)
            return
        for name, each in thing.items():
            yield from _walk(each, f"{path}/{name}")
    elif isinstance(thing, list | tuple):
        yield f"{path} length", float(len(thing))
        for place, each in enumerate(thing):
            yield from _walk(each, f"{path}[{place}]")
            if isinstance(each, str):
                yield f"{path} has {each[:40]}", 1.0
    elif thing is not None:
        yield f"{path} = {str(thing)[:40]}", 1.0
