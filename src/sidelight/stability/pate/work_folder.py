"""A folder in which the ballots of trained teachers wait until all are there, so that a run can be interrupted.

Everything in it is private: ballots are what the noise hides, the key says who taught whom. Files are readable by their
owner only, and are written under another name and then renamed, so that none is ever half a file. A ballot is used
again only under the plan it was made for: the same records, queries, classes and teachers. Delete the folder when the
labels are released.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SourceError
from sidelight.release import Outcome, outcome_from_json
from sidelight.stability.pate.content_digest import content_digest
from sidelight.stability.pate.teachers import Ballot, Lessons, checked_key

_FORMAT = "2"  # 1 shared records out by other identities of ids


@dataclass(frozen=True, repr=False)
class WorkFolder:
    """The private files of one run."""

    path: Path

    @classmethod
    def at(cls, path: str | Path) -> WorkFolder:
        """Open a folder, or make one that only its owner can enter."""
        place = Path(path)
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SourceError(f"work_folder {str(path)!r} cannot be made: {error.strerror}; name a folder") from None
        return cls(place)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other fits out of the folder: of the same votes each would draw labels of its own."""
        import fcntl  # of Unix

        try:
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SourceError(f"work_folder cannot be locked: {error.strerror}; name another folder") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise SourceError(
                "another fit works in this work_folder; call again when it is done, which takes over what it trained "
                "and released, or name another folder. Nothing was charged"
            ) from None
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing alone would leave it to children that were forked meanwhile
            os.close(lock)

    def partition_key(self, given: bytes | None) -> bytes:
        """Return the key of this folder: kept, given, or drawn from the operating system."""
        file = self.path / "key"
        if file.exists():
            kept = file.read_bytes()
            if given is not None and given != kept:
                raise RangeError("work_folder was begun with another partition_key; leave it out, the folder has it")
            return checked_key(kept)
        key = drawn_key() if given is None else given
        self._write(file, key)
        return key

    def begin(self, digest: str) -> None:
        """Start under a plan, or go on under the same one."""
        file, content = self.path / "plan.json", json.dumps({"format": _FORMAT, "plan": digest}).encode()
        if not file.exists():
            self._write(file, content)
        elif file.read_bytes() != content:
            raise RangeError(
                "work_folder holds ballots of another plan: other records, queries, classes, teachers or another "
                "version of the teacher; name an empty folder, or delete this one"
            )

    def ballot(self, number: int, *, queries: int, classes: int) -> Ballot | None:
        """Return what a teacher voted before the interruption, or None; what is not a ballot is trained again."""
        try:
            found = np.load(self._ballot(number), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        usable = found.shape == (queries,) and found.dtype == np.int32 and ((found >= 0) & (found < classes)).all()
        return found if usable else None

    def keep_ballot(self, number: int, cast: Ballot) -> None:
        """Keep the votes of a trained teacher."""
        text = io.BytesIO()
        np.save(text, cast, allow_pickle=False)
        self._write(self._ballot(number), text.getvalue())

    def keep_cause(self, number: int, cause: str) -> Path:
        """Keep why a teacher failed, for the eyes of the owner of the records."""
        file = self.path / f"teacher-{number:05d}-failed.txt"
        self._write(file, cause.encode())
        return file

    def outcome(self, request: Mapping[str, Any]) -> Outcome | None:
        """Return what the same request brought before."""
        file = self._outcome(request)
        return outcome_from_json(file.read_text()) if file.exists() else None

    def keep_outcome(self, request: Mapping[str, Any], outcome: Outcome) -> None:
        """Keep a release or a refusal, so that asking again neither draws nor costs. Seeded ones are not kept."""
        if outcome.private:
            self._write(self._outcome(request), outcome.to_json().encode())

    def _ballot(self, number: int) -> Path:
        return self.path / f"teacher-{number:05d}.npy"

    def _outcome(self, request: Mapping[str, Any]) -> Path:
        name = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:16]
        return self.path / f"outcome-{name}.json"

    def _write(self, file: Path, content: bytes) -> None:
        part = file.with_name(f"{file.name}.{os.getpid()}.part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, file)


def drawn_key() -> bytes:
    """Draw a key from the operating system."""
    return os.urandom(32)


def plan_digest(teacher: Any, taught: Lessons, *, teachers: int) -> str:
    """Return a keyed digest of everything that decides what the teachers vote; without the key it says nothing."""
    import sklearn
    from joblib import hash as content  # type: ignore[import-untyped]

    parts = [str(teachers), sklearn.__version__, content_digest(teacher, taught.classes.tolist(), defaults=True)]
    parts += [content(part) for part in (taught.rows.parts, taught.labels, taught.shares, taught.queries)]
    digest = hashlib.blake2b(digest_size=32, key=taught.key, person=b"sidelight/plan")
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


def question_digest(teacher: Any, queries: Any, classes: NDArray[Any], *, teachers: int) -> str:
    """Return the SHA-256 of what the teachers are asked, and who they are: public parameters and public queries."""
    return content_digest(int(teachers), teacher, classes.tolist(), queries)
