"""The folder of a service: one snapshot, and the journal of what came since. One process at a time.

A snapshot has a number, and only the journal of the same number belongs to it. A round is closed by writing the next
snapshot as a whole; after a crash there is the old snapshot with its journal, or the new one with an empty journal.
Journals of closed rounds are deleted: a server that keeps single reports keeps what batches should hide.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from sidelight.errors import StorageError
from sidelight.experts.service.journal import Journal, read_journal, sync_folder
from sidelight.experts.states import STATE_VERSION, checked_kind, load_state, save_state


class Store:
    """Snapshots and journals below a folder that this process has locked."""

    def __init__(self, folder: Path, *, sync: Callable[[int], None] = os.fdatasync) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._sync = sync
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StorageError(f"another process serves from {str(folder)!r}; stop it first") from None
        self._number = 0

    @property
    def _snapshot(self) -> Path:
        return self._folder / "snapshot.json"

    def _journal_path(self, number: int) -> Path:
        return self._folder / f"journal-{number}"

    def load(self) -> tuple[dict[str, Any], list[str]] | None:
        """Return the last snapshot and the texts of its journal, or None in an empty folder."""
        if not self._snapshot.exists():
            return None
        stored = checked_kind(load_state(self._snapshot), "service")
        self._number = stored["number"]
        return stored["content"], read_journal(self._journal_path(self._number))

    def save(self, content: dict[str, Any]) -> None:
        """Write the next snapshot as a whole; with it the journal so far is done with, and deleted."""
        number = self._number + 1
        save_state({"kind": "service", "version": STATE_VERSION, "number": number, "content": content}, self._snapshot)
        self._number = number
        self._forget_others()

    def journal(self, *, executor: Executor) -> Journal:
        """Open the journal that belongs to the last snapshot."""
        self._forget_others()
        return Journal(self._journal_path(self._number), executor=executor, sync=self._sync)

    def _forget_others(self) -> None:
        keep = self._journal_path(self._number)
        others = [path for path in self._folder.glob("journal-*") if path != keep]
        for path in others:
            path.unlink()
        if others:
            sync_folder(self._folder)

    def close(self) -> None:
        """Let the next process in."""
        os.close(self._lock)
