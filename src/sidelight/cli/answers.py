"""`--json`: the results of a command as JSON, by the schema that `sidelight schema --of COMMAND` prints.

Commands collect results while they print them. `--json FILE` writes them when the command ends, successfully
or not; `--json -` writes them to standard output and the text for people to standard error.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from sidelight.cli.failures import NO_OUTPUT, in_plan_words, is_refusal, output_fails, stop_paid
from sidelight.errors import FailedError, SidelightError, SourceError
from sidelight.readable import shown_text
from sidelight.registry import load
from sidelight.version import VERSION

#: The path that stands for standard output.
STANDARD_OUTPUT = Path("-")
Place = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the results as JSON; - for standard output."),
]
_noted: ContextVar[dict[str, Any] | None] = ContextVar("noted", default=None)
_printed: ContextVar[bool] = ContextVar("printed", default=False)
_later: ContextVar[list[Callable[[Path | None], None]] | None] = ContextVar("later", default=None)


def note(**facts: Any) -> None:
    """Add results that `--json` writes; without the option nothing happens."""
    notes = _noted.get()
    if notes is not None:
        notes.update(facts)


def note_report(text: str) -> None:
    """Add a report, as its JSON text, which `sidelight report` and `sidelight table` read."""
    if _noted.get() is not None:
        note(**json.loads(text))


def asked_for_json() -> bool:
    """Return whether the results are written as JSON when the command ends."""
    return _noted.get() is not None


def once_written(call: Callable[[Path | None], None]) -> None:
    """Call with the file that holds the JSON as soon as it is written; at once, with None, where none is asked for."""
    later = _later.get()
    if later is None:
        call(None)
    else:
        later.append(call)


def keep_paid(text: str) -> tuple[Path | None, str]:
    """Write JSON of paid results that no ledger stores to a new file of the temporary folder, or print it.

    Returns:
        The file, which only this user can read, or None; and a sentence that says where the results are.
    """
    name = None
    try:
        descriptor, name = tempfile.mkstemp(prefix="sidelight-", suffix=".json")
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
            file.write(text)
    except OSError:
        if name is not None:
            Path(name).unlink(missing_ok=True)
    else:
        return Path(name), f"No ledger stores what was paid, so it was written to {name!r}, as JSON: keep that file"
    with suppress(OSError, ValueError, AttributeError):  # full, closed, or none
        _print_json(text)
        return None, "No ledger stores what was paid, so it was printed on standard output, as JSON: keep it"
    output_fails()
    return None, "No ledger stores what was paid, and no file could be written: its JSON is lost"


def prints_json() -> bool:
    """Return whether JSON goes to standard output, and text for people to standard error."""
    return _printed.get()


def print_cells(*cells: str) -> None:
    """Print a line of cells for people, and nothing where JSON has them: secrets are printed once."""
    if not prints_json():
        typer.echo("\t".join(map(shown_text, cells)))


def answered(name: str, target: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the option `--json` to a command.

    Args:
        name: The command, such as "ledger show".
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
    later: list[Callable[[Path | None], None]] = []
    before: BaseException | None = None
    with _set(_noted, notes), _set(_printed, place == STANDARD_OUTPUT), _set(_later, later):
        try:
            yield
        except BaseException as raised:
            before = raised
            raise
        finally:
            if before is None or notes or is_refusal(before):  # a usage mistake writes no file
                error = None if before is None else _error_text(before)
                answer = {"command": name, "version": VERSION, "ok": error is None, "error": error} | notes
                _write_or_keep(place, answer, later, before=before)


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _write_or_keep(
    place: Path, answer: dict[str, Any], later: list[Callable[[Path | None], None]], *, before: BaseException | None
) -> None:
    """Write an answer; where that fails after a charge, keep what was paid, and say where."""
    held, failed, said = None if place == STANDARD_OUTPUT else place, None, ""
    try:
        _write(place, answer)
    except (OSError, SidelightError) as error:
        paid, failed = "items" in answer, error
        if before is None and not paid:
            raise
        reason = error if isinstance(error, SidelightError) else f"{str(place)!r} cannot be written"
        said, held = f"{reason}. There is no such JSON{', and the charges stand' if paid else ''}", None
        if paid and answer["account"]["place"] is None:
            held, where = keep_paid(_text(answer))
            said += f". {where}"
        elif paid:
            said += ": the ledger holds what was paid, and the same command returns it at no cost"
    try:
        for each in later:
            each(held)
    finally:  # where standard output fails as well, both are said
        if failed is not None:
            stop_paid(said, failed, before=before)


def _check_place(name: str, place: Path, others: Iterable[Path]) -> None:
    """Refuse a path that the command also reads or writes, and a file that this command did not write."""
    from sidelight.report import check_writable

    if place == STANDARD_OUTPUT:
        return
    # `sidelight init .` describes the files of tables in a folder; one of another kind may lie there, too
    read = [other for other in others if not (other.is_dir() and place.suffix.lower() == ".json")]
    check_writable(place, inputs=[*read, *(each for other in read for each in _sources_in(other))])
    try:
        text = place.read_bytes()
    except OSError:  # there is no such file
        return
    try:
        found = json.loads(text) if text else {"command": name}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("command") != name:
        raise SourceError(
            f"{str(place)!r} exists and was not written by `sidelight {name}`, so it would be lost; "
            "name another file after --json"
        )


def _sources_in(file: Path) -> list[str]:
    """Return the sources of a plan or of a server's file; none of another file, or one that its command refuses."""
    from sidelight.plans.sources import with_days

    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    tables = found.get("table")
    each_table = tables.values() if isinstance(tables, dict) else tables if isinstance(tables, list) else []
    parts = [found, *each_table]
    places = [*parts, *(part.get("source") for part in parts if isinstance(part, dict))]
    paths = [place.get("path") for place in places if isinstance(place, dict)]
    folder = str(file.absolute().parent)
    return [each for path in paths if isinstance(path, str) for each in with_days(os.path.join(folder, path))]


def _error_text(error: BaseException) -> str:
    """Return the text of an error of sidelight, or the type of any other error."""
    return in_plan_words(str(error)) if isinstance(error, SidelightError) else type(error).__name__


def _text(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False, allow_nan=False, indent=1)


def _print_json(text: str) -> None:
    """Print JSON; where standard output has another encoding than UTF-8, in ASCII with escapes."""
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        text = json.dumps(json.loads(text), indent=1)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _write(place: Path, answer: Mapping[str, Any]) -> None:
    if place == STANDARD_OUTPUT:
        try:
            _print_json(_text(answer))
        except OSError as error:
            output_fails()  # discards what waits there
            raise FailedError(NO_OUTPUT) from error
        return
    from sidelight.report import write_text

    write_text(place, _text(answer))
