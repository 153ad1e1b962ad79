"""The page of NIST's excerpts: processes that keep runs at the same time lose none, and the page shows them all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import nist_page

LINE = "national | (1, 1e-6) | none"


def test_runs_that_are_kept_at_once_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nist_page, "KEPT", tmp_path / "runs.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda run: nist_page.keep(LINE, pairs=900.0 + run / 10, triples=800.0), range(300)))
    kept = nist_page.load()
    assert sorted(kept[LINE]["pairs"]) == [900.0 + run / 10 for run in range(300)]
    theirs = dict.fromkeys(nist_page.SDNIST_SCORES, 0.5)
    nist_page.keep(f"{nist_page.SDNIST}Texas", formula=837.2, **theirs)
    page = nist_page.page(nist_page.load())
    assert f"| {LINE} | 915.0 (900.0 to 929.9) | 300 | 800.0 |" in page
    assert "| Texas | 0.50 | 837.20 | 0.5000 | 0.5 % | 0.5 % | 0.5 % |" in page
    assert page.count("was not run") == 2  # the other libraries
