"""Progress: a bar with public numbers on a terminal, nothing in a pipe."""

from __future__ import annotations

import pytest

from sidelight.synthesis.measuring.rounds_shown import rounds_shown


def test_nothing_is_written_in_a_pipe(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with rounds_shown(5) as shown:
        assert list(shown) == [0, 1, 2, 3, 4]
    assert capfd.readouterr() == ("", "")


def test_a_terminal_shows_how_many_of_how_many(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with rounds_shown(4) as shown:
        assert list(shown) == [0, 1, 2, 3]
    written = capfd.readouterr()
    assert written.out == ""
    assert "measuring marginals" in written.err
    assert "/4" in written.err
