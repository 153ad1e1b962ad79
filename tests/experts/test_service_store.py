"""The journal: what was acknowledged survives a power cut, and an acknowledgement before the sync is caught."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import StorageError
from sidelight.experts.service.store import Journal, ServiceStore, batch_of, read_journal

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)


class Disk:
    """A disk that forgets what was not synced: `cut` gives the file as it is after the power fails."""

    def __init__(self):
        self.synced = 0
        self.syncs = 0

    def sync(self, handle):
        os.fdatasync(handle)
        self.synced = os.fstat(handle).st_size
        self.syncs += 1

    def cut(self, path, torn=0):
        with open(path, "r+b") as file:
            file.truncate(min(os.path.getsize(path), self.synced + torn))


class HastyJournal(Journal):
    """The planted bug: acknowledges what was written before it is synced."""

    def _write(self, data):
        os.write(self._handle, data)


async def acknowledged_before_a_cut(journal, disk, texts, *, torn):
    """Send all texts at once; cut the power after half the acknowledgements and return those that came before."""
    done = []
    cut = asyncio.Event()

    async def send(text):
        journal.append(text)
        await journal.durable()
        if not cut.is_set():
            done.append(text)
            if len(done) >= len(texts) // 2:
                cut.set()
                disk.cut(journal.path, torn)

    for start in range(0, len(texts), 3):
        await asyncio.gather(*(send(text) for text in texts[start : start + 3]))
        if cut.is_set():
            break
    return done


@pytest.mark.parametrize("torn", [0, 1, 40, 100])
def test_what_was_acknowledged_survives_a_power_cut(tmp_path, torn):
    texts = [f"report {place}" for place in range(30)]
    found = {}
    for kind in (Journal, HastyJournal):
        disk, path = Disk(), tmp_path / kind.__name__
        with ThreadPoolExecutor(1) as pool:
            journal = kind(path, executor=pool, sync=disk.sync)
            done = asyncio.run(acknowledged_before_a_cut(journal, disk, texts, torn=torn))
            journal.close()
        assert len(done) >= 15
        found[kind] = set(done) <= set(read_journal(path))
    assert found[Journal]
    assert not found[HastyJournal]


def test_many_requests_share_a_sync(tmp_path):
    disk = Disk()

    async def main(journal):
        async def one(place):
            journal.append(str(place))
            await journal.durable()

        await asyncio.gather(*(one(place) for place in range(200)))

    with ThreadPoolExecutor(1) as pool:
        journal = Journal(tmp_path / "j", executor=pool, sync=disk.sync)
        asyncio.run(main(journal))
        journal.close()
    assert read_journal(tmp_path / "j") == [str(place) for place in range(200)]
    assert disk.syncs <= 3


def test_after_a_failed_sync_nothing_is_acknowledged(tmp_path):
    def broken(handle):
        raise OSError("disk")

    async def main(journal):
        for _ in range(3):
            journal.append("x")
            with pytest.raises(StorageError, match="takes no more reports"):
                await journal.durable()

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(main(Journal(tmp_path / "j", executor=pool, sync=broken)))


@given(st.lists(st.lists(TEXT, min_size=1, max_size=4), min_size=1, max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_a_torn_end_is_cut_and_whole_batches_stay(tmp_path_factory, batches, data):
    path = tmp_path_factory.mktemp("journal") / "j"
    stored = [batch_of(batch) for batch in batches]
    whole = b"".join(stored)
    keep = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:keep])
    texts, size = [], 0
    for batch, piece in zip(batches, stored, strict=True):
        if size + len(piece) > keep:
            break
        texts += batch
        size += len(piece)
    assert read_journal(path) == texts
    assert path.stat().st_size == size
    assert read_journal(path) == texts


def test_damage_before_good_batches_is_told(tmp_path):
    path = tmp_path / "journal-1"
    first, second = batch_of(["one"]), batch_of(["two"])
    path.write_bytes(first.replace(b"one", b"0ne") + second)
    with pytest.raises(StorageError, match="damaged in the middle"):
        read_journal(path)
    path.write_bytes(first + b"\0" * 50 + second[60:])  # pages of an unsynced batch, written out of order
    assert read_journal(path) == ["one"]


def test_one_process_at_a_time_and_old_journals_go(tmp_path):
    store = ServiceStore(tmp_path / "state")
    with pytest.raises(StorageError, match="another process serves"):
        ServiceStore(tmp_path / "state")
    store.save({"x": 1})
    with ThreadPoolExecutor(1) as pool:
        store.journal(executor=pool).close()
        (tmp_path / "state" / "journal-1").write_bytes(batch_of(["secret"]))
        assert store.load() == ({"x": 1}, ["secret"])
        store.save({"x": 2})
        store.journal(executor=pool).close()
        assert store.load() == ({"x": 2}, [])
    left = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert left == ["journal-2", "lock", "snapshot.json"]
    store.close()
    ServiceStore(tmp_path / "state").close()
