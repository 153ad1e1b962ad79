"""Rounds and their folder: a service that is left at any point goes on with the same bits, for every player."""

from __future__ import annotations

import asyncio
import json

import pytest
from service_fixtures import *  # noqa: F403 - fixtures
from service_fixtures import NAMES, PLAN, made_reports, write_plan

from sidelight.errors import RefusedError, StorageError
from sidelight.experts import Receipt
from sidelight.experts.service.rounds import Rounds, new_server
from sidelight.experts.service.store import ServiceStore

COORDINATES = (
    PLAN.replace('clients = ["a", "b", "c", "d"]', "")
    .replace("[terms]", '[terms]\nkind = "coordinate"')
    .replace("close_when_complete = true", "")
    + "\n[clients]\na = 0\nb = 1\n"  # no client reports the third coordinate
)


class Clock:
    """A clock that advances only when set."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def abandon(rounds):
    """Leave everything as a killed process would: no goodbye, only the handles are closed."""
    if rounds._task is not None:
        rounds._task.cancel()
    rounds._journal.close()
    rounds._store.close()


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited too long")


@pytest.mark.parametrize("kind", ["rw_ftpl", "rw_adabatch", "rw_meta"])
def test_an_abandoned_service_goes_on_bit_for_bit(tmp_path, kind):
    plan = write_plan(tmp_path, kind=f'"{kind}"')
    reports = made_reports(plan.reporting, 6)

    async def play():
        for round_ in range(1, 7):
            for place, name in enumerate(NAMES):
                rounds = Rounds(plan, ServiceStore(plan.folder))  # a new process for every report
                rounds.start()
                await until(lambda rounds=rounds, round_=round_: rounds.view.round == round_)
                assert rounds.received == place
                assert await rounds.receive(reports[round_, name]) is Receipt.ACCEPTED
                if place < 3:
                    abandon(rounds)
            await until(lambda rounds=rounds, round_=round_: rounds.view.round != round_)
            abandon(rounds)
        return rounds

    rounds = asyncio.run(play())
    server = new_server(plan)
    for round_ in range(1, 7):
        server.open_round()
        for name in reversed(NAMES):
            server.receive(reports[round_, name])
        server.close_round()
    server.open_round()
    assert json.dumps(rounds._server.state()["player"]) == json.dumps(server.state()["player"])
    assert rounds.view.action == server.open_round()


def test_missing_coordinates_count_as_nothing_with_noise_of_the_server(tmp_path):
    plan = write_plan(tmp_path, COORDINATES)
    reports = made_reports(plan.reporting, 2, ("a", "b"))
    clock = Clock()

    async def play():
        rounds = Rounds(plan, ServiceStore(plan.folder), clock=clock)
        rounds.start()
        await rounds.receive(reports[1, "a"])  # b is missing too
        clock.now += 4000
        abandon(rounds)
        rounds = Rounds(plan, ServiceStore(plan.folder), clock=clock)  # its deadline passed while the service was down
        rounds.start()
        await until(lambda: rounds.view.round == 2)
        await rounds.stop()
        return rounds

    rounds = asyncio.run(play())
    (closed,) = rounds.view.closed
    assert (closed.reports, closed.expected) == (1, 2)
    server = new_server(plan)
    server.open_round()
    server.receive(reports[1, "a"])
    server.close_round()
    assert rounds._server.player.sums.tolist() == server.player.sums.tolist()
    assert rounds.view.deadline == clock.now + 3600


def test_late_reports_can_count_in_the_next_round_and_survive(tmp_path):
    plan = write_plan(tmp_path, seconds='3600\nlate = "next"', close_when_complete="")
    reports = made_reports(plan.reporting, 3)
    clock = Clock()

    async def play():
        rounds = Rounds(plan, ServiceStore(plan.folder), clock=clock)
        await rounds.receive(reports[1, "a"])
        clock.now += 3600
        rounds.start()
        await until(lambda: rounds.view.round == 2)
        assert await rounds.receive(reports[1, "b"]) is Receipt.POSTPONED
        assert await rounds.receive(reports[1, "b"]) is Receipt.DUPLICATE
        abandon(rounds)
        rounds = Rounds(plan, ServiceStore(plan.folder), clock=clock)
        assert await rounds.receive(reports[1, "b"]) is Receipt.DUPLICATE
        assert rounds.received == 1
        await rounds.stop()

    asyncio.run(play())


def test_all_rounds_played_is_the_end(tmp_path):
    plan = write_plan(tmp_path, rounds="2")
    reports = made_reports(plan.reporting, 2)

    async def play():
        rounds = Rounds(plan, ServiceStore(plan.folder))
        rounds.start()
        for round_ in (1, 2):
            for name in NAMES:
                await rounds.receive(reports[round_, name])
            await until(lambda round_=round_: rounds.view.round != round_)
        assert rounds.view.round is None
        assert await rounds.receive(reports[2, "a"]) is Receipt.DUPLICATE
        await rounds.stop()
        again = Rounds(plan, ServiceStore(plan.folder))
        again.start()
        assert again.view == rounds.view
        await again.stop()

    asyncio.run(play())


def test_a_duplicate_waits_for_the_sync_of_the_first(tmp_path):
    plan = write_plan(tmp_path)
    report = made_reports(plan.reporting, 1)[1, "a"]

    async def play():
        import threading

        gate = threading.Event()
        rounds = Rounds(plan, ServiceStore(plan.folder, sync=lambda handle: gate.wait(10)))
        answers = [asyncio.create_task(rounds.receive(report)) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert not any(answer.done() for answer in answers)
        gate.set()
        receipts = await asyncio.gather(*answers)
        assert sorted(receipt.value for receipt in receipts) == ["accepted", "duplicate", "duplicate"]
        await rounds.stop()

    asyncio.run(play())


def test_a_failing_disk_stops_acknowledgements_for_good(tmp_path):
    plan = write_plan(tmp_path)
    reports = made_reports(plan.reporting, 1)
    good = True

    def sync(handle):
        if not good:
            raise OSError("no space left")

    async def play():
        nonlocal good
        rounds = Rounds(plan, ServiceStore(plan.folder, sync=sync))
        rounds.start()
        await rounds.receive(reports[1, "a"])
        good = False
        for name in ("b", "b", "c"):
            with pytest.raises(RefusedError) as caught:
                await rounds.receive(reports[1, name])
            assert caught.value.code == "storage"
        good = True
        with pytest.raises(RefusedError):
            await rounds.receive(reports[1, "d"])  # what the disk holds is not known any more
        assert rounds.failed.is_set()
        abandon(rounds)

    asyncio.run(play())


def test_a_journal_of_another_snapshot_is_refused(tmp_path):
    from sidelight.experts.service.store import batch_of

    plan = write_plan(tmp_path)
    reports = made_reports(plan.reporting, 2)

    async def play():
        rounds = Rounds(plan, ServiceStore(plan.folder))
        await rounds.stop()
        (plan.folder / "journal-1").write_bytes(batch_of([reports[2, "a"].to_json()]))
        with pytest.raises(StorageError, match="does not belong"):
            Rounds(plan, ServiceStore(plan.folder))

    asyncio.run(play())


@pytest.mark.parametrize("lost", [True, False])
def test_reports_that_are_newer_than_the_snapshot_are_not_deleted(tmp_path, lost):
    plan = write_plan(tmp_path)
    reports = made_reports(plan.reporting, 2)
    snapshot = plan.folder / "snapshot.json"

    async def play():
        rounds = Rounds(plan, ServiceStore(plan.folder))
        older = snapshot.read_bytes()
        await rounds._close()
        await rounds.receive(reports[2, "a"])
        await rounds.stop()
        snapshot.unlink() if lost else snapshot.write_bytes(older)
        with pytest.raises(StorageError, match="newer than its snapshot"):
            Rounds(plan, ServiceStore(plan.folder))
        assert reports[2, "a"].to_json() in (plan.folder / "journal-2").read_text(encoding="utf-8")

    asyncio.run(play())


def test_nothing_of_a_closed_round_stays_but_sums_and_hashes(tmp_path):
    plan = write_plan(tmp_path)
    reports = made_reports(plan.reporting, 1)

    async def play():
        rounds = Rounds(plan, ServiceStore(plan.folder))
        rounds.start()
        for name in NAMES:
            await rounds.receive(reports[1, name])
        await until(lambda: rounds.view.round == 2)
        await rounds.stop()

    asyncio.run(play())
    everything = "".join(path.read_text() for path in plan.folder.iterdir())
    for report in reports.values():
        assert report.nonce not in everything
        assert not any(f"{value}" in everything for value in report.values if abs(value) > 10**4)
