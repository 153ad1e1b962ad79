"""`sidelight run`: charge, release, report; earlier answers are returned at no cost.

`sidelight check`: how the declarations of a plan fit the file, for its owner only. The file next to the plan contains
the digest of the public declarations, and none of the counts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sidelight.accounting import Spent, Totals, find_shortfall
from sidelight.accuracy.expected import with_expected
from sidelight.cli.answers import STANDARD_OUTPUT, asked_for_json, keep_paid, note, note_report, once_written
from sidelight.cli.failures import is_refusal, note_released, stop_paid
from sidelight.cli.pricing import Quote, quote, show_quote
from sidelight.cli.terminal import console, plain, routes_of, show_spending, table, tell, today
from sidelight.errors import BudgetError, FailedError, InProgressError, PlanError, SidelightError
from sidelight.guarantees import Claims, short_text
from sidelight.ledger import Ledger, open_ledger
from sidelight.ledger.place import parse_place
from sidelight.plans import Plan, read_plan
from sidelight.plans.toml_text import toml_lines
from sidelight.progress import progress
from sidelight.readable import percent, shown_text
from sidelight.records import Database, PairedView, Table, View
from sidelight.registry import card_of
from sidelight.release import Outcome, Release
from sidelight.report import Account, Item, Report, Use, check_writable, write_report
from sidelight.report.words import reading, unit_word
from sidelight.session import Session

if TYPE_CHECKING:
    from sidelight.records.nonprivate_check import NonPrivateCheck
    from sidelight.records.reading_proposals import ReadingProposal


def run_plan(path: Path, **options: Any) -> None:
    """Run a plan and write its report; checks run before anything is charged."""
    _run(read_plan(path), path, **options)


def run_statement(
    path: Path, statement: str, given: Mapping[str, Any], *, dry_run: bool, label: str, **options: Any
) -> None:
    """Run a SELECT on a plan's source: show its translation and price, then run it as a plan with one query."""
    from sidelight.summaries.sql_query import SQL, PreparedSQL

    plan = read_plan(path, ask=SQL(statement, **given))
    prepared = cast(PreparedSQL, plan.queries[0].fitted)
    if plan.queries[0].of is None:
        prepared.check_name(plan.name)  # before showing a statement that cannot run
    tell(prepared.translation)
    note(translation=str(prepared.translation))
    if dry_run:
        show_quote(plan, label=label)
        return
    tell("")
    _run(plan, path, label=label, **options)


def _run(
    plan: Plan, path: Path, *, label: str, resume: bool, output: Path, json: Path | None, explain: bool = False
) -> None:
    _check_request(plan, label=label, resume=resume, json_output=json)
    for place in (output, *([json] if json not in (None, STANDARD_OUTPUT) else [])):
        check_writable(place, inputs=inputs_of(path, plan.files, plan.ledger))
    data = plan.data.open()
    priced = quote(plan, label=label, resume=resume)
    _check_price(priced)
    for each in [data] if isinstance(data, Table) else [data[name] for name in data.linked.private()]:
        each.check_records()
    if priced.before == Totals.zero():
        remind(path, plan)
    with ExitStack() as stack:
        ledger = None if plan.ledger is None else stack.enter_context(open_ledger(plan.ledger))
        session = Session(
            data,
            budget=plan.budget,
            ledger=ledger,
            scope=plan.scope,
            routes=plan.routes,
            strict=plan.strict,
            one_run=True,
            window_budget=plan.window_budget,
            parent=plan.parent,
        )
        items: list[Item] = []
        try:
            _release(plan, data, session, items, label=label if ledger is not None else None, resume=resume)
        except SidelightError as error:
            if not items or is_refusal(error) or isinstance(error, FailedError):
                raise
            raise FailedError(f"{error}. The charges of what was released before it stand") from error
        finally:  # paid results are shown even if a later query failed
            if items:
                write_outcomes(plan, session, ledger, items, output=output, explain=explain)
    _tell(priced, items, output=output, json_output=json, stored_by_ledger=plan.ledger is not None)


def inputs_of(plan_file: Path, sources: Sequence[str], ledger: str | None) -> list[Path | str | None]:
    """Return the source and ledger files of a plan, which no output may replace."""
    return [plan_file, *sources, None if ledger is None else parse_place(ledger).path]


def _check_request(plan: Plan, *, label: str, resume: bool, json_output: Path | None) -> None:
    if plan.ledger is None and (label or resume):
        option = "--resume" if resume else "--label"
        raise PlanError(f"{option} needs a ledger, which stores earlier runs; add a [ledger] table to the plan")
    if (
        plan.ledger is None
        and json_output is None
        and any(_is_synthetic(each.prepared.request) for each in plan.queries)
    ):
        raise PlanError(
            "the plan releases a synthetic table that would not be stored: the report shows only parts of it; write "
            "`--json releases.json`, or add a [ledger] table to the plan. Nothing was spent"
        )


def _check_price(priced: Quote) -> None:
    if priced.refused:
        first = priced.refused[0]
        short = first.short or (priced.rule, first.before, first.charge)
        requested, remaining, difference = find_shortfall(*short)
        raise BudgetError(
            f"{first.title!r} does not fit {first.refused_by} after earlier charges: requested {requested}, "
            f"remaining {remaining}, short of {difference}. Nothing of the plan was run and nothing was spent"
            f"{priced.advice}",
            requested=requested,
            remaining=remaining,
            difference=difference,
        )
    unfinished = [line.title for line in priced.lines if line.status == "unfinished"]
    if unfinished:
        raise InProgressError(
            f"{unfinished[0]!r} was started and has no outcome: another process is running it, or died. If it died, "
            "`sidelight run --resume` abandons that attempt (its charge stays) and pays for a new one"
        )


def _release(
    plan: Plan, data: Table | Database, session: Session, items: list[Item], *, label: str | None, resume: bool
) -> None:
    def rows(view: View | PairedView | None) -> View | PairedView | None:
        """Return a view of the plan as one of the open tables."""
        return None if view is None or isinstance(data, Table) else replace(view, tables=data.linked)

    def key(position: int) -> str | None:
        return None if label is None else plan.key(position, label=label)

    with progress(total=len(plan.queries)) as step:
        if plan.together_at is not None:
            step(f"{len(plan.queries)} queries together")
            queries = [each.query for each in plan.queries]
            of = rows(plan.queries[0].of)
            outcomes = session.release_together(queries, delta=plan.together_at, of=of, key=key(0), resume=resume)
            titles = [each.title for each in plan.queries]
            shown = [
                with_expected(each, asked.asked, asked.fitted, asked.schema)
                for each, asked in zip(outcomes, plan.queries, strict=True)
            ]
            items += [Item(title=title, outcome=each) for title, each in zip(titles, shown, strict=True)]
            return
        for position, each in enumerate(plan.queries):
            step(each.title)
            outcome: Outcome = session.release(each.query, of=rows(each.of), key=key(position), resume=resume)
            items.append(Item(title=each.title, outcome=with_expected(outcome, each.asked, each.fitted, each.schema)))
            step()


def write_outcomes(
    plan: Any, session: Any, ledger: Ledger | None, items: Sequence[Item], *, output: Path, explain: bool = False
) -> None:
    """Print a plan's releases, by a session or a sequence, and write their report, with the state of its budget."""
    before = sys.exc_info()[1]  # of a later query
    note_released()
    above = ""
    try:
        for item in items:
            tell(shown_text(item.title), style="bold")
            tell(f"{_in_words(item.outcome)}\n")
            if explain:
                show_spending(item.outcome.spending)
        above = "printed above, "
    finally:
        report = _report(plan, session, ledger, items)
        note_report(report.to_json())
        try:
            write_report(report, output)
            note(output=str(output))
        except (OSError, SidelightError) as error:
            reason = error if isinstance(error, SidelightError) else f"{str(output)!r} cannot be written"
            said = (
                f"{reason}. There is no report, and the charges stand: what was paid is {above}in the JSON if "
                "it was asked for, and in the ledger if there is one: the same command returns it at no cost"
            )
            if ledger is None and not asked_for_json():
                said += f". {keep_paid(report.to_json())[1]}"
            stop_paid(said, error, before=before)


def _report(plan: Any, session: Any, ledger: Ledger | None, items: Sequence[Item]) -> Report:
    epsilon, delta = reading(Claims.of(plan.budget))
    spent: Spent = session.spent
    uses = [
        Use(
            route=name if route.open else f"{name}, closed",
            fraction=min(route.fraction, 1.0),
            text=f"{short_text(route.total)} of {short_text(route.capacity)} ({percent(route.fraction, decimals=1)})",
        )
        for name, route in routes_of(spent)
    ]
    place = None
    if ledger is not None:  # without the folders of this machine: a report may be published
        place = ledger.place.shown if ledger.place.path is None else ledger.place.path.name
    account = Account(
        statement=session.statement(),
        uses=tuple(uses),
        remaining=str(session.remaining).removeprefix("left: "),
        surely=None if spent.surely is None else str(spent.surely),
        place=place,
        scope=plan.scope if place else None,
        head=None if ledger is None else ledger.head(),
        epsilon=float(epsilon),
        delta=float(delta),
        unit=unit_word(plan.budget.unit),
        kept=plan.budget.kept,
    )
    return Report(title=plan.title, day=today(), items=tuple(items), account=account)


def _tell(priced: Quote, items: list[Item], *, output: Path, json_output: Path | None, stored_by_ledger: bool) -> None:
    stored = sum(line.status == "stored" for line in priced.lines)
    if stored:
        tell(
            f"{stored} of {len(priced.lines)} charges were paid in an earlier run: the stored answers were returned "
            "at no cost. A new answer for a new period needs a new --label."
        )

    def tell_places(held: Path | None) -> None:
        shown = json_output if json_output == STANDARD_OUTPUT else held
        tell(f"Report: {output}" + (f"   JSON: {shown}" if shown else ""))
        if any(_is_synthetic(item.outcome.query) for item in items):
            from sidelight.cli.stored import how_to_write

            tell(how_to_write(held, stored=stored_by_ledger))

    once_written(tell_places)


def _is_synthetic(request: Mapping[str, Any]) -> bool:
    return card_of(request["kind"]) == "synthetic"


def _in_words(outcome: Outcome) -> str:
    """Return an outcome as the terminal shows it: a summary of a synthetic table, the curves of an additive model."""
    if isinstance(outcome, Release) and outcome.kind == "additive_model":
        from sidelight.report.values import additive_card

        card = additive_card(outcome) or {"columns": (), "others": ()}
        curves = [*(f"{name}: {words}" for name, _, words in card["columns"]), *card["others"]]
        head, found, rest = str(outcome).partition("\n  curves: ")
        size, _, rest = rest.partition("\n")
        return "\n    ".join([head + found + size, *map(shown_text, curves)]) + f"\n{rest}"
    if not isinstance(outcome, Release) or not _is_synthetic(outcome.query):
        return str(outcome)
    from sidelight.cli.stored import summary_of

    return summary_of(outcome)


_TITLE = "NOT PRIVATE, for the owner of the data only: exact counts of private rows, not to be published"


def check_plan(path: Path) -> None:
    """Count how the declarations of a plan fit its rows, print the counts, and store that the check was made."""
    from sidelight.records.nonprivate_check import nonprivate_check  # the engines that it reads by

    plan = read_plan(path)
    data = plan.data.open()
    tell(_TITLE, style="bold")
    if isinstance(data, Database):
        _check_database(data)
    else:
        found = nonprivate_check(data)
        _show(found)
        note(private=False, **_noted(found))
    kept = _note(path)
    check_writable(kept, inputs=[path, *plan.files])
    kept.write_text(plan.data.digest() + "\n", encoding="utf-8")


def _check_database(data: Database) -> None:
    """Count the cells of each private table, and the owners of its rows."""
    from sidelight.aggregates.nonprivate_ties import nonprivate_ties
    from sidelight.records.nonprivate_check import nonprivate_check

    tables = []
    for ties in nonprivate_ties(data):
        tell(f"\n{ties.table}", style="bold")
        found = replace(nonprivate_check(data[ties.table]), persons=ties.persons, beyond_cap=0)
        _show(found, more=ties.problems)
        if ties.elsewhere:
            tell(f"{ties.elsewhere} people have rows in other tables and none here")
        counts = {name: getattr(ties, name) for name in _TIED}
        references = [asdict(each) for each in ties.references]
        noted = _noted(found) | {"problems": [*found.problems, *ties.problems], "beyond_cap": ties.beyond_cap}
        tables.append(noted | {"table": ties.table, **counts, "references": references})
    note(private=False, tables=tables)


def _noted(found: NonPrivateCheck) -> dict[str, Any]:
    """Return the counts of a table as JSON values."""
    return {
        "rows": found.rows,
        "persons": found.persons,
        "beyond_cap": found.beyond_cap,
        "broken_lines": found.broken_lines,
        "rows_by_pandas": found.rows_by_pandas,
        "columns": [{name: getattr(column, name) for name in _NOTED} for column in found.columns],
        "problems": list(found.problems),
        "proposals": [
            {"column": each.column, "reads": each.reads, "declare": _declared(each)} for each in found.proposals
        ],
    }


def remind(path: Path, plan: Plan) -> None:
    """Recommend `sidelight check` before a first run, unless it was made for these declarations."""
    try:
        checked = _note(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        checked = ""
    if checked != plan.data.digest():
        tell(
            f"not checked yet: `sidelight check {path}` counts, for you only, cells that are missing, unreadable, "
            "clamped or of an unknown label; a release does not show them"
        )


def _note(path: Path) -> Path:
    return path.with_name(f".{path.name}.checked")


def _show(found: NonPrivateCheck, *, more: Sequence[str] = ()) -> None:
    made = table("column", "kind", "missing", "unreadable", "clamped", "unknown label", numbers=_COUNTED)
    for column in found.columns:
        counts = (column.missing, column.unreadable, column.clamped, column.unknown)
        made.add_row(plain(column.name), plain(column.kind), *(plain(count or "") for count in counts))
    if found.columns:
        console().print(made)
    persons = "" if found.persons is None else f" of {found.persons} people"
    pandas = "" if found.rows_by_pandas is None else f"; pandas reads {found.rows_by_pandas}"
    tell(f"{found.rows} rows{persons}{pandas}")
    for problem in (*found.problems, *more):
        tell(f"- {problem}")
    for proposal in found.proposals:
        ways = " or ".join(_declared(proposal))
        which = " (the cells allow both: ask the author of the file)" if len(proposal.choices) > 1 else ""
        tell(f"- {proposal.column}: if the program that wrote the file writes so, declare {ways}{which}")
    if not found.problems and not more:
        tell("every cell is read as declared")
    else:
        tell(
            "Mend the file, or a declaration for a public reason: one that is changed to fit these rows is read off "
            "them, and no guarantee covers that."
        )


def _declared(proposal: ReadingProposal) -> list[str]:
    """Return each choice as the lines of a [[column]] table."""
    return [", ".join(toml_lines(choice)) for choice in proposal.choices]


_NOTED = ("name", "kind", "missing", "unreadable", "clamped", "unknown")
_TIED = ("contested", "dangling", "repeated_keys", "elsewhere")
_COUNTED = ("missing", "unreadable", "clamped", "unknown label")
