"""Examples in docstrings and pages run in an empty folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

#: Fixtures hold no examples, and several files of one name cannot be searched for examples together.
collect_ignore_glob = ["tests/*/conftest.py"]


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path | None]:
    if not isinstance(request.node, pytest.DoctestItem):
        yield None
        return
    folder = tmp_path_factory.mktemp("example")
    monkeypatch.chdir(folder)
    yield folder
