"""Files of releases: what `sidelight run --json` wrote, or the JSON of releases."""

from __future__ import annotations

import json
from pathlib import Path

from sidelight.errors import RangeError, SidelightError, SourceError
from sidelight.release.outcomes import Outcome, outcome_from_json
from sidelight.release.values import without_repeats


def read_outcomes(path: Path) -> list[tuple[str, Outcome]]:
    """Read the outcomes of a JSON file, each with its title: one, a list, or what `sidelight run --json` wrote."""
    return titled_outcomes(stored_text(path), source=repr(str(path)))


def titled_outcomes(text: str, *, source: str) -> list[tuple[str, Outcome]]:
    """Read the outcomes of a JSON text, each with its title."""
    wanted = "expected the JSON of releases or of `sidelight run --json`"
    try:
        data = json.loads(text, object_pairs_hook=without_repeats)
        if isinstance(data, dict) and data.get("type") == "report":
            return [(str(item["title"]), outcome_from_json(json.dumps(item["outcome"]))) for item in data["items"]]
        found = data if isinstance(data, list) else [data]
        outcomes = [outcome_from_json(entry if isinstance(entry, str) else json.dumps(entry)) for entry in found]
    except json.JSONDecodeError as error:
        raise RangeError(f"{wanted}, got a text that breaks off at line {error.lineno}: {error.msg}") from None
    except RecursionError:
        raise SourceError(f"{source} is nested too deeply for releases; name a JSON file of releases") from None
    except SidelightError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RangeError(f"{wanted}, got something else (at {error})") from None
    return [(str(each.query.get("column") or each.query["kind"]), each) for each in outcomes]


def stored_text(path: Path) -> str:
    """Read a JSON file of releases."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SourceError(f"{str(path)!r} cannot be read: {reason}; name a JSON file of releases") from None
