"""Half of a symmetric matrix, for the time in which the whole would be one matrix too many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidelight.mechanisms.denoise import Floats


@dataclass(frozen=True, eq=False)
class Packed:
    """The upper triangle of a symmetric matrix, row after row.

    >>> matrix = np.array([[1.0, 2.0], [2.0, 3.0]])
    >>> Packed.of(matrix).whole().tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """

    size: int
    entries: Floats

    @classmethod
    def of(cls, matrix: Floats) -> Packed:
        """Copy the upper triangle."""
        size = len(matrix)
        entries = np.empty(size * (size + 1) // 2)
        packed = cls(size, entries)
        for row, part in packed._rows():
            part[...] = matrix[row, row:]
        return packed

    def whole(self) -> Floats:
        """Return the matrix again."""
        matrix = np.empty((self.size, self.size))
        for row, part in self._rows():
            matrix[row, row:] = part
            matrix[row:, row] = part
        return matrix

    def subtracted_from(self, matrix: Floats) -> Floats:
        """Return matrix - this one, for a symmetric matrix."""
        difference = matrix.copy()
        for row, part in self._rows():
            difference[row, row:] -= part
            difference[row:, row] = difference[row, row:]
        return difference

    def _rows(self) -> list[tuple[int, Floats]]:
        ends = np.cumsum(np.arange(self.size, 0, -1))
        return [(row, self.entries[end - (self.size - row) : end]) for row, end in enumerate(ends.tolist())]
