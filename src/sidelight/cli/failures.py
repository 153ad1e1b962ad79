"""What a failed command says and with which status it ends, and how warnings are told."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from sidelight.errors import (
    BudgetError,
    FailedError,
    InProgressError,
    NoiseError,
    ReleaseFailedError,
    SidelightError,
    SidelightWarning,
)

#: Refused for budget, failed verification, or a release that did not come about.
REFUSED = 1
#: A mistake in what was asked.
MISTAKE = 2
#: A defect of sidelight.
DEFECT = 3

REFUSALS = (BudgetError, InProgressError, NoiseError, ReleaseFailedError)


class Commands(TyperGroup):
    """The commands, with errors told in one message instead of a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print what went wrong and end with its status.

        `--traceback` adds the places in the code. The error itself is never printed by Python, which would show the
        text of an unforeseen error, its notes and what it was raised from.
        """
        try:
            with warnings_told():
                return super().invoke(ctx)
        except SystemExit as stop:
            if stop.code is None or isinstance(stop.code, int):
                raise
            # Python prints whatever else an exit carries.
            raise typer.Exit(REFUSED) from None
        except Exception as error:
            if _of_the_parser(error):
                raise
            if ctx.params.get("traceback"):
                places = traceback.format_tb(error.__traceback__)
                typer.echo("".join(["Traceback (most recent call last):\n", *places]), err=True, nl=False)
            typer.secho("error: ", err=True, nl=False, fg=typer.colors.RED, bold=True)
            typer.echo(_message(error, options=ctx.invoked_subcommand == "sql"), err=True)
            raise typer.Exit(_status(error)) from None


@contextmanager
def warnings_told() -> Iterator[None]:
    """Print each warning of sidelight once, as a line on standard error, when it comes.

    Python's own form quotes lines of source code. Warnings of other libraries are for programmers, may quote what they
    read, and are not shown.
    """
    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        from sidelight.cli.words import in_plan_words

        text = in_plan_words(str(message))
        if issubclass(category, SidelightWarning) and text not in told:
            told.add(text)
            typer.secho("warning: ", err=True, nl=False, fg=typer.colors.YELLOW, bold=True)
            typer.echo(text, err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def _status(error: Exception) -> int:
    if isinstance(error, (FailedError, *REFUSALS)):
        return REFUSED
    return MISTAKE if isinstance(error, SidelightError) else DEFECT


def _message(error: Exception, *, options: bool) -> str:
    if isinstance(error, SidelightError):
        from sidelight.cli.words import in_plan_words

        return in_plan_words(str(error), options=options)
    # The text of an error that was not foreseen may quote anything, so only its kind is shown.
    return (
        f"sidelight met an error that it does not know ({type(error).__name__}). This is a defect: please report it. "
        "`sidelight --traceback ...` shows where it happened"
    )


def _of_the_parser(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in ("click", "typer")
