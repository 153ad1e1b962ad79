"""`sidelight disclose`: the deployment record of a plan, from its ledger; no row is read, nothing is charged."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.answers import note
from sidelight.cli.running import inputs_of
from sidelight.cli.terminal import tell
from sidelight.errors import PlanError
from sidelight.ledger import open_ledger
from sidelight.plans.plan import DISCLOSURE, read_file, read_head
from sidelight.plans.sources import PlannedDatabase
from sidelight.plans.tables import REQUIRED, PlanKey
from sidelight.report import check_writable, disclosure_page, write_text
from sidelight.session import disclose


def write_disclosure(path: Path, *, output: Path | None, page: Path) -> None:
    """Read the ledger of a plan and write its deployment record as YAML and as a page."""
    whole = read_file(path)
    given, head = read_head(whole, several=True)
    if head["ledger"] is None:
        whole.refuse("a deployment record is made from a ledger; add a [ledger] table to the plan")
    if "disclosure" not in given:
        wanted = "\n".join(f"{key} = ...   # {each.meaning}" for key, each in _required().items())
        raise PlanError(
            f"{path.name}: a part of the record must come from you; add to the plan:\n[disclosure]\n{wanted}"
        )
    facts = DISCLOSURE.read_section(given["disclosure"])
    data = head["data"]
    schemas = {each.name: each.schema for each in data.tables}
    with open_ledger(head["ledger"], create=False, read_only=True) as ledger:
        made = disclose(
            facts,
            name=head["title"],
            schema=schemas if isinstance(data, PlannedDatabase) else data.schema,
            scope=ledger.scope(head["scope"]),
            daily="sequence" in given,
        )
    output = Path(made.file_name) if output is None else output
    for place in (output, page):
        check_writable(
            place,
            inputs=[
                *inputs_of(path, data.files, head["ledger"]),
                page if place is output else None,
            ],
        )
    write_text(output, made.to_yaml())
    write_text(page, disclosure_page(made))
    note(record=made.record, output=str(output), page=str(page))
    tier = made.record["deployment"]["administrative"]["tier"]
    tell(f"Deployment record of tier {tier}: {output}   Page: {page}")
    if tier < 3:
        lacking = [key for key in ("actors", "justification") if getattr(facts, key) is None]
        tell(f"For tier 3 add under [disclosure]: {', '.join(lacking)}.")


def _required() -> dict[str, PlanKey]:
    return {key: each for key, each in DISCLOSURE.keys.items() if each.default is REQUIRED}
