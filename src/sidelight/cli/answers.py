"""`--json`: what a command found, as JSON by a schema that `sidelight schema --of COMMAND` prints.

Commands note what they found beside what they tell. `--json FILE` writes the notes when the command ends, whether it
went well or not; `--json -` writes them to standard output, and what people read goes to standard error.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from sidelight.errors import SidelightError, SourceError
from sidelight.version import VERSION

#: Standard output, as the place of JSON.
STANDARD_OUTPUT = Path("-")
Place = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write what was found as JSON; - for standard output."),
]
_noted: ContextVar[dict[str, Any] | None] = ContextVar("noted", default=None)
_printed: ContextVar[bool] = ContextVar("printed", default=False)


def note(**facts: Any) -> None:
    """Add to what `--json` writes; nothing happens without it."""
    notes = _noted.get()
    if notes is not None:
        notes.update(facts)


def note_report(text: str) -> None:
    """Add a report, as its JSON text, which `sidelight report` and `sidelight table` read."""
    if _noted.get() is not None:
        note(**json.loads(text))


def prints_json() -> bool:
    """Return whether standard output is taken by JSON, so that people read standard error."""
    return _printed.get()


def answered(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the option `--json` to a command.

    Args:
        name: The command, as one writes it: "ledger show".
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        asked = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def run(*args: Any, json: Path | None = None, **options: Any) -> None:
            own = {"json": json} if "json" in asked.parameters else {}
            with _answering(name, json):
                command(*args, **options, **own)

        added = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Place)
        parameters = [*({**asked.parameters, "json": added}).values()]
        run.__signature__ = asked.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


@contextmanager
def _answering(name: str, place: Path | None) -> Iterator[None]:
    if place is None:
        yield
        return
    _check_place(place)
    notes: dict[str, Any] = {}
    tokens = _noted.set(notes), _printed.set(place == STANDARD_OUTPUT)
    error = None
    try:
        yield
    except BaseException as raised:
        error = _told(raised)
        raise
    finally:
        _noted.reset(tokens[0])
        _printed.reset(tokens[1])
        if error is None or notes:  # a mistake in what was asked leaves no file
            _write(place, {"command": name, "version": VERSION, "ok": error is None, "error": error} | notes)


def _check_place(place: Path) -> None:
    from sidelight.report import check_writable

    if place == STANDARD_OUTPUT:
        return
    check_writable(place)
    try:
        with place.open("rb") as there:
            begins = there.read(1)
    except OSError:  # it is not there, which is what we want
        return
    if begins not in (b"", b"{", b"["):
        raise SourceError(f"{str(place)!r} is there and is no JSON: it would be lost; name another file after --json")


def _told(error: BaseException) -> str:
    """Return what may be said of an error: its text if it is one of ours, else its kind alone."""
    if not isinstance(error, SidelightError):
        return type(error).__name__
    from sidelight.cli.words import in_plan_words

    return in_plan_words(str(error))


def _write(place: Path, answer: Mapping[str, Any]) -> None:
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, indent=1)
    if place == STANDARD_OUTPUT:
        sys.stdout.write(f"{text}\n")
        return
    from sidelight.report import write_text

    write_text(place, text)
