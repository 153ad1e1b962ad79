"""From a `Report` to one HTML file that needs nothing else: no network, no script, no font.

`picture` draws one release by itself: an SVG file with its colours, for pages that show a release as it arrives.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from sidelight.errors import SidelightError, SourceError
from sidelight.group_table import GroupTable
from sidelight.guarantees import Claims, Neighbours, PureDP
from sidelight.guarantees.claims import NOT_PROTECTED
from sidelight.ledger.place import check_output
from sidelight.readable import as_read, at_most, shown_text
from sidelight.records.source_files import would_be_read
from sidelight.registry import card_of
from sidelight.release import Outcome, Release, TailBound
from sidelight.release.shown import records_text
from sidelight.report.charts import (
    MOST_BARS,
    MOST_COLUMNS,
    WIDE,
    bar_chart,
    cut,
    matrix_chart,
    quantile_chart,
    strip_chart,
    svg_body,
    text_part,
    text_width,
)
from sidelight.report.contents import Item, Report
from sidelight.report.groups import groups_card
from sidelight.report.values import MOST_BESIDE_BARS, MOST_ROWS, listing_of, matrix_of, vector_of
from sidelight.report.words import Headline, counted, headline, promise, together, unit_word
from sidelight.session import Disclosure
from sidelight.version import VERSION

CONFIDENCE = 0.95


def filled(template: str, **values: Any) -> str:
    """Return a template of this package with its values, the style of the pages and the version."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("sidelight.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = as_read
    environment.filters["counted"] = counted
    environment.filters["sentence"] = _sentence
    environment.filters["unbroken"] = _unbroken
    environment.filters["breakable"] = _breakable
    style = Markup(files("sidelight.report").joinpath("templates/report.css").read_text(encoding="utf-8"))
    page = environment.get_template(template).render(style=style, version=VERSION, **values)
    return shown_text(page, lines=True)  # whatever text stands in it: labels, titles, origins


def render(report: Report) -> str:
    """Return the page as one HTML text."""
    claims = [item.outcome.guarantee for item in report.items]
    return filled(
        "report.html",
        report=report,
        cards=[_card(item, report) for item in report.items],
        headline=_headline(report, claims),
        published=_published(report, claims),
        not_protected=NOT_PROTECTED,
        private=all(item.outcome.private for item in report.items),
        strips=None if report.comparison is None else strip_chart(report.comparison),
    )


def disclosure_page(disclosure: Disclosure) -> str:
    """Return a deployment record as a page for people: one HTML text that needs nothing else."""
    deployment = disclosure.record["deployment"]
    return filled(
        "disclosure.html", basic=deployment["basic"], sections=list(disclosure.sections()), slug=disclosure.file_name
    )


def write_report(report: Report, path: Path) -> Path:
    """Write the page; an older page of that name stays whole until the new one is."""
    return write_text(path, render(report))


def _unbroken(text: str) -> str:
    """Keep "ε = 0.5" on one line."""
    return text.replace(" = ", "\u00a0=\u00a0")


def _breakable(text: str) -> Markup:
    """Let the name of a column break after "_", where a reader would, before it breaks anywhere."""
    return Markup("_<wbr>").join(text.split("_"))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _headline(report: Report, claims: list[Claims]) -> Headline | None:
    """Return what all of the report promises: that of its budget, or the sum of its releases of one data set."""
    account = report.account
    if not all(item.outcome.private for item in report.items):
        return None  # seeded noise promises nothing
    if account is not None:
        if account.epsilon is None:
            return None
        amounts, kept = (account.epsilon, account.delta or 0.0), account.kept
        return headline(*amounts, unit=account.unit, term=account.statement, replaced=bool(kept), kept=kept)
    one = len({item.outcome.circumstances.dataset for item in report.items}) == 1
    total = together(claims) if claims and one and report.comparison is None else None
    if total is None or claims[0].neighbours is Neighbours.KEPT:  # its sentence is not that of any other row
        return None
    several = f"{len(claims)} releases together, the sum of their epsilons" if len(claims) > 1 else "one release"
    replaced = claims[0].neighbours is not Neighbours.ADD_REMOVE
    like = next((each for each in claims if each.numerics == "idealized"), claims[0])  # one of them makes all so
    term = f"{PureDP(total, **like.context)}: {several}."
    return headline(float(total), 0.0, unit=unit_word(claims[0].unit), term=term, replaced=replaced)


def _published(report: Report, claims: list[Claims]) -> list[str]:
    """Return what is published exactly, with its reason, by the budget of a report and by its releases."""
    found = [report.account.kept if report.account is not None else "", *(each.context["kept"] for each in claims)]
    return list(dict.fromkeys(each for each in found if each))


def _rows_of(report: Report, dataset: str) -> str | None:
    """Return about how many rows the data has, where a release of it on this page says so: a released number."""
    for item in report.items:
        outcome = item.outcome
        if not isinstance(outcome, Release) or outcome.circumstances.dataset != dataset:
            continue
        value = outcome.value
        rows = value.get("rows") if isinstance(value, Mapping) else None
        if outcome.kind == "count" and isinstance(value, GroupTable) and "where" not in outcome.query:
            of_rows = value.rows == 1 and "count" in value and value.notes.get("of") == "rows"  # ranks are not persons
            rows = float(value["count"].sum()) if of_rows else rows
        if isinstance(rows, int | float) and rows > 0:
            noise = value["noise_sd"] if isinstance(value, GroupTable) and "noise_sd" in value else [0.0]
            return records_text({"count": rows, "count_deviation": float(max(noise))})
    return None


def _of_rows(release: Release, report: Report) -> str | None:
    """Return of about how many records a release is, where it says so itself, or another one of its data does."""
    if (counted := records_text(release.details)) is not None:
        return counted
    return None if "where" in release.query else _rows_of(report, release.circumstances.dataset)


def _card(item: Item, report: Report) -> Mapping[str, Any]:
    outcome = item.outcome
    card = {
        "title": item.title,
        "kind": str(outcome.query["kind"]),
        "refused": None,
        "promise": promise(outcome.guarantee),
        "guarantee": str(outcome.guarantee.strongest),
        "circumstances": outcome.circumstances,
        "private": outcome.private,
        "chart": None,
        "synthetic": None,
        "additive": None,
        "groups": None,
        "listing": None,
        "prediction": None,
        "query": sorted((key, _plain(value)) for key, value in outcome.query.items() if key != "kind"),
        "error": None,
        "off_by": None,
        "of_rows": None,
        "estimated": False,
        "likely": None,
        "counted": None,
    }
    if not isinstance(outcome, Release):
        return {**card, "refused": outcome.reason}
    card["counted"] = outcome.rows_counted
    if card_of(outcome.kind) == "synthetic":
        from sidelight.report.synthetic import synthetic_card

        return {**card, "synthetic": synthetic_card(outcome), "prediction": _prediction(outcome)}
    if outcome.kind == "additive_model":
        from sidelight.report.values import additive_card

        curves = additive_card(outcome)
        if curves is not None:
            return {**card, "additive": curves, "prediction": _prediction(outcome)}
    if isinstance(outcome.value, GroupTable):
        return {**card, "groups": groups_card(outcome, areas=item.areas), "prediction": _prediction(outcome)}
    errors = None if outcome.error is None else outcome.error.at(CONFIDENCE).tolist()
    likely = None if outcome.error is None or outcome.error.likely is None else outcome.error.likely
    chart = release_chart(outcome, errors if likely is None else likely.at(CONFIDENCE).tolist())
    bars = chart is not None and card_of(outcome.kind) != "quantiles" and vector_of(outcome) is not None
    listing = listing_of(outcome, errors, most=MOST_BESIDE_BARS if bars else MOST_ROWS)
    return {
        **card,
        "listing": listing,
        "chart": chart,
        "prediction": _prediction(outcome),
        "error": outcome.error,
        "estimated": outcome.error is not None and not outcome.error.proved,
        "likely": None if outcome.error is None else _likely(outcome.error),
        "of_rows": _of_rows(outcome, report),
        # one bound for all of the value is a sentence, not a column
        "off_by": None if errors is None or listing.bounded else at_most(max(errors)),
    }


def _likely(error: TailBound) -> str | None:
    """Return the largest likely error, where a release carries one besides its bound."""
    return None if error.likely is None else at_most(float(error.likely.at(CONFIDENCE).max()))


def release_chart(release: Release, errors: list[float] | None) -> Markup | None:
    """Draw what this kind of release is best seen as; what is too long to draw has its table."""
    matrix, vector = matrix_of(release), vector_of(release)
    if matrix is not None and 2 <= len(matrix[0]) <= MOST_COLUMNS:
        return matrix_chart(*matrix)
    if vector is None or len(vector[0]) < 2:
        return None
    levels = _levels(release.labels) if card_of(release.kind) == "quantiles" else None
    if levels is not None:
        return quantile_chart(levels, vector[1].tolist(), errors)
    return bar_chart(*vector) if len(vector[0]) <= MOST_BARS else None


def _levels(labels: Sequence[str]) -> list[float] | None:
    """Return the levels that labels such as 25% name; None for a stored release with edited labels."""
    try:
        found = [float(label.removesuffix("%")) / 100 for label in labels]
    except ValueError:
        return None
    return found if all(0 < level < 1 for level in found) else None


def _prediction(release: Release) -> Mapping[str, Any] | None:
    if release.prediction is None:
        return None
    origin = release.prediction.get("origin") or {}
    kind, description = origin.get("kind", "guess"), origin.get("description", "")
    meaning = {
        "public": "public data or knowledge, which costs no privacy",
        "released": f"values released before and paid for then (entries {', '.join(origin.get('entries', []))})",
        "guess": "a person's guess, made without looking at the records",
    }.get(str(kind), str(kind))
    priors = release.prediction.get("priors") or []
    several = len(priors) > 1 and len(priors) == len(release.labels)
    return {
        "description": f"A prediction for each of the {len(priors)} numbers."
        if several
        else str(release.prediction["description"]),
        "each": [(label, _law(prior)) for label, prior in zip(release.labels, priors, strict=True)] if several else [],
        "origin": f"{meaning} ({description})" if description else meaning,
        "used": None if release.prediction_use is None else str(release.prediction_use),
    }


def _law(prior: Mapping[str, Any]) -> str:
    """Write a prior from its JSON: the family and its parameters, shortly."""
    parameters = [f"{key} {_parameter(key, value)}" for key, value in prior.items() if key not in ("family", "origin")]
    return f"{str(prior.get('family', 'prior')).replace('_', ' ')}: {', '.join(parameters)}"


def _parameter(key: str, value: Any) -> str:
    if key in ("location", "scale", "lower", "upper"):
        with suppress(TypeError, ValueError, OverflowError):  # of a stored release that was edited
            return as_read(float(value), digits=6)
    return _plain(value)


def _plain(value: Any) -> str:
    if value in ("True", "False") or isinstance(value, bool):  # how a request writes what is on or off
        return "yes" if str(value) == "True" else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(entry)}" for key, entry in sorted(value.items()))
    if isinstance(value, list | tuple):
        return ", ".join(entry if isinstance(entry, str) else _plain(entry) for entry in value)
    return str(value)


# Files that are written as a whole: an older file of the name stays until the new one is complete.


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Return a temporary path in the same folder with the same suffix; it is renamed to the path at the end."""
    check_output(path)
    path = Path(os.path.realpath(path))  # what a link points to is written, and the link stays
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(descriptor)
        try:
            yield Path(name)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except SidelightError:
        raise
    except OSError as error:
        raise SourceError(f"{str(path)!r} cannot be written: {error.strerror}; choose another place") from None


def write_text(path: Path, text: str) -> Path:
    """Write a file in one step."""
    with whole_file(path) as place:
        place.write_text(text, encoding="utf-8", newline="")
    return path


def check_writable(path: Path, *, inputs: Iterable[Path | str | None] = ()) -> None:
    """Refuse a place that cannot be written, or that would be written over what is read, before anything is spent."""
    for each in inputs:
        if each is not None and would_be_read(path, each):
            if path.exists():
                raise SourceError(f"{str(path)!r} is read by the same command and would be lost; choose another output")
            raise SourceError(
                f"{str(path)!r} would become part of what the same command reads: it lies in the source's folder, or "
                "its name matches the source's pattern; choose another output"
            )
    if path.is_dir():
        raise SourceError(f"{str(path)!r} is a directory; name a file in it")
    check_output(path)
    if not path.parent.is_dir():
        raise SourceError(f"the directory {str(path.parent)!r} does not exist; make it first, or choose another place")
    if not os.access(path.parent, os.W_OK):
        raise SourceError(f"the directory {str(path.parent)!r} cannot be written; choose another place")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


#: Groups that are drawn; the others are in the table below the picture.
MOST_DRAWN = 40
_ROW, _BAR = 24, 300


def picture(outcome: Outcome) -> str | None:
    """Return the SVG of an outcome; None where a picture says no more than a number, or nothing was released."""
    if not isinstance(outcome, Release):
        return None
    if isinstance(outcome.value, GroupTable):
        return _grouped(groups_card(outcome))
    errors = None if outcome.error is None else (outcome.error.likely or outcome.error).at(CONFIDENCE).tolist()
    drawn = release_chart(outcome, errors)
    return None if drawn is None else _standing_alone(str(drawn).partition("</svg>")[0] + "</svg>")


def _grouped(card: Any) -> str | None:
    """Draw the first statistic of each group with its interval: a row a group, as in the table of a report."""
    rows = [row for row in (*card["open"], *card["folded"]) if row.bar is not None][:MOST_DRAWN]
    if not rows:
        return None
    names = [" · ".join(row.labels) or "all" for row in rows]
    left = min(200.0, 12 + max(text_width(name) for name in names))
    shown = 2 if card["interval"] else 1
    title = card["first"].replace("_", " ") + (" with its interval" if shown > 1 else "")
    parts = [text_part(left + 8, 14, title, "caption")]
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        top = 22 + place * _ROW
        parts.append(text_part(left, top + 15, cut(name, left - 4), "name end"))
        size = f'x="{left + 8:.1f}" y="{top}" width="{_BAR}" height="20" preserveAspectRatio="none" '
        parts.append(
            str(row.bar).replace('class="spark" role="img"', size, 1).replace(' width="190" height="18"', "", 1)
        )
        numbers = row.numbers[0] + (f"   ({row.numbers[1]})" if shown > 1 else "")
        parts.append(text_part(left + _BAR + 18, top + 15, cut(numbers, WIDE - left - _BAR - 18), "tick"))
    label = escape(f"{title}, {len(rows)} groups")
    body = svg_body(parts, width=WIDE, height=22 + len(rows) * _ROW + 8)
    return _standing_alone(f'<svg class="wide" role="img" aria-label="{label}" {body}')


def _standing_alone(drawn: str) -> str:
    """Return a chart of a page with its namespace and its style: it is shown at every width, and has no scripts."""
    style = Markup(files("sidelight.report").joinpath("templates/report.css").read_text(encoding="utf-8"))
    start, _, rest = drawn.replace('class="wide"', 'xmlns="http://www.w3.org/2000/svg"', 1).partition(">")
    font = "svg { font-family: system-ui, sans-serif; }"
    return shown_text(f"{start}><style><![CDATA[{style}{font}]]></style>{rest}", lines=True)
