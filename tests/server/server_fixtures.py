"""Fixtures of the tests of analyst servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analyst_server import serving, tokens_of, write_survey


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server in a process of its own, and clients of its analysts."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("uvicorn")
    file: Path = write_survey(tmp_path_factory.mktemp("survey"))
    tokens = tokens_of(file)
    with serving(file) as (url, process):
        clients = {
            name: httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)
            for name, token in tokens.items()
        }
        yield SimpleNamespace(url=url, file=file, folder=file.parent, tokens=tokens, process=process, **clients)
        for client in clients.values():
            client.close()
