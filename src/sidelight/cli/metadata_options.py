"""`sidelight init --metadata` and `--write-metadata`: declarations from and for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sidelight.cli.look import Declared
from sidelight.cli.terminal import tell
from sidelight.errors import PlanError
from sidelight.metadata import MetadataColumn, read_metadata, write_metadata
from sidelight.plans import Plan
from sidelight.records import PersonId
from sidelight.report import check_writable


def declare_from(path: Path, declared: dict[str, Declared], names: Iterable[str]) -> Mapping[str, MetadataColumn]:
    """Declare what a file of metadata says of columns that no option declares; return the columns that lack something.

    Args:
        path: The file of metadata.
        declared: What options declare, to which columns are added.
        names: The columns of the data.
    """
    known, lacking = set(names), {}
    for found in read_metadata(path):
        person = any(isinstance(each.column, PersonId) for each in declared.values())
        if found.name in declared or (found.kind == "person" and person):
            continue
        if found.name not in known:
            tell(f"{path} has the column {found.name!r}, and the file has none of that name")
        elif found.column is None:
            lacking[found.name] = found
        else:
            declared[found.name] = Declared(found.column)
    return lacking


def tell_lacking(path: Path | None, lacking: Mapping[str, MetadataColumn], declared: Iterable[str]) -> None:
    """Tell which columns were left out because the metadata says too little of them."""
    there = set(declared)
    for name, found in lacking.items():
        if name not in there:
            tell(f"{path} says too little of {name!r} (lacking: {', '.join(found.lacking)}); declare it with an option")


def check_target(path: Path | None, *, look: bool, overwrite: bool, inputs: list[Path]) -> None:
    """Refuse to write metadata over something else, or of declarations that private rows gave."""
    if path is None:
        return
    if look:
        raise PlanError(
            "--write-metadata is for what is public, and --look declares what private rows hold; confirm the plan "
            "first, and declare the columns by options to write metadata"
        )
    if path.exists() and not overwrite:
        raise PlanError(f"{str(path)!r} is there already; name another file, or replace it with --overwrite")
    check_writable(path, inputs=inputs)


def write_for_others(path: Path | None, plan: Plan) -> None:
    """Write the schema of a plan in the format that the name of the file tells."""
    if path is not None:
        tell(f"wrote {path}: {write_metadata(path, plan.schema.columns, name=plan.name)}")
