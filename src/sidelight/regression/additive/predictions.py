"""What is known beforehand of an additive model, as tables on fine codes with the variances of a correction.

Everything that `prediction=` takes, read before any charge and without a look at a private row: public rows, an earlier
model or release of this kind, stated curves, stated coefficients.

`CurvePrediction` holds curves that are stated or published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

from sidelight.errors import RangeError, nearest
from sidelight.predictions import Origin, PublicData
from sidelight.predictions.origin import stated_origin
from sidelight.predictions.public_data import refuse_look_alike
from sidelight.records import Category, Number, Table
from sidelight.regression.additive.basis import Coordinates, Offset, line_tables
from sidelight.regression.additive.fine_codes import FINE_CELLS, AdditiveExamples, fine_size
from sidelight.regression.additive.public_fit import KnownCurves, fit_public
from sidelight.regression.additive.steps import Scales
from sidelight.regression.coefficient_prediction import CoefficientPrediction, released_origin
from sidelight.regression.descent.integer_rows import Integers
from sidelight.regression.descent.targets import Targets
from sidelight.regression.losses import Floats
from sidelight.regression.model_predictions import PredictedCoefficients, PredictedFit, described_predictions
from sidelight.regression.prediction_sources import FEWEST_ROWS, predictions_of, several_predictions
from sidelight.regression.rows import dense_rows
from sidelight.regression.table_rows import TableUnits, declared_columns, range_of
from sidelight.release import Release

#: Of the prior variance: of a correction where the accuracy of a prediction is unknown, and the least.
_UNKNOWN, _LEAST = 0.3, 0.01
#: The intercept's correction relative to the prediction's own variance of it.
_INTERCEPT = 4.0


@dataclass(frozen=True, kw_only=True, eq=False)
class CurveCandidate:
    """One prediction in the coordinates of fine codes, in half ranges or log odds.

    Args:
        known: Curves and, where they are known, the variances of their components.
        scale: The root mean square of a stated curve's correction, None where it is unknown.
        origin: Where it came from.
        what: In words.
        given: The public rows, where there are any.
        raw: Their features, as linear models see them.
        coded: Their fine codes and coded targets.
        seeded: Whether it came from a release with seeded noise.
    """

    known: KnownCurves
    origin: Origin
    what: str
    scale: float | None = None
    given: tuple[PublicData, ...] = ()
    raw: Floats | None = field(default=None, repr=False)
    coded: tuple[Integers, Floats] | None = field(default=None, repr=False)
    seeded: bool = False

    @property
    def offset(self) -> Offset:
        """Its curves and intercept."""
        return self.known.offset

    @property
    def mean(self) -> float | None:
        """The mean of public targets in half ranges, a rival of votes."""
        return self.known.mean

    def variances(self, place: Coordinates, scales: Scales) -> Floats:
        """Return the variances τ of the correction of each component."""
        prior = place.priors / place.v
        if not self.known.bases:
            return np.asarray((_UNKNOWN * scales.prior if self.scale is None else self.scale**2) * prior)
        found = []
        for at, (theirs, variances) in enumerate(zip(self.known.bases, self.known.variances, strict=True)):
            fine = place.cells[at].fine
            mass = fine / max(float(fine.sum()), 1e-300)
            mine = place.on_codes(at, place.bases[at].values) / np.sqrt(place.weights[at])
            found.append(((mine * mass[:, None]).T @ theirs) ** 2 @ variances)
        whole = np.concatenate([np.zeros((0, *self.offset.tables[0].shape[1:])), *found])
        return np.asarray(np.maximum(whole.T, _LEAST * scales.prior * prior).T)

    def unsure_intercept(self, scales: Scales) -> float | Floats:
        """Return the variance of the intercept's correction."""
        own = self.known.intercept
        return _INTERCEPT * own if np.all(np.asarray(own) > 0) else scales.unsure_intercept

    @property
    def digest(self) -> str:
        """What a ledger holds of it."""
        constant = np.asarray(self.offset.constant).tolist()
        stated = (constant, self.scale, self.known.mean, np.asarray(self.known.intercept).tolist())
        hashed = hashlib.sha256(repr(stated).encode())
        for part in (*self.offset.tables, *self.known.variances, *self.known.bases):
            hashed.update(np.ascontiguousarray(part, np.float64).tobytes())
        return hashed.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class AdditivePredictions:
    """The predictions of one fit, with what a release says of them."""

    candidates: tuple[CurveCandidate, ...] = ()

    @property
    def public(self) -> tuple[CurveCandidate, ...]:
        """Those that are public rows."""
        return tuple(each for each in self.candidates if each.given)

    @property
    def request(self) -> dict[str, str]:
        """What a ledger holds of them: a fit with other predictions is another question."""
        hashed = hashlib.sha256(" ".join(each.digest for each in self.candidates).encode()).hexdigest()
        return {"prediction_sha256": hashed} if self.candidates else {}

    @property
    def described(self) -> Mapping[str, Any] | None:
        """What a release says about them; None where there are none."""
        words = [f"{each.what} ({each.origin})" for each in self.candidates]
        return described_predictions(self.candidates, words, self.request)


def additive_predictions(
    given: Any, examples: AdditiveExamples, targets: Targets, units: TableUnits
) -> AdditivePredictions:
    """Read `prediction=`: None, one prediction or a list of them. Reads no private row."""
    parts = several_predictions(given)
    return AdditivePredictions(candidates=tuple(_candidate(each, examples, targets, units) for each in parts))


def _candidate(given: Any, examples: AdditiveExamples, targets: Targets, units: TableUnits) -> CurveCandidate:
    refuse_look_alike(given, CurvePrediction, CoefficientPrediction, PublicData)
    if isinstance(given, PublicData):
        return _of_rows(given, examples, targets)
    if isinstance(given, CurvePrediction):
        if targets.outputs > 1:
            raise RangeError(
                "stated curves are for a number or two classes; of several classes give public rows, an earlier "
                "additive model or sl.CoefficientPrediction"
            )
        tables = tuple(table / targets.half for table in given.tables(examples.columns))
        constant = (given.intercept - targets.target_centre) / targets.half
        scale = None if given.scale is None else float(given.scale) / targets.half
        return CurveCandidate(known=_curves(tables, constant), origin=given.source, what="stated curves", scale=scale)
    if isinstance(given, CoefficientPrediction) and not given.earlier:
        return _of_coefficients(given, examples, targets, units)
    earlier = given if isinstance(given, Release) else getattr(given, "release_", None)
    if isinstance(earlier, Release) and earlier.query.get("kind") == "additive_model":
        return _of_release(earlier, examples, targets)
    raise RangeError(
        f"prediction is a {type(given).__name__}; an additive model takes sl.PublicData(rows, 'where they come from') "
        "with the target among their columns, sl.CurvePrediction(...), sl.CoefficientPrediction(...), an earlier "
        "additive model or its release, or a list of these"
    )


def _curves(tables: Sequence[Floats], constant: float | Floats) -> KnownCurves:
    offset = Offset(tables=tuple(tables), constant=constant)
    return KnownCurves(offset=offset, bases=(), variances=(), intercept=0.0, mean=None)


def _of_rows(given: PublicData, examples: AdditiveExamples, targets: Targets) -> CurveCandidate:
    names = given.names
    wanted = [*(column.name for column in examples.columns), examples.target.name]
    missing = [name for name in wanted if names is None or name not in names]
    if missing:
        raise RangeError(
            f"public rows of an additive model have its columns and its target by name, {', '.join(wanted)}; "
            f"{missing[0]!r} is missing"
        )
    table = Table(given.rows, schema=[*examples.columns, examples.target])
    parts = list(examples.blocks(table, targets))
    codes = np.concatenate([np.empty((0, len(examples.columns)), np.int64), *(block.features for block in parts)])
    coded = np.concatenate([np.empty((0, 1)), *(block.targets for block in parts)])
    if len(codes) < FEWEST_ROWS:
        raise RangeError(
            f"a prediction from public rows needs at least {FEWEST_ROWS} of them with a declared target, got "
            f"{len(codes)}; state curves with sl.CurvePrediction, or leave it out"
        )
    if targets.kind != "squared" and len(np.unique(coded)) < 2:
        raise RangeError("the public rows of the prediction are all of one class; give some of every class")
    codes = codes.astype(np.int64)
    known = fit_public(examples.columns, codes, coded, targets=targets)
    raw = [dense_rows(rows) for rows, _ in examples.batches(table)]
    return CurveCandidate(
        known=known,
        origin=given.origin,
        what=f"{len(codes)} public rows",
        given=(given,),
        raw=np.concatenate(raw) if raw else None,
        coded=(codes, coded),
    )


def _of_coefficients(
    given: CoefficientPrediction, examples: AdditiveExamples, targets: Targets, units: TableUnits
) -> CurveCandidate:
    wanted = PredictedFit(
        features=len(units.names),
        names=units.names,
        data_norm=Fraction(1),
        classes=targets.classes or None,
        target_range=targets.target_range,
        middle=targets.target_centre,
        half=targets.half,
        units=units,
    )
    (found,) = predictions_of(given, wanted).candidates
    assert isinstance(found, PredictedCoefficients)
    theta = found.theta[:, 0] if targets.outputs == 1 else found.theta
    tables = line_tables(examples.columns, theta[:-1], examples.line_encoder)
    return CurveCandidate(known=_curves(tables, theta[-1]), origin=found.origin, what=found.what)


def _meaning(column: Number | Category) -> tuple[Any, ...]:
    """Return what the numbers of a release mean: not how texts are read."""
    ends = (column.lower, column.upper) if isinstance(column, Number) else column.labels
    return column.name, ends, getattr(column, "calendar", None)


def _of_release(release: Release, examples: AdditiveExamples, targets: Targets) -> CurveCandidate:
    if [*map(_meaning, declared_columns(release.query))] != [*map(_meaning, examples.columns)]:
        raise RangeError(
            "the earlier additive model was fitted to other columns, ranges, dates or labels; fit both to the same, or "
            "state its curves with sl.CurvePrediction"
        )
    for name in ("loss", "classes", "target_range"):
        if release.query.get(name) != targets.to_json().get(name):
            raise RangeError(f"the earlier additive model has another {name.replace('_', ' ')}; give one of the same")
    value, half = release.value, targets.half
    sizes = np.cumsum([fine_size(column) for column in examples.columns])[:-1]
    tables = np.split(np.asarray(value["tables"], np.float64) / half, sizes)
    places = np.split(np.asarray(value["cell_of"], np.int64), sizes)
    cells, widths = np.asarray(value["cells"], int), np.asarray(value["widths"], int)
    z = np.split(np.asarray(value["z"], np.float64), np.cumsum(cells * widths)[:-1])
    bases = []
    for at, part in enumerate(z):
        padded = np.vstack([part.reshape(cells[at], widths[at]), np.zeros((1, widths[at]))])
        bases.append(padded[places[at]])
    variances = np.asarray(value["variances"], np.float64)
    constant = (np.asarray(value["intercept"], np.float64) - targets.target_centre) / half
    known = KnownCurves(
        offset=Offset(tables=tuple(tables), constant=constant if constant.ndim else float(constant)),
        bases=tuple(bases),
        variances=tuple(np.split(variances[1:], np.cumsum(widths)[:-1])),
        intercept=variances[0] if variances.ndim > 1 else float(variances[0]),
        mean=None,
    )
    return CurveCandidate(
        known=known, origin=released_origin(release), what="an earlier additive model", seeded=not release.private
    )


_LARGEST = 1e100


@dataclass(frozen=True, eq=False, repr=False)
class CurvePrediction:
    """Hold what the curves of an additive model probably are: a guess, or published curves.

    Guarantee: none is changed. The numbers must not come from the rows that are fitted.

    Accuracy: a good prediction is worth as many rows as it was learned from; a bad one costs a twentieth of the budget
    and the line stage: the fit chooses privately between it and none, and believes it column by column.

    Args:
        curves: By column: of a number points (value, what it adds), linear between them and level beyond; of a
            category {label: what it adds}. Columns that are not named add nothing. In the target's unit, or log odds.
        intercept: What is added to all rows.
        scale: The root mean square by which a column's curve may be off, in the same unit; left out if unknown.
        origin: Where it came from: a text names a public source; a guess if left out.

    >>> CurvePrediction({"age": [(20, -1.0), (60, 1.0)]}, intercept=5.0, origin="a textbook")
    CurvePrediction(1 curve, public: a textbook)
    """

    curves: Mapping[str, Any]
    intercept: float = 0.0
    _: KW_ONLY
    scale: float | None = None
    origin: str | Origin | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.curves, Mapping):
            raise RangeError('curves maps columns to points, such as {"age": [(20, -1.0), (60, 1.0)]}')
        if not _is_number(self.intercept):
            raise RangeError(f"intercept must be a finite number, got {self.intercept!r}")
        if self.scale is not None and not (_is_number(self.scale) and self.scale > 0):
            raise RangeError(f"scale must be a positive number or None, got {self.scale!r}")
        _ = self.source  # what is no source is found now

    @property
    def source(self) -> Origin:
        """Where it came from."""
        return stated_origin(self.origin)

    def tables(self, columns: Sequence[Number | Category]) -> list[Floats]:
        """Return the curves on fine codes, in the stated unit."""
        names = [column.name for column in columns]
        for name in self.curves:
            if name not in names:
                raise RangeError(f"there is a curve of {name!r}, which is no column; {nearest(str(name), names)}")
        return [self._table(column) for column in columns]

    def _table(self, column: Number | Category) -> Floats:
        given = self.curves.get(column.name)
        if isinstance(column, Category):
            found = np.zeros(len(column.labels))
            if given is None:
                return found
            if not isinstance(given, Mapping) or not all(_is_number(value) for value in given.values()):
                raise RangeError(f"the curve of the category {column.name!r} must map its labels to finite numbers")
            for label, value in given.items():
                if str(label) not in column.labels:
                    hint = nearest(str(label), column.labels)
                    raise RangeError(f"column {column.name!r} has no label {label!r}; {hint}")
                found[column.labels.index(str(label))] = float(value)
            return found
        if given is None:
            return np.zeros(FINE_CELLS + 1)
        points = [tuple(point) for point in given] if isinstance(given, Sequence) else []
        if not points or not all(len(point) == 2 and all(map(_is_number, point)) for point in points):
            raise RangeError(f"the curve of {column.name!r} must be points (value, what it adds), finite numbers")
        points.sort()
        low, high = map(float, range_of(column))
        at = low + (high - low) * (np.arange(FINE_CELLS) + 0.5) / FINE_CELLS
        inside = np.interp(at, [float(x) for x, _ in points], [float(y) for _, y in points])
        return np.append(inside, inside[FINE_CELLS // 2])  # a missing value counts as the middle

    def __repr__(self) -> str:
        return f"CurvePrediction({len(self.curves)} curve{'s' * (len(self.curves) != 1)}, {self.source})"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) <= _LARGEST
