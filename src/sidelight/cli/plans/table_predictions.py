"""`prediction = {public = "survey.csv", origin = "..."}` or `{releases = ["last-year.json"]}` of a synthetic table.

Public rows are read by the query itself, when it is prepared; here it is only seen that the file is there and is not
the private one. Earlier releases are read here: they must be synthetic tables that protected somebody.
"""

from __future__ import annotations

from glob import glob
from pathlib import Path
from typing import Any

from sidelight.cli.plans.section import Section
from sidelight.cli.stored import stored_table
from sidelight.synthesis import PublicTable, Synthetic


def read_table_prediction(section: Section, key: str) -> PublicTable | list[Synthetic] | None:
    """Read public rows with their origin, or earlier releases, or nothing."""
    if key not in section:
        return None
    given = section.section(key).only("public", "origin", "releases")
    if ("public" in given) == ("releases" in given):
        given.refuse(
            'a prediction is {public = "rows.csv", origin = "where they are published"} or '
            '{releases = ["earlier.json"]}: name one of the two'
        )
    if "public" in given:
        file = given.existing_file("public")
        return PublicTable(str(file), given.text("origin"))
    if "origin" in given:
        given.refuse("origin belongs to public rows; a release says itself where it comes from", key="origin")
    return [_release(given, entry) for entry in given.entries("releases")] or given.refuse(
        "releases is empty; name at least one JSON file, or leave the prediction out", key="releases"
    )


def refuse_private_rows(section: Section, *, source: Path) -> None:
    """Refuse a prediction that names the plan's own source: these rows are private, whatever the plan calls them."""
    prediction: Any = section.values.get("prediction")
    name = prediction.get("public") if isinstance(prediction, dict) else None
    if not isinstance(name, str):
        return
    public = section.folder / name
    if public == source or (public.exists() and any(public.samefile(each) for each in _files(source))):
        section.section("prediction").refuse(
            f"public names {name!r}, the private source of this plan; a prediction from the private rows would void "
            "the guarantee"
        )


def _files(source: Path) -> list[Path]:
    """Return the files of a source, which may be a pattern."""
    return [source] if source.exists() else [Path(each) for each in glob(str(source)) if Path(each).exists()]


def _release(section: Section, entry: Any) -> Synthetic:
    """Read "file.json", or {file = "file.json", title = "..."} where a file holds several synthetic tables."""
    title = None
    if isinstance(entry, dict):
        inside = Section(section.file, section.lines, (*section.path, "releases"), entry, section.folder)
        inside.only("file", "title")
        file, title = inside.existing_file("file"), inside.text("title", None)
    elif isinstance(entry, str) and entry:
        file = section.found("releases", entry)
    else:
        section.refuse(
            'each of releases must be a JSON file, or {file = "earlier.json", title = "..."}', key="releases"
        )
    with section.naming("releases"):
        made = stored_table(file, title=title)
    if not made.release.private:
        section.refuse(
            f"the release in {file.name!r} was made with seeded noise and protects nobody; predicting with it would "
            "void the guarantee",
            key="releases",
        )
    return made
