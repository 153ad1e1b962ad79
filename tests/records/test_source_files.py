"""The files of a source, whatever path, link, folder or pattern names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidelight.records.source_files import files_of, identities_of, is_file_of, would_be_read


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """A folder with a partition, a link to another folder that leads back, and files that no engine reads."""
    folder = tmp_path / "visits"
    (folder / "ward=A").mkdir(parents=True)
    (folder / "_logs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    for name in (
        "a.csv",
        "ward=A/b.csv",
        "_old.csv",
        ".a.csv.crc",
        "_logs/c.csv",
        "../elsewhere/d.csv",
        "../other.csv",
    ):
        (folder / name).write_text("g\na\n")
    (folder / "ward=B").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere" / "back").symlink_to(folder, target_is_directory=True)
    (tmp_path / "link.csv").symlink_to(folder / "a.csv")
    os.link(folder / "a.csv", tmp_path / "hard.csv")
    return folder


@pytest.mark.parametrize(
    "name", ["a.csv", "ward=A/b.csv", "_old.csv", "_logs/c.csv", "../elsewhere/d.csv", "../link.csv", "../hard.csv"]
)
@pytest.mark.parametrize("spelling", ["visits", "visits/", "./visits/../visits", "vis*", "file"])
def test_everything_below_a_folder_is_a_file_of_it(visits: Path, spelling: str, name: str) -> None:
    source = visits.as_uri() if spelling == "file" else str(visits.parent / spelling)
    assert is_file_of(visits / name, source)
    assert not is_file_of(visits.parent / "other.csv", source)
    assert len(list(files_of(source))) == 6  # a link that leads back is followed once


@pytest.mark.parametrize("pattern", ["*.csv", "a.csv", "?.csv", "[a-b].csv", "{a,z}.csv", "[^x].csv", "**/a.csv"])
def test_a_pattern_names_its_files(visits: Path, pattern: str) -> None:
    assert is_file_of(visits.parent / "hard.csv", visits / pattern)
    assert not is_file_of(visits / "ward=A" / "b.csv", visits / pattern)


def test_an_address_and_a_missing_path_name_no_file(visits: Path) -> None:
    for source in ("postgresql://ann@host/people", "s3://bucket/a", visits / "none.csv", visits / "none-*.csv", "\0"):
        assert not identities_of(source)
        assert not is_file_of(visits / "a.csv", source)
    assert is_file_of(visits / "none.csv", visits / "none.csv")


@pytest.mark.parametrize(
    ("written", "source", "read"),
    [
        ("visits/a.csv", "visits", True),
        ("visits/new.csv", "visits", True),
        ("visits/new.html", "visits", True),
        ("visits/ward=A/new.csv", "visits", True),
        ("elsewhere/new.csv", "visits", True),
        ("link.csv", "visits", True),
        ("link.csv", "visits/a.csv", True),
        ("visits/new.csv", "visits/*.csv", True),
        ("visits/new.csv", "v*/*.csv", True),
        ("visits/ward=A/new.csv", "visits/*", True),
        ("dangling.html", "visits/*.csv", True),
        ("dangling.html", "visits", True),
        ("none.csv", "none.csv", True),
        ("visits/_new.csv", "visits", False),
        ("visits/_old.csv", "visits", False),
        ("visits/_logs/new.csv", "visits", False),
        ("visits/new.html", "visits/*.csv", False),
        ("visits/.new.csv", "visits/*.csv", False),
        ("visits/new.csv", "visits/a.csv", False),
        ("new.csv", "visits/*.csv", False),
        ("new.csv", "visits", False),
        ("visits/new.csv", "other*.csv", False),
        ("plan1.toml", "plan[1].toml", False),
    ],
)
def test_what_is_written_may_become_a_file_of_a_source(visits: Path, written: str, source: str, read: bool) -> None:
    folder = visits.parent
    (folder / "plan[1].toml").write_text("")
    (folder / "dangling.html").symlink_to(visits / "unborn.csv")
    assert would_be_read(folder / written, folder / source) is read


def test_a_link_to_nothing_waits_for_its_file(visits: Path) -> None:
    (visits / "latest.csv").symlink_to(visits.parent / "report.html")
    assert would_be_read(visits.parent / "report.html", visits)
    assert would_be_read(visits.parent / "report.html", visits / "*.csv")
