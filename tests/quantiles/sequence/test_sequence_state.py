"""The state between days: resumed bit for bit, rebuilt from the ledger, and never guessed at."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from daily_fixtures import *  # noqa: F403 - fixtures
from daily_fixtures import Make, day, features, today

from probes import Unreadable
from sidelight.errors import LedgerError, ReleaseFailedError, SidelightWarning
from sidelight.ledger import Ledger
from sidelight.quantiles import PubPrev, PubProx
from sidelight.quantiles.sequence import sequence as module

LEARNERS = [
    PubPrev(8, 2),
    PubProx(8, 2, features=2, plausible=(0, 120)),
    PubProx(8, 2, features=2, plausible=(0, 120), method="cocob"),
]
IDS = ["previous", "regression", "cocob"]


def given(learner: Any, t: int) -> list[float]:
    return features(t) if isinstance(learner, PubProx) else []


def run(sequence: Any, days: range) -> None:
    for t in days:
        sequence.release(today(t), day=day(t), features=given(sequence.plan.learner, t))


def state_of(sequence: Any) -> bytes:
    return Path(sequence.state_file).read_bytes()


@pytest.mark.parametrize("learner", LEARNERS, ids=IDS)
def test_tomorrow_goes_on_where_today_stopped(make: Make, learner: Any) -> None:
    """A new process every day gives the same priors as one that never stopped; so does the ledger alone."""
    for t in range(6):
        run(make(learner), range(t, t + 1))
    sequence = make(learner)
    written, expected = state_of(sequence), sequence.predict(given(learner, 6))
    Path(sequence.state_file).unlink()  # type: ignore[arg-type]
    again = make(learner)
    assert again.predict(given(learner, 6)) == expected
    again.rebuild()
    assert state_of(again) == written


def test_a_link_to_a_state_stays_a_link(make: Make, tmp_path: Path) -> None:
    own, disk = Path(make().state_file or ""), tmp_path / "disk"  # type: ignore[arg-type]
    disk.mkdir()
    own.unlink(missing_ok=True)
    own.symlink_to(disk / "state.json")
    run(make(), range(2))
    assert own.is_symlink()
    assert (disk / "state.json").is_file()


def test_a_crash_between_release_and_state_is_healed(make: Make, ledger: Ledger, monkeypatch: Any) -> None:
    run(make(), range(3))
    before = state_of(make())

    def crash(*args: Any, **rest: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_state", crash)
        with pytest.raises(KeyboardInterrupt):
            run(make(), range(3, 4))
    resumed = make()
    assert state_of(resumed) == before  # the file is a day behind
    assert resumed.days == 4  # the ledger is not
    head = ledger.head()
    stored = resumed.release(today(3), day=day(3), features=features(3))  # the day that crashed: found, not paid again
    assert stored.circumstances.entry_id == ledger.entries()[-1].entry_id
    assert ledger.head() == head
    run(resumed, range(4, 5))
    healed = state_of(resumed)
    resumed.rebuild()
    assert state_of(resumed) == healed


def test_a_crash_inside_the_release_costs_that_attempt(make: Make, ledger: Ledger) -> None:
    run(make(), range(2))
    before = state_of(make())
    sequence = make()
    broken = Unreadable(today(2), schema=list(sequence.plan.schema.columns))
    with pytest.raises((AttributeError, ReleaseFailedError)):
        sequence.release(broken, day=day(2), features=features(2))
    assert [entry.state for entry in ledger.entries()] == ["released", "released", "failed"]
    assert state_of(make()) == before
    run(make(), range(2, 3))  # pays again
    assert [entry.attempt for entry in ledger.entries()] == [1, 1, 1, 2]


def test_two_writers_end_with_one_state(make: Make) -> None:
    one, other = make(), make()
    run(one, range(1))
    run(other, range(1, 2))  # `other` was opened before day 0
    run(one, range(2, 3))
    assert one.predict(features(3)) == other.predict(features(3)) == make().predict(features(3))


def edited(path: Path, **changes: Any) -> None:
    """Change fields and set the checksum right, as another version would have written it."""
    content = json.loads(path.read_text())
    content.update(changes)
    del content["checksum"]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    path.write_text(json.dumps({**content, "checksum": hashlib.sha256(text.encode()).hexdigest()}))


def corrupt(path: Path) -> None:
    text = path.read_text()
    at = text.index("0x1.") + 6
    path.write_text(text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :])


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda path: path.write_text(path.read_text()[:-40]), "not the JSON"),
        (lambda path: path.write_text("[]"), "not the JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read"),
        (corrupt, "checksum"),
        (lambda path: edited(path, format="2"), "format '2'"),
        (lambda path: edited(path, learner={}), "do not fit"),
        (lambda path: edited(path, days="many"), "do not fit"),
        (lambda path: edited(path, plan="0" * 64), "another plan"),
        (lambda path: edited(path, ledger="another"), "another ledger"),
    ],
    ids=["cut off", "a list", "no text", "one digit", "version", "no learner", "days", "plan", "ledger"],
)
def test_a_state_that_does_not_fit_is_an_error_and_stays(make: Make, ledger: Ledger, damage: Any, match: str) -> None:
    sequence = make()
    run(sequence, range(2))
    path = Path(sequence.state_file)  # type: ignore[arg-type]
    damage(path)
    written, head = path.read_bytes(), ledger.head()
    with pytest.raises(LedgerError, match=match):
        make()
    assert path.read_bytes() == written
    assert ledger.head() == head


def test_another_plan_needs_another_place(make: Make, ledger: Ledger) -> None:
    run(make(), range(2))
    head = ledger.head()
    for other in ({"epsilon": "0.6"}, {"learner": PubProx(9, 2, features=2, plausible=(0, 120))}):
        with pytest.raises(LedgerError, match="another plan"):
            make(**other)
    assert ledger.head() == head
    run(make(epsilon="0.6", scope="other trips"), range(2))
    assert make().days == 2


def test_an_older_ledger_is_noticed(make: Make, ledger: Ledger) -> None:
    sequence = make()
    run(sequence, range(2))
    edited(Path(sequence.state_file), head="0" * 64)  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="older copy"):
        run(make(), range(2, 3))


def test_without_a_file_the_ledger_remembers(make: Make, tmp_path: Path) -> None:
    sequence = make(state=tmp_path / "elsewhere.json")
    run(sequence, range(2))
    assert (tmp_path / "elsewhere.json").exists()
    assert make(state=tmp_path / "nothing here.json").days == 2


def test_the_state_holds_no_more_than_public_numbers(make: Make) -> None:
    sequence = make()
    run(sequence, range(2))
    content = json.loads(state_of(sequence))
    assert sorted(content) == [
        "checksum",
        "days",
        "first_entry",
        "format",
        "head",
        "last_day",
        "last_entry",
        "learner",
        "ledger",
        "plan",
        "what",
    ]


def test_a_state_without_a_folder_is_refused_before_the_charge(make: Make, ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="does not exist; make it first"):
        make(state=tmp_path / "nodir" / "x.json")
    folder = tmp_path / "sub"
    folder.mkdir()
    sequence = make(state=folder / "x.json")
    run(sequence, range(1))
    shutil.rmtree(folder)
    with pytest.raises(LedgerError, match="does not exist; make it first"):
        run(sequence, range(1, 2))
    assert len(ledger.entries()) == 1


def test_a_state_that_cannot_be_written_withholds_no_paid_answer(
    make: Make, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    sequence = make()
    with monkeypatch.context() as patch:
        patch.setattr("sidelight.quantiles.sequence.state.tempfile.mkstemp", full)
        with pytest.warns(SidelightWarning, match="safe in the ledger"):
            answer = sequence.release(today(0), day=day(0), features=features(0))
    assert make().release(today(0), day=day(0), features=features(0)) == answer
    assert len(ledger.entries()) == 1
