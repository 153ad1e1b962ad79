"""Progress: a bar with public numbers on a terminal, nothing in a pipe."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from sidelight.progress import progress


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal that remembers what was written to it."""
    import rich.console

    written, plain = io.StringIO(), rich.console.Console

    def terminal(**rest: Any) -> Any:
        return plain(file=written, force_terminal=True, color_system=None, width=80, **rest | {"stderr": False})

    monkeypatch.setattr(rich.console, "Console", terminal)
    return written


def _text(screen: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())


def test_nothing_is_written_in_a_pipe(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with progress("measuring", total=2) as step:
        step("something else")
        step()
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_how_many_of_how_many(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress("measuring", total=4, done=1) as step:
        step()
        step()
    written = capfd.readouterr()
    assert written.out == ""
    assert "measuring" in written.err
    assert "3/4" in written.err


def test_without_a_total_there_is_no_number(screen: io.StringIO) -> None:
    with progress("fitting"):
        pass
    assert "fitting" in _text(screen)
    assert not any(sign.isdigit() for sign in _text(screen))


def test_a_step_within_a_step_has_a_line_of_its_own_and_takes_it_away(screen: io.StringIO) -> None:
    with progress(total=2) as outer:
        outer("[a table]")  # a name from a plan is not markup
        with progress("measuring", total=3) as inner:
            inner()
        outer()
    lines = [line.split() for line in _text(screen).replace("\r", "\n").split("\n")]
    assert any(line[:2] == ["[a", "table]"] and line[-1] == "0/2" for line in lines)
    assert any(line[:1] == ["measuring"] and line[-1] == "1/3" for line in lines)
    assert "1/2" in _text(screen)
