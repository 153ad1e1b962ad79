"""Errors and warnings at the command line: their text in terms of plans, and the exit status.

Queries raise errors with advice for Python. The command line rewrites
it: `sl.PersonId(..., max_rows=...)` becomes a `[[column]]` of a plan, and `max_groups=` an option.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import typer
from typer.core import TyperGroup

from sidelight.errors import (
    BudgetError,
    FailedError,
    InProgressError,
    NoiseError,
    SidelightError,
    SidelightWarning,
)

#: Refused for budget, failed verification, or a failed release.
REFUSED = 1
#: A mistake in the request.
MISTAKE = 2
#: A defect of sidelight.
DEFECT = 3

_REFUSALS = (BudgetError, InProgressError, NoiseError)


NO_OUTPUT = "standard output cannot be written (a full disk, a closed pipe)"
_ELSEWHERE = (
    ". What was released is in the report, and in the ledger if there is one: the same command returns it at no cost"
)
_released: ContextVar[bool] = ContextVar("released", default=False)


class Commands(TyperGroup):
    """The commands; errors are printed as one message instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print an error and exit with its status.

        `--traceback` adds the traceback. Python itself never prints the error, because it would show the text of an
        unexpected error, its notes and its cause.
        """
        _released.set(False)
        try:
            with shown_warnings():
                found = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return found
        except KeyboardInterrupt as stop:
            for note in getattr(stop, "__notes__", ()):
                typer.echo(note, err=True)
            raise
        except SystemExit as stop:
            if stop.code is None or isinstance(stop.code, int):
                raise
            # Python prints whatever else an exit carries.
            raise typer.Exit(REFUSED) from None
        except Exception as error:
            if _of_the_parser(error):
                raise
            if isinstance(error, OSError) and not isinstance(error, SidelightError) and output_fails():
                error = FailedError(NO_OUTPUT + (_ELSEWHERE if _released.get() else ". Nothing was released"))
            if ctx.params.get("traceback"):
                places = traceback.format_tb(error.__traceback__)
                typer.echo("".join(["Traceback (most recent call last):\n", *places]), err=True, nl=False)
            typer.secho("error: ", err=True, nl=False, fg=typer.colors.RED, bold=True)
            typer.echo(_message(error, options=ctx.invoked_subcommand == "sql"), err=True)
            raise typer.Exit(_status(error)) from None


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Print each warning of sidelight once, as a line on standard error.

    Python's own form quotes lines of source code. Warnings of other libraries are for programmers, may quote what they
    read, and are not shown.
    """
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = in_plan_words(str(message))
        if issubclass(category, SidelightWarning) and text not in shown:
            shown.add(text)
            typer.secho("warning: ", err=True, nl=False, fg=typer.colors.YELLOW, bold=True)
            typer.echo(text, err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def note_released() -> None:
    """Keep in mind that this command released something: from now on an output that fails must say where it is."""
    _released.set(True)


def stop_paid(said: str, error: BaseException, *, before: BaseException | None) -> None:
    """Raise that paid results could not be written; where another error comes first, print it, and that one stays."""
    if before is None:
        raise FailedError(said) from error
    with suppress(OSError):
        typer.echo(said, err=True)


def output_fails() -> bool:
    """Return whether standard output cannot be written (a full disk, a closed pipe); discard what waits there."""
    try:
        typer.echo()  # an empty line tells
    except OSError:
        with suppress(OSError), open(os.devnull, "w") as nowhere:  # or Python fails again when it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return True
    return False


def is_refusal(error: BaseException) -> bool:
    """Return whether an error refuses a correct request, or came after its charge."""
    return isinstance(error, _REFUSALS) or (isinstance(error, SidelightError) and error.charge_stands)


def _status(error: Exception) -> int:
    if is_refusal(error) or isinstance(error, FailedError):
        return REFUSED
    return MISTAKE if isinstance(error, SidelightError) else DEFECT


def _message(error: Exception, *, options: bool) -> str:
    if isinstance(error, SidelightError):
        stands = "" if not error.charge_stands or "stands" in str(error) else ". Its charge stands"
        return in_plan_words(str(error), options=options) + stands
    # The text of an unexpected error may quote anything, so only its type is shown.
    return (
        f"an unexpected error was raised ({type(error).__name__}). This is a defect: please report it. "
        "`sidelight --traceback ...` shows where it happened"
    )


def _of_the_parser(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("click", "typer")


# The library's advice in terms of plan files.

_COLUMNS = {"Number": "number", "Date": "date", "Category": "category", "Label": "label", "PersonId": "person"}
#: A call with brackets inside it up to one deep.
_CALL = r"\(((?:[^()]|\([^()]*\))*)\)"
_KEY = r"(?<![\w.])([a-z_]+)"


def in_plan_words(message: str, *, options: bool = False) -> str:
    """Return a message of the library in terms of a plan, or (`options`) of the command line.

    >>> in_plan_words("write max_groups=2, or declare sl.Category('sex', [...], per_person=1)")
    'write max_groups = 2, or declare a [[column]] of kind = "category", name = "sex", per_person = 1'
    >>> in_plan_words("write max_groups=..., a small number", options=True)
    'write --max-groups, a small number'
    """
    for pattern, words in _WORDS:
        message = re.sub(pattern, words, message)
    if options:
        return re.sub(r"\b(max_groups|max_rows_per_group)(?: = \.\.\.| = (\d+))?", _option, message)
    return message


def _option(found: re.Match[str]) -> str:
    name = "--" + found[1].replace("_", "-")
    return name if found[2] is None else f"{name} {found[2]}"


def _column(found: re.Match[str]) -> str:
    return _table("column", _COLUMNS[found[1]], found[2])


def _query(found: re.Match[str]) -> str:
    return _table("query", _snake(found[1]), found[2] or "")


def _table(table: str, kind: str, arguments: str) -> str:
    name = re.match(r"\s*['\"](\w+)['\"]", arguments)
    key = "name" if table == "column" else "column"
    keys = [f'{key} = "{name[1]}"'] if name else []
    keys += [f"{key} = {value}" for key, value in re.findall(_KEY + r"=(\[[^\]]*\]|[^,\s]+)", arguments)]
    return ", ".join([f'a [[{table}]] of kind = "{kind}"', *keys])


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"sl\.col\((['\"]?)([^'\"()]+)\1\)\.(cut|lookup)\(([^()]*)\)", r"\3(\2, \4)"),
    (r"sl\.col\((['\"]?)([^'\"()]+)\1\)", r"\2"),
    (r"(?<=\)) & (?=\()", " and "),
    (r"sl\.Fill\(([^()]*)\)", r"{fill = \1}"),
    (r"sl\.Drop\(\)", '"drop"'),
    (r"sl\.Predicted\(\.\.\., doubt=([\d.]+)\)", r"prediction = {..., doubt = \1}"),
    (r"sl\.priors\.(\w+)\(([^,()]+), ([^()]+)\)", lambda found: _prior(found)),
    (r"sl\.Table" + _CALL, "[[column]] tables in the plan"),
    (r"\bsl\.Table\b", "the plan's source"),
    (r"sl\.Release\.from_json", "release = in a plan"),
    (r"sl\.(Number|Date|Category|Label|PersonId)" + _CALL, _column),
    (r"sl\.(Number|Date|Category|Label|PersonId)\b", lambda found: f"a {_COLUMNS[found[1]]} [[column]]"),
    (r"sl\.([A-Z]\w*)" + _CALL, _query),
    (r"sl\.([A-Z]\w*)", lambda found: f'a [[query]] of kind = "{_snake(found[1])}"'),
    (_KEY + r"='([^']*)'", r'\1 = "\2"'),
    (_KEY + r"=True\b", r"\1 = true"),
    (_KEY + r"=False\b", r"\1 = false"),
    (_KEY + r"=(?=\.\.\.|[\d\[{\"])", r"\1 = "),
)


def _prior(found: re.Match[str]) -> str:
    numbers = (text.strip().replace("_", "") if text.strip()[0].isdigit() else "..." for text in (found[2], found[3]))
    location, scale = numbers
    return f'{{family = "{_snake(found[1])}", location = {location}, scale = {scale}}}'
