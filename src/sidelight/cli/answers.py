"""`--json`: what a command found, as JSON by a schema that `sidelight schema --of COMMAND` prints.

Commands note what they find as they print it. `--json FILE` writes the notes when the command ends, whether it
went well or not; `--json -` writes them to standard output, and what people read goes to standard error.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from sidelight.cli.failures import REFUSALS, in_plan_words
from sidelight.errors import SidelightError, SourceError
from sidelight.registry import load
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


def answered(name: str, target: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the option `--json` to a command.

    Args:
        name: The command, as one writes it: "ledger show".
        target: "module:function" with the same parameters, which is loaded and called in place of the command.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        asked = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def run(*, json: Path | None = None, **options: Any) -> None:
            own = {"json": json} if "json" in asked.parameters else {}
            with _answering(name, json, others=[each for each in options.values() if isinstance(each, Path)]):
                (command if target is None else load(target))(**options, **own)

        added = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Place)
        parameters = [*({**asked.parameters, "json": added}).values()]
        run.__signature__ = asked.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


@contextmanager
def _answering(name: str, place: Path | None, *, others: Iterable[Path]) -> Iterator[None]:
    if place is None:
        yield
        return
    _check_place(name, place, others)
    notes: dict[str, Any] = {}
    tokens = _noted.set(notes), _printed.set(place == STANDARD_OUTPUT)
    error, refused = None, False
    try:
        yield
    except BaseException as raised:
        error, refused = _told(raised), isinstance(raised, REFUSALS)
        raise
    finally:
        _noted.reset(tokens[0])
        _printed.reset(tokens[1])
        if error is None or notes or refused:  # a mistake in what was asked leaves no file
            _write(place, {"command": name, "version": VERSION, "ok": error is None, "error": error} | notes)


def _check_place(name: str, place: Path, others: Iterable[Path]) -> None:
    """Refuse a place that the command reads or writes otherwise, and a file that no such command wrote."""
    from sidelight.report import check_writable

    if place == STANDARD_OUTPUT:
        return
    check_writable(place, inputs=others)
    try:
        text = place.read_bytes()
    except OSError:  # it is not there, which is what we want
        return
    try:
        found = json.loads(text) if text else {"command": name}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("command") != name:
        raise SourceError(
            f"{str(place)!r} is there and is no answer of `sidelight {name}`: it would be lost; name another file "
            "after --json"
        )


def _told(error: BaseException) -> str:
    """Return what may be said of an error: its text if it is one of ours, else its kind alone."""
    return in_plan_words(str(error)) if isinstance(error, SidelightError) else type(error).__name__


def _write(place: Path, answer: Mapping[str, Any]) -> None:
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, indent=1)
    if place == STANDARD_OUTPUT:
        sys.stdout.write(f"{text}\n")
        return
    from sidelight.report import write_text

    write_text(place, text)
