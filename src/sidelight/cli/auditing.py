"""`sidelight audit`: attack every query of a plan on data that is generated from its schema; the source is not opened.

Results are stored after every query, in a file next to the page, so that an interrupted audit resumes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sidelight.audit import QueryAudit, audit_query
from sidelight.cli.answers import note
from sidelight.cli.running import inputs_of
from sidelight.cli.terminal import console, plain, table, tell, today
from sidelight.errors import FailedError, SourceError
from sidelight.plans import Plan, read_plan
from sidelight.progress import progress
from sidelight.readable import at_least, shown_html
from sidelight.report import check_writable, write_text
from sidelight.version import VERSION

#: How long all queries of a plan are attacked together, in seconds, and how often at most.
USUAL_SECONDS, LONG_SECONDS = 120.0, 1800.0
USUAL_RUNS, LONG_RUNS = 4000, 100_000
_MEANING = (
    "A claim that stands is not proved by that: the audit ran each query on two generated neighbouring data sets and "
    "looked for outputs that distinguish them. Refuted is the largest amount that the runs exclude with a confidence "
    "of 95 %; "
    "above what is claimed, the claim would be false. No row of the source was read, and nothing was charged."
)


def audit_plan(path: Path, *, output: Path, long: bool, seconds: float | None = None) -> None:
    """Attack the claims of a plan's queries and write the results; a refuted claim is an error with status 1."""
    plan = read_plan(path)
    kept = output.with_suffix(".json")
    for place in (output, kept):
        check_writable(place, inputs=inputs_of(path, plan.files, plan.ledger))
    total = seconds if seconds is not None else LONG_SECONDS if long else USUAL_SECONDS
    found = _earlier(kept, plan, long=long)
    resumed = len(found)
    with progress(total=len(plan.queries), done=resumed) as step:
        for position in range(resumed, len(plan.queries)):
            step(plan.queries[position].title)
            asked = plan.queries[position]
            runs = LONG_RUNS if long else USUAL_RUNS
            found.append(
                audit_query(asked.asked, asked.schema, runs=runs, seconds=total / len(plan.queries), seed=position)
            )
            write_text(kept, json.dumps(_state(plan, found, long=long), indent=1))
            step()
    if resumed:
        tell(f"{resumed} of {len(found)} queries were attacked before, by {kept.name}; delete it to start over.")
    write_text(output, _page(plan, found))
    state = _state(plan, found, long=long)
    note(plan=state["plan"], long=long, queries=state["queries"], output=str(output))
    _tell(plan, found, output=output)


def _state(plan: Plan, found: list[QueryAudit], *, long: bool) -> dict[str, Any]:
    return {"plan": plan.digest, "version": VERSION, "long": long, "queries": [each.to_json() for each in found]}


def _earlier(kept: Path, plan: Plan, *, long: bool) -> list[QueryAudit]:
    """Return the results of an earlier run of the same plan, version and length."""
    if not kept.exists():
        return []
    try:
        state = json.loads(kept.read_text(encoding="utf-8"))
        if {**state, "queries": []} != _state(plan, [], long=long):
            return []
        return [QueryAudit.from_json(each) for each in state["queries"]][: len(plan.queries)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SourceError(
            f"{str(kept)!r} exists and was not written by `sidelight audit`; name another --output"
        ) from None


_HEADS = ("query", "claimed", "refuted", "verdict", "tried", "by", "seconds")


def _row(title: str, found: QueryAudit) -> tuple[str, ...]:
    best = found.best
    tried = f"{found.pairs_tried} pairs, {found.runs} runs of two"
    raised = f"; raised an error {sum(found.raised)} times" if any(found.raised) else ""
    verdict = "REFUTED" if found.refuted else "stands"
    return title, best.claim, at_least(best.refuted), verdict + raised, tried, best.attack, f"{found.seconds:.0f}"


def _tell(plan: Plan, found: list[QueryAudit], *, output: Path) -> None:
    made = table(*_HEADS, numbers=("refuted", "seconds"))
    for planned, each in zip(plan.queries, found, strict=True):
        made.add_row(*map(plain, _row(planned.title, each)))
    tell(plan.title, style="bold")
    console().print(made)
    tell(_MEANING)
    tell(f"Page: {output}")
    fallen = [planned.title for planned, each in zip(plan.queries, found, strict=True) if each.refuted]
    if fallen:
        raise FailedError(
            f"a claim is false, with a confidence of 1 - 1e-7: {', '.join(map(repr, fallen))}. Do not release these; "
            "please report it as SECURITY.md says"
        )


def _page(plan: Plan, found: list[QueryAudit]) -> str:
    def cells(kind: str, texts: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{kind}>{shown_html(text)}</{kind}>" for text in texts) + "</tr>"

    rows = "\n".join(cells("td", _row(planned.title, each)) for planned, each in zip(plan.queries, found, strict=True))
    details = "\n".join(
        f"<li>{shown_html(planned.title)}: {shown_html(each.best.event)}. Hardest pair: {shown_html(each.pair)}</li>"
        for planned, each in zip(plan.queries, found, strict=True)
    )
    title = shown_html(f"Audit of {plan.title}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        "<style>body{font:1rem/1.5 system-ui;margin:2rem auto;max-width:75rem;padding:0 1rem}"
        "td,th{text-align:left;padding:.3rem .8rem .3rem 0;vertical-align:top}</style></head>\n"
        f"<body><h1>{title}</h1>\n<p>{shown_html(today())}, sidelight {shown_html(VERSION)}.</p>\n"
        f"<table>{cells('th', _HEADS)}\n{rows}</table>\n<p>{shown_html(_MEANING)}</p>\n<ul>{details}</ul>\n"
        "</body></html>\n"
    )
