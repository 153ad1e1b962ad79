"""A file of releases that was changed is refused in the library's words, or shown; never with a foreign error."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl
from sidelight.cli.stored import write_stored
from sidelight.errors import SidelightError
from sidelight.report import Item, Report

VALUES: tuple[Any, ...] = ("x", None, [], {}, -1e300, 10**400, True)


def leaves(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in inside:
        yield from leaves(value, (*path, key))
    if not isinstance(found, dict | list):
        yield path


def test_every_changed_value_is_shown_or_refused(tmp_path: Path) -> None:
    release = sl.Quantiles([0.5], epsilon=1, granularity=1).release([30, 40, 50] * 100)
    whole = json.loads(Report(title="t", day="2026-01-01", items=(Item(title="y", outcome=release),)).to_json())
    kept = tmp_path / "r.json"
    for number, path in list(enumerate(leaves(whole)))[2::3]:
        changed = copy.deepcopy(whole)
        inside = changed
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = VALUES[number % len(VALUES)]
        kept.write_text(json.dumps(changed))
        with contextlib.suppress(SidelightError):
            write_stored(kept, output=tmp_path / "r.html", title="t", areas=None)


def test_numbers_beyond_all_bounds_are_refused(tmp_path: Path) -> None:
    kept = tmp_path / "r.json"
    for text in ("1" * 5000, f'{{"type": "report", "format": {"1" * 5000}}}'):
        kept.write_text(text)
        with pytest.raises(SidelightError):
            write_stored(kept, output=tmp_path / "r.html", title="t", areas=None)
