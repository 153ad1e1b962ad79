"""Progress: a bar with public numbers on a terminal, nothing in a pipe."""

from __future__ import annotations

import pytest

from sidelight.session.progress import progress


def test_nothing_is_written_in_a_pipe(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with progress("measuring marginals", 5) as advance:
        advance()
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_how_many_of_how_many(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress("measuring marginals", 4, done=1) as advance:
        for _ in range(3):
            advance()
    written = capfd.readouterr()
    assert written.out == ""
    assert "measuring marginals" in written.err
    assert "/4" in written.err
