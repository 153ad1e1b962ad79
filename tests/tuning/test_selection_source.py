"""A selection asks all its candidates whether they can run over a source, before anything is charged."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sidelight.errors import SchemaError
from sidelight.records import Number, Schema
from sidelight.session.query import PublicSource
from sidelight.tuning.selection import PreparedSelection


class Takes:
    def check_source(self, source: PublicSource) -> None:
        pass


class Refuses:
    def check_source(self, source: PublicSource) -> None:
        raise SchemaError("not over this")


@pytest.mark.parametrize("place", ["candidates", "scored"])
def test_every_part_is_asked(place: str) -> None:
    parts = SimpleNamespace(candidates=(Takes(),), scored=None)
    parts.__dict__[place] = (Takes(), Refuses()) if place == "candidates" else Refuses()
    parts._parts = PreparedSelection._parts.fget(parts)  # type: ignore[attr-defined]
    source = PublicSource(schema=Schema([Number("x", lower=0, upper=1)]), engine="pandas", in_memory=True)
    with pytest.raises(SchemaError, match="not over this"):
        PreparedSelection.check_source(parts, source)  # type: ignore[arg-type]
