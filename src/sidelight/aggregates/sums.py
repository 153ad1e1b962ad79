"""Integer sums inside an engine that cannot wrap, whatever the number of rows.

Polars and Arrow wrap silently at 2**63, DuckDB widens. So a bounded integer is made non-negative (signed remainders
differ between engines), split into words of 20 bits, and the words are summed: up to 2**42 rows their sums stay below
2**62. Python puts them together again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.mix import words_of
from sidelight.records.rows import collected

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

#: One more than the largest word.
WORD = 1 << 20


def engine_sums(frame: nw.LazyFrame[Any], terms: Mapping[str, tuple[nw.Expr, int, int]]) -> tuple[int, dict[str, int]]:
    """Return the number of rows, and the exact sum of each term; a term is (expression, smallest, largest value)."""
    import narwhals.stable.v2 as nw

    sums = [nw.len().alias("rows")]
    for name, (term, first, last) in terms.items():
        rest = term - first
        words = words_of(last - first)
        for place in range(words):
            word = rest if place == words - 1 else rest % WORD
            sums.append(word.sum().alias(f"{name}_{place}"))
            rest = rest // WORD
    found = {name: values[0] for name, values in collected(frame.select(*sums)).to_dict(as_series=False).items()}
    rows = int(found["rows"])
    totals = {}
    for name, (_, first, last) in terms.items():
        shifted = sum(int(found[f"{name}_{place}"] or 0) << (20 * place) for place in range(words_of(last - first)))
        totals[name] = shifted + rows * first
    return rows, totals


def engine_products(
    frame: nw.LazyFrame[Any], columns: Sequence[str], sizes: Sequence[int]
) -> tuple[int, NDArray[Any], NDArray[Any]]:
    """Return the number of rows, the sum of each column and of each product of two, as Python integers.

    `sizes` are the largest absolute values of the columns.
    """
    import narwhals.stable.v2 as nw

    terms = {f"s{i}": (nw.col(name), -sizes[i], sizes[i]) for i, name in enumerate(columns)}
    for i, first in enumerate(columns):
        for j, second in enumerate(columns[: i + 1]):
            bound = sizes[i] * sizes[j]
            terms[f"p{i}_{j}"] = (nw.col(first) * nw.col(second), -bound, bound)
    rows, sums = engine_sums(frame, terms)
    total, products = np.zeros(len(columns), object), np.zeros((len(columns), len(columns)), object)
    for i in range(len(columns)):
        total[i] = sums[f"s{i}"]
        for j in range(i + 1):
            products[i, j] = products[j, i] = sums[f"p{i}_{j}"]
    return rows, total, products


def engine_group_sums(frame: nw.LazyFrame[Any], terms: Sequence[str]) -> tuple[Any, Any]:
    """Return the cells that are there, and for each the number of rows and the sums of terms below 2**40.

    The second array has a row for the numbers of rows and two for each term: the sums of its low and high words.
    """
    import narwhals.stable.v2 as nw

    words: dict[str, Any] = {}
    for name in terms:
        words |= {f"{name}_0": nw.col(name) % WORD, f"{name}_1": nw.col(name) // WORD}
    if words:
        frame = frame.with_columns(*(word.alias(name) for name, word in words.items()))
    found = collected(frame.group_by("cell").agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in words)))
    columns = {name: [int(each) for each in found[name].to_list()] for name in found.columns}
    rows = [columns[name] for name in ("rows", *words)]
    return np.array(columns["cell"], np.int64), np.array(rows, np.int64)
