"""The commands and their options; implementations are imported on use, so that `--help` is fast."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer

from sidelight.cli import COMPLETION
from sidelight.cli.answers import STANDARD_OUTPUT, answered
from sidelight.cli.answers import Place as JsonPlace
from sidelight.cli.failures import Commands
from sidelight.cli.ledger_commands import ledger_app
from sidelight.cli.server_commands import server_app
from sidelight.errors import RangeError
from sidelight.version import VERSION

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a pretty traceback prints local variables, and those may be records
    rich_markup_mode=None,
    help="Differentially private statistics that get more accurate from what is already known.",
    epilog="Status: 0 fine; 1 refused (no budget, failed verification); 2 a mistake in the request; 3 a defect.",
)
app.add_typer(ledger_app, name="ledger")
token_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Tokens of analysts, or of an experts service's clients."
)
app.add_typer(token_app, name="token")
app.add_typer(server_app, name="server")

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file.")]
Label = Annotated[str, typer.Option(help="Names this run, e.g. the day of a daily series.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Where the HTML report goes.")]
ServicePlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The service's file: survey.toml, experts.toml.")]
Shell = Literal["bash", "zsh", "fish", "powershell"]
Areas = Annotated[Path | None, typer.Option(help="CSV with `area` and the leaves: sums of a hierarchy, at no cost.")]


def _version(value: bool) -> None:  # noqa: FBT001 - the parser calls it
    if value:
        typer.echo(f"sidelight {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    *,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error was raised.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Differentially private statistics that get more accurate from what is already known."""
    del traceback, version  # read by `Commands` and by `_version`


@app.command()
@answered("demo", "sidelight.cli.demo:demo")
def demo(
    *,
    output: Output = Path("report.html"),
    draws: Annotated[int, typer.Option(min=2, help="How often the noise is drawn for each case.")] = 80,
) -> None:
    """Release quantiles with and without side information; show the gain and write a report."""


@app.command()
@answered("init", "sidelight.cli.init_database:write_first_plan")
def init(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The file: CSV or Parquet. Its header is read.")],
    *,
    person: Annotated[str | None, typer.Option(help="The column with the person's id.")] = None,
    max_rows: Annotated[int | None, typer.Option(min=1, help="How many rows of a person count; default 5.")] = None,
    number: Annotated[list[str] | None, typer.Option(help="A column of numbers: age:0:110, or age:0:110:1.")] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(help="Labels: sex:F,M; sex:F,M:1, one for a person; sex:F=female,M=male, with aliases."),
    ] = None,
    date: Annotated[list[str] | None, typer.Option(help="Dates: visit:2020-01-01:2025-12-31, or with :hour.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="A column of labels that cannot be listed.")] = None,
    decimal: Annotated[str | None, typer.Option(help="The decimal sign of the numbers: comma or point.")] = None,
    thousands: Annotated[str | None, typer.Option(help="The sign between thousands: . , ' or a space.")] = None,
    date_format: Annotated[list[str] | None, typer.Option(help="How dates are written: %d.%m.%Y, or iso.")] = None,
    missing_text: Annotated[list[str] | None, typer.Option(help='A text that means missing: "n/a".')] = None,
    casefold: Annotated[bool, typer.Option("--casefold", help="Ignore case in labels and ids.")] = False,
    strip: Annotated[bool, typer.Option("--strip", help="Ignore spaces around labels and ids.")] = False,
    metadata: Annotated[
        Path | None, typer.Option(help="Declarations from a file: CSVW, SmartNoise's YAML, Frictionless, Croissant.")
    ] = None,
    write_metadata: Annotated[
        Path | None, typer.Option(help="Write the declarations for other tools: .json, or .yaml for SmartNoise.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="The budget.")] = "3",
    delta: Annotated[str, typer.Option(help="Of the budget; 0 for none.")] = "1e-6",
    ledger: Annotated[str, typer.Option(help="The ledger that stores charges.")] = "budget.db",
    look: Annotated[bool, typer.Option("--look", help="Propose declarations from the rows, to be confirmed.")] = False,
    ask: Annotated[bool, typer.Option("--ask", help="Prompt for every column without an option.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the plan goes.")] = Path("plan.toml"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    force: Annotated[bool, typer.Option("--force", hidden=True)] = False,
) -> None:
    """Write a first plan for a file, from its header and what you declare."""


@app.command()
@answered("check", "sidelight.cli.running:check_plan")
def check(path: PlanFile) -> None:
    """Count how a plan's declarations fit the file, for the owner only. NOT PRIVATE."""


@app.command()
@answered("dummy", "sidelight.cli.dummies:write_dummy")
def dummy(
    path: PlanFile,
    *,
    rows: Annotated[int, typer.Option(min=1, help="How many rows.")] = 1000,
    missing: Annotated[float, typer.Option(help="The share of empty cells.")] = 0.02,
    hostile: Annotated[bool, typer.Option("--hostile", help="Include malformed cells.")] = False,
    plan: Annotated[
        Path | None, typer.Option(help="Also write a copy of the plan that reads these rows; it has its own ledger.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the rows go, as CSV.")] = Path("dummy.csv"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Write generated rows of the shape that a plan declares, to try it before the data is touched."""


@app.command()
@answered("plan")
def plan(
    plan_file: PlanFile,
    *,
    label: Label = "",
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Show the error of each query at an eighth to eight times its price.")
    ] = False,
) -> None:
    """Price a plan without opening the data."""
    from sidelight.cli.daily import is_daily

    if is_daily(plan_file):
        from sidelight.cli.daily import show_days

        show_days(plan_file)
        return
    if sweep:
        from sidelight.cli.accuracy import show_sweep

        show_sweep(plan_file)
        return
    from sidelight.cli.pricing import show_price

    show_price(plan_file, label=label)


@app.command()
@answered("accuracy", "sidelight.cli.accuracy:show_accuracy")
def accuracy(
    path: PlanFile,
    *,
    within: Annotated[float, typer.Option(help="The error that is allowed, in the unit that `plan` shows.")],
    query: Annotated[int, typer.Option(help="Which query of the plan, from 1.")] = 1,
    confidence: Annotated[float, typer.Option(help="With which probability the error is not larger.")] = 0.95,
) -> None:
    """Find the price that an accuracy needs, without opening the data."""


@app.command()
@answered("run", "sidelight.cli.running:run_plan")
def run(
    path: PlanFile,
    *,
    label: Label = "",
    resume: Annotated[bool, typer.Option("--resume", help="Pay again for charges of an abandoned run.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show every draw of noise with its price.")] = False,
    output: Output = Path("report.html"),
    json: JsonPlace = None,
) -> None:
    """Run a plan: charge, release, and write the report."""


@app.command()
@answered("audit", "sidelight.cli.auditing:audit_plan")
def audit(
    path: PlanFile,
    *,
    long: Annotated[bool, typer.Option("--long", help="Half an hour instead of two minutes.")] = False,
    seconds: Annotated[float | None, typer.Option(min=1, help="About how long, for all queries together.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("audit.html"),
) -> None:
    """Attack the claims of a plan on generated data. Opens and charges nothing; an interrupted audit resumes."""


@app.command()
@answered("sql")
def sql(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan; its [[query]] tables are not run.")],
    statement: Annotated[str, typer.Argument(metavar="SELECT", help="The statement, in quotes.")],
    *,
    epsilon: Annotated[str | None, typer.Option(help="The price, e.g. 0.5; or with --delta.")] = None,
    delta: Annotated[str | None, typer.Option(help="Of the price: Gaussian noise.")] = None,
    rho: Annotated[str | None, typer.Option(help="The price in zCDP.")] = None,
    mu: Annotated[str | None, typer.Option(help="The price in Gaussian differential privacy.")] = None,
    max_groups: Annotated[int | None, typer.Option(min=1, help="The largest number of groups of a person.")] = None,
    max_rows_per_group: Annotated[int | None, typer.Option(min=1, help="How many rows of a person in each.")] = None,
    max_rows: Annotated[int | None, typer.Option(min=1, help="How many pairs of a person, of a JOIN.")] = None,
    dialect: Annotated[str | None, typer.Option(help="The SQL dialect: postgresql, bigquery, tsql, ...")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show queries and price; charge nothing.")] = False,
    label: Label = "",
    resume: Annotated[bool, typer.Option("--resume", help="Pay again for charges of an abandoned run.")] = False,
    output: Output = Path("answer.html"),
    json: JsonPlace = None,
) -> None:
    """Run a SELECT on a plan's source, from the plan's budget: translate, price, charge, release."""
    from sidelight.cli.running import run_statement

    limits = {"max_groups": max_groups, "max_rows_per_group": max_rows_per_group, "max_rows": max_rows}
    price = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu, "dialect": dialect}
    given = {name: value for name, value in (price | limits).items() if value is not None}
    run_statement(plan_file, statement, given, dry_run=dry_run, label=label, resume=resume, output=output, json=json)


@app.command()
@answered("today", "sidelight.cli.daily:release_today")
def today(
    path: PlanFile,
    *,
    day: Annotated[str, typer.Option(help="The day that is released, e.g. 2026-11-15.")],
    features: Annotated[str, typer.Option(help="Its public features, comma-separated numbers.")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Pay again for charges of an abandoned run.")] = False,
    output: Output = Path("report.html"),
) -> None:
    """Release one day of a plan with a [sequence] table, predicted from the days before."""


@app.command()
@answered("disclose", "sidelight.cli.disclosing:write_disclosure")
def disclose(
    path: PlanFile,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the record goes; by default the registry's file name.")
    ] = None,
    page: Annotated[Path, typer.Option(help="Where the HTML page goes.")] = Path("disclosure.html"),
) -> None:
    """Write the deployment record of what a plan released, for the public registry, and a page of it."""


@app.command()
@answered("report", "sidelight.cli.stored:write_stored")
def report(
    releases: Annotated[Path, typer.Argument(help="JSON of releases, or of `sidelight run --json`.")],
    *,
    output: Output = Path("report.html"),
    title: Annotated[str, typer.Option(help="The heading, if the file has none.")] = "Private releases",
    areas: Areas = None,
) -> None:
    """Make the HTML report from stored releases."""


@app.command()
@answered("table", "sidelight.cli.stored:write_table")
def table(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="JSON of `sidelight run --json`.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table, by its ending: .csv or .parquet.")] = Path(
        "synthetic.csv"
    ),
    rows: Annotated[int | None, typer.Option(min=1, help="How many rows; by default the released number.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives other rows of the same release.")] = 0,
    within: Annotated[str, typer.Option(help="Numbers inside their bins: smooth, uniform, or middle.")] = "smooth",
    title: Annotated[str | None, typer.Option(help="Which table, if the file has several.")] = None,
    areas: Areas = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Write synthetic rows of a stored release, or its table by group. Nothing is charged, no data is opened."""


@app.command()
@answered("privacy-page", "sidelight.cli.stored:write_privacy_page")
def privacy_page(
    report: Annotated[Path, typer.Argument(metavar="REPORT", help="A published privacy report, a JSON file.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("privacy-page.html"),
) -> None:
    """Write the page that shows persons what a release revealed about them."""


@app.command()
def serve(plan_file: ServicePlanFile) -> None:
    """Serve analysts (a file with [[table]]) or rounds of experts (with [terms]) over HTTP."""
    from sidelight.cli.serve import serve_file

    serve_file(plan_file)


@app.command()
@answered("explain", "sidelight.cli.explain:explain")
def explain(term: Annotated[str | None, typer.Argument(metavar="TERM", help="A word, e.g. epsilon.")] = None) -> None:
    """Explain a term of the documentation; without one, list all terms."""


@app.command()
def schema(
    *,
    of: Annotated[str | None, typer.Option(help="A command, e.g. plan: the schema of what its --json writes.")] = None,
) -> None:
    """Print the JSON schema of plan files, for editors; or of what a command writes with --json."""
    import json

    from sidelight.cli.answer_schema import answer_schema
    from sidelight.cli.daily import sequence_table
    from sidelight.plans.plan import plan_schema

    found = plan_schema(sequence_table()) if of is None else answer_schema(of)
    typer.echo(json.dumps(found, indent=1, ensure_ascii=False))


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh, fish or powershell.")],
) -> None:
    """Print a script that completes commands and options: eval "$(sidelight completion bash)"."""
    shells = import_module("typer.completion")
    typer.echo(shells.get_completion_script(prog_name="sidelight", complete_var=COMPLETION, shell=shell))


@token_app.command()
@answered("token new")
def new(
    plan_file: ServicePlanFile,
    client: Annotated[str | None, typer.Argument(metavar="CLIENT", help="A client of the plan.")] = None,
    *,
    everybody: Annotated[bool, typer.Option("--all", help="Every client without a token.")] = False,
    tables: Annotated[list[str] | None, typer.Option("--table", help="Of an analyst: only this table.")] = None,
    actions: Annotated[str, typer.Option(help="Of an analyst: read, or read,ask.")] = "read,ask",
    days: Annotated[int, typer.Option(help="Of an analyst: how long it is valid.")] = 90,
    words: Annotated[str, typer.Option("--note", help="Of an analyst: a note for yourself.")] = "",
    json: JsonPlace = None,
) -> None:
    """Create and print a token; only its hash is stored. An earlier one of an experts client is revoked."""
    from sidelight.cli.serve import new_tokens

    if json not in (None, STANDARD_OUTPUT):
        raise RangeError("a token is a secret and is not written to a file; use --json -")
    new_tokens(
        plan_file, client=client, everybody=everybody, tables=tables or [], actions=actions, days=days, words=words
    )


@token_app.command()
@answered("token revoke", "sidelight.cli.serve:revoke_token")
def revoke(
    plan_file: ServicePlanFile, client: Annotated[str, typer.Argument(metavar="CLIENT", help="Whose token.")]
) -> None:
    """Revoke a client's token; running services refuse it at once."""


@token_app.command("list")
@answered("token list", "sidelight.cli.serve:list_tokens")
def list_clients(plan_file: ServicePlanFile) -> None:
    """List clients and the public part of their tokens."""
