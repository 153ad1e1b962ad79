"""Power lost at any moment: what the ledger and the experts' journal hold when writes that were not synced are gone.

    python -m benchmarks.power_loss [cuts]

from benchmarks.measuring import sized


A program (`ledger_story`, `journal_story`) runs once under `strace`, which writes down every write, truncation, sync,
creation, removal and renaming below a folder, and every mark by which the program says that data was opened, a value
left, or a report was acknowledged. The record is then cut at many places. What was synced before the cut is there; of
what was written since, sectors are kept, lost or torn at random; of names since their folder was synced, the last may
be missing. The real code then opens what is left: everything that was marked before the cut has to be in it.

Limits: the disk is taken to obey a sync and to keep what was synced; sectors of 512 bytes are written whole; what other
processes wrote is not replayed; memory shared between processes (`-shm`) is rebuilt by SQLite and therefore left out.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.measuring import sized

CUTS = sized(300, 2)
SECTOR = 512
_CALLS = "openat,write,pwrite64,lseek,ftruncate,fsync,fdatasync,unlink,unlinkat,rename,renameat,renameat2,close"

Kind = Literal["create", "write", "truncate", "sync", "sync names", "unlink", "rename", "mark"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that a program did to its folder, or said."""

    kind: Kind
    name: str = ""
    offset: int = 0
    data: bytes = b""
    to: str = ""


def recorded(folder: Path, story: str) -> list[Step]:
    """Run a story (a function of `benchmarks.power_loss_stories`) under strace; return what it did below the folder."""
    log = folder.with_name(folder.name + ".strace")
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={_CALLS}", "-o", str(log)]
    program = [sys.executable, "-m", "benchmarks.power_loss_stories", story, str(folder)]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run([*command, *program], cwd=root, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"the story could not be recorded: {done.stderr[-1000:]}")
    with log.open(encoding="ascii") as lines:
        return list(_Reader(str(folder.resolve())).steps(lines))


class _Reader:
    """Reads strace's lines: which file a number stands for, and where in it the next write goes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._size: dict[str, int] = {}
        self._place: dict[int, int | None] = {}  # None: at the end, wherever that is

    def steps(self, lines: Any) -> Iterator[Step]:
        waiting: dict[str, str] = {}
        for line in lines:
            process, _, call = line.rstrip("\n").partition(" ")
            call = call.strip()
            if call.endswith("<unfinished ...>"):
                waiting[process] = call.removesuffix("<unfinished ...>")
                continue
            if (resumed := re.match(r"<\.\.\. \w+ resumed>", call)) is not None:
                call = waiting.pop(process) + call[resumed.end() :]
            made = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", call)
            if made is not None and int(made[3]) >= 0:
                yield from self._step(made[1], made[2], int(made[3]))

    def _step(self, call: str, arguments: str, result: int) -> Iterator[Step]:
        texts = [_bytes(each) for each in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', arguments)]
        file = re.match(r"(\d+)<((?:\\x[0-9a-f]{2})*)>", arguments)
        number, path = (int(file[1]), _bytes(file[2]).decode()) if file is not None else (-1, "")
        if call == "write" and number == 1:
            yield from (Step(kind="mark", name=word) for word in texts[0].decode().splitlines())
        elif call == "openat":
            yield from self._opened(texts[0].decode(), arguments, result)
        elif call in ("unlink", "unlinkat") and (name := self._name(texts[0].decode())) is not None:
            yield Step(kind="unlink", name=name)
            self._size.pop(name, None)
        elif call.startswith("rename") and (name := self._name(texts[0].decode())) is not None:
            to = self._name(texts[1].decode()) or ""
            self._size[to] = self._size.pop(name, 0)
            yield Step(kind="rename", name=name, to=to)
        elif call in ("fsync", "fdatasync") and path == self._folder:
            yield Step(kind="sync names")
        elif (name := self._name(path)) is not None:
            yield from self._in_file(call, name, number, arguments, texts, result)

    def _opened(self, path: str, arguments: str, number: int) -> Iterator[Step]:
        name = self._name(path)
        if name is None or "O_DIRECTORY" in arguments:
            return
        self._place[number] = None if "O_APPEND" in arguments else 0
        if name not in self._size and "O_CREAT" in arguments:
            self._size[name] = 0
            yield Step(kind="create", name=name)
        elif "O_TRUNC" in arguments:
            self._size[name] = 0
            yield Step(kind="truncate", name=name)

    def _in_file(
        self, call: str, name: str, number: int, arguments: str, texts: list[bytes], result: int
    ) -> Iterator[Step]:
        size = self._size.get(name, 0)
        if call in ("write", "pwrite64"):
            place = self._place.get(number) if call == "write" else int(arguments.rsplit(", ", 1)[1])
            offset = size if place is None else place
            yield Step(kind="write", name=name, offset=offset, data=texts[0][:result])
            self._size[name] = max(size, offset + result)
            if call == "write" and place is not None:
                self._place[number] = offset + result
        elif call == "lseek" and self._place.get(number) is not None:
            self._place[number] = result
        elif call == "ftruncate":
            self._size[name] = int(arguments.rsplit(", ", 1)[1])
            yield Step(kind="truncate", name=name, offset=self._size[name])
        elif call in ("fsync", "fdatasync"):
            yield Step(kind="sync", name=name)

    def _name(self, path: str) -> str | None:
        """Return the name of a file directly in the folder, None otherwise."""
        inside = path.removesuffix(" (deleted)").removeprefix(self._folder + "/")
        return None if inside == path or "/" in inside or inside.endswith("-shm") else inside


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


@dataclass
class _File:
    """What of a file is on the disk, and what was done since it was synced."""

    synced: bytes = b""
    since: list[Step] = field(default_factory=list)

    def left(self, choose: random.Random) -> bytes:
        """Return what a cut leaves: nothing that came since, all of it, or any part."""
        kept = choose.choice([0.0, 0.5, 0.5, 1.0])
        content = bytearray(self.synced)
        for step in self.since:
            if step.kind == "truncate":
                if choose.random() < kept:
                    _resize(content, step.offset)
                continue
            torn = choose.random() < 0.2 and 0 < kept < 1
            whole = choose.random() < kept
            for start in range(0, len(step.data), SECTOR):
                if choose.random() < 0.5 if torn else whole:
                    _put(content, step.offset + start, step.data[start : start + SECTOR])
        return bytes(content)


def after_power_loss(steps: list[Step], choose: random.Random) -> dict[str, bytes]:
    """Return the files that are left when the power goes after these steps."""
    files: list[_File] = []
    names: dict[str, int] = {}  # as the program sees them
    on_disk: dict[str, int] = {}
    since: list[dict[str, int]] = []  # the names after each change that was not synced
    for step in steps:
        if step.kind == "create":
            files.append(_File())
            names = {**names, step.name: len(files) - 1}
            since.append(names)
        elif step.kind == "unlink":
            names = {name: number for name, number in names.items() if name != step.name}
            since.append(names)
        elif step.kind == "rename":
            names = {name: number for name, number in names.items() if name != step.name} | {step.to: names[step.name]}
            since.append(names)
        elif step.kind == "sync names":
            on_disk, since = names, []
        elif step.kind == "sync":
            file = files[names[step.name]]
            file.synced, file.since = _all_of(file), []
        elif step.kind in ("write", "truncate"):
            files[names[step.name]].since.append(step)
    there = choose.choice([on_disk, *since])
    return {name: files[number].left(choose) for name, number in there.items()}


def _all_of(file: _File) -> bytes:
    content = bytearray(file.synced)
    for step in file.since:
        if step.kind == "truncate":
            _resize(content, step.offset)
        else:
            _put(content, step.offset, step.data)
    return bytes(content)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        _resize(content, offset)
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


def measure(*, cuts: int = CUTS, seed: int = 4, stories: tuple[str, ...] = ("ledger", "journal")) -> dict[str, float]:
    """Return over all cuts how many charges or reports were lost or doubled, and how many cuts were made."""
    found: dict[str, float] = {"cuts": 0.0, "lost": 0.0, "doubled": 0.0, "broken": 0.0}
    for story in stories:
        with tempfile.TemporaryDirectory(prefix="sidelight-power-") as place:
            folder = Path(place) / "disk"
            folder.mkdir()
            for name, count in cut(recorded(folder, story), story, Path(place), cuts, seed).items():
                found[name] += count
    return found


def cut(steps: list[Step], story: str, place: Path, cuts: int, seed: int) -> dict[str, float]:
    from benchmarks.power_loss_stories import CHECKS

    found = {"cuts": float(cuts), "lost": 0.0, "doubled": 0.0, "broken": 0.0}
    for number in range(cuts):
        choose = random.Random(f"{seed}/{story}/{number}")
        at = 1 + number * len(steps) // cuts
        left = after_power_loss(steps[:at], choose)
        marks = [step.name for step in steps[:at] if step.kind == "mark"]
        folder = place / f"cut {number}"
        folder.mkdir(mode=0o700)
        for name, content in left.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
        for name, count in CHECKS[story](folder, marks).items():
            found[name] += count
        shutil.rmtree(folder)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(cuts=int(sys.argv[1]) if len(sys.argv) > 1 else CUTS)))
