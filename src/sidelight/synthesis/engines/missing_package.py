"""Name the package that is missing, in words, where an import error would only name a module."""

from __future__ import annotations

from sidelight.errors import SidelightError


class MissingPackageError(SidelightError, ImportError):
    """A package that is not among sidelight's own requirements is not installed."""
