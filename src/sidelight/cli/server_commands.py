"""`sidelight server`: the commands for the operator of an analyst server."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from sidelight.cli.answers import answered

server_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Operate an analyst server.")

SurveyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The server's file, e.g. survey.toml.")]
ServedTableName = Annotated[str, typer.Argument(metavar="TABLE", help="A table of the file.")]
OneAccount = Annotated[str | None, typer.Option(help="Only this analyst or group.")]


@server_app.command("check")
@answered("server check", "sidelight.cli.analysts:check_survey")
def check_server(path: SurveyFile) -> None:
    """Read the file, open every source, verify the ledger, and print every guarantee."""


@server_app.command()
@answered("server calibrate")
def calibrate(
    path: SurveyFile,
    *,
    table: Annotated[str | None, typer.Option(help="Only this table.")] = None,
    runs: Annotated[int, typer.Option(min=1, max=1000, help="Runs of each query on each generated table.")] = 50,
) -> None:
    """Time every allowed kind on generated rows of the declared capacity, and propose durations and costs."""
    import_module("sidelight.cli.analysts").calibrate_survey(path, table=table, runs=runs)


@server_app.command()
@answered("server status", "sidelight.cli.analysts:show_status")
def status(path: SurveyFile) -> None:
    """List the balance of each account, and pauses."""


@server_app.command()
@answered("server pause")
def pause(path: SurveyFile, table: ServedTableName, *, analyst: OneAccount = None) -> None:
    """Stop charges to a table, or to one account of it."""
    import_module("sidelight.cli.analysts").set_pause(path, table=table, analyst=analyst, paused=True)


@server_app.command()
@answered("server resume")
def resume(
    path: SurveyFile,
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="A table of the file.")] = None,
    *,
    analyst: OneAccount = None,
    clock: Annotated[bool, typer.Option("--clock", help="Confirm a clock that was set forward by weeks.")] = False,
    head: Annotated[bool, typer.Option("--head", help="Make a missing head file: this ledger is the newest.")] = False,
) -> None:
    """End a pause; earlier failures no longer count. With --clock, accept the current time."""
    import_module("sidelight.cli.analysts").resume_service(path, table=table, analyst=analyst, clock=clock, head=head)
