"""Nothing of a parent process is ended by a child that was forked from it, and nobody writes a finalizer that would."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

import sidelight
from sidelight.fork_guard import finalize_here, is_inherited, temporary_folder

SOURCE = Path(sidelight.__file__).parent
#: What acts at the end of an object or of Python, and therefore in every forked child as well.
ENDINGS = {"weakref.finalize", "atexit.register", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile"}
#: Those that may be written, and why a child does no harm by them.
ALLOWED = {
    ("fork_guard.py", "weakref.finalize"): "the one that asks whose thing it is",
    ("ledger/connections.py", "__del__"): "asks for the process, and keeps what is not its own (`may_close`)",
    ("ledger/store.py", "weakref.finalize"): "`leave` asks for the process: a child may have an engine of its own",
}


def endings(text: str) -> set[str]:
    """Return what the text of a module has of `ENDINGS`, and `__del__`, however it was imported."""
    found, names = set(), {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            names |= {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.FunctionDef) and node.name == "__del__":
            found.add(node.name)
        if isinstance(node, ast.Attribute | ast.Name):
            first, _, rest = ast.unparse(node).partition(".")
            whole = ".".join(filter(None, [names.get(first, first), rest]))
            found |= {each for each in ENDINGS if whole == each or whole == f"tempfile.{each}"}
    return found


def test_every_finalizer_asks_whose_thing_it_is() -> None:
    words = ("finalize", "atexit", "__del__", "Temporary")  # most files have none, and need not be parsed
    found = {
        (path.relative_to(SOURCE).as_posix(), each)
        for path in sorted(SOURCE.rglob("*.py"))
        if any(word in (text := path.read_text(encoding="utf-8")) for word in words)
        for each in endings(text)
    }
    assert found == ALLOWED.keys(), "use sidelight.fork_guard, or say why a forked child does no harm"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import weakref\nweakref.finalize(a, b)", {"weakref.finalize"}),
        ("import weakref as w\nw.finalize(a, b)", {"weakref.finalize"}),
        ("from weakref import finalize as end\nend(a, b)", {"weakref.finalize"}),
        ("import atexit\n@atexit.register\ndef f(): pass", {"atexit.register"}),
        ("from tempfile import TemporaryDirectory\nTemporaryDirectory()", {"TemporaryDirectory"}),
        ("import tempfile\ntempfile.NamedTemporaryFile()", {"NamedTemporaryFile"}),
        ("class A:\n    def __del__(self): pass", {"__del__"}),
        ("import weakref\nweakref.ref(a)\nfinalize(b)", set()),
    ],
)
def test_the_walk_finds_what_it_should(text: str, found: set[str]) -> None:
    assert endings(text) == found


class Spoken:
    """Says so in a file when it is ended, by whomever."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def end(self) -> None:
        with self.file.open("a") as told:
            told.write("ended\n")

    def __del__(self) -> None:
        with self.file.open("a") as told:
            told.write("freed\n")


class Owner:
    """What a user holds."""


def test_a_thing_is_ended_once_with_its_owner(tmp_path: Path) -> None:
    owner, thing = Owner(), Spoken(tmp_path / "told")
    finalize_here(owner, Spoken.end, thing)
    gone = weakref.ref(thing)
    assert not is_inherited(thing)
    del owner, thing
    gc.collect()
    assert gone() is None
    assert (tmp_path / "told").read_text() == "ended\nfreed\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("guarded", [True, False])
def test_a_child_neither_ends_nor_frees_what_is_its_parents(tmp_path: Path, *, guarded: bool) -> None:
    """With `weakref.finalize` in its place the child does both: by dropping the owner, or at its end."""
    story = f"""if True:
        import gc, os, sys, weakref
        from pathlib import Path
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_fork_guard import Owner, Spoken, finalize_here, temporary_folder
        held = [Owner(), Owner()]
        for owner, name in zip(held, ("dropped", "kept")):
            thing = Spoken(Path({str(tmp_path)!r}, name))
            (finalize_here if {guarded} else weakref.finalize)(owner, Spoken.end, thing)
        del owner, thing
        with temporary_folder() as folder:
            child = os.fork()
            if child == 0:
                del held[0]
                gc.collect()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert os.path.isdir(folder)
        assert not os.path.isdir(folder)
        print([Path({str(tmp_path)!r}, name).exists() for name in ("dropped", "kept")])
    """
    done = subprocess.run([sys.executable, "-c", story], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == str([not guarded, not guarded]), done.stderr[-2000:]
    assert (tmp_path / "kept").read_text().startswith("ended")  # by the parent, at its end


def test_a_folder_goes_with_its_block() -> None:
    with pytest.raises(KeyError), temporary_folder() as folder:
        raise KeyError
    assert not os.path.isdir(folder)
