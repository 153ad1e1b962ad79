"""Failures after the charge: every kind of query on hostile tables, and a list of what can still be raised, and why.

Which functions run after the charge is seen by running every query under a profiler; each `raise` in their text must
be in the list below, with the reason why it tells nothing about rows. A new one fails the test until it has a reason.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from benchmarks.audit_failures import SCHEMA, failing_fits, failing_queries, queries, schema_of, tables

import sidelight as sl
from sidelight.session.pipeline import _run_one
from sidelight.testing import SeededEntropy

SOURCE = Path(sl.__file__).parent
PUBLIC = "looks at public parameters only, which were the same when the query was prepared"
NOISY = (
    "looks at public parameters and at values that already have their noise: post-processing, which the price covers"
)
TYPES = "looks at the declared type, or at a shape that the schema or the plan fixes; a row does not change it"
MACHINE = "the machine: no entropy, a fork, another thread, a broken processor; independent of rows"
NEVER = "a check of our own arithmetic: integers, scales and sizes that are right for every table"
PRICED = "becomes a refusal that delta pays for (stability proof page, Theorem 14)"
THEOREM = "cannot happen up to 2**30 rows (objective-perturbation proof page, Theorem 5)"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_query_fails_after_the_charge(record_property: Any) -> None:
    """Far targets, large epsilons, empty, missing, constant and far tables, and each without its last row."""
    pairs = [(f"{kind}, {name}", failed) for kind, name, failed in failing_queries()] + list(failing_fits())
    failed = [name for name, bad in pairs if bad]
    assert not failed
    assert len(pairs) > 400
    record_property("audit", f"unpaid failures: {len(pairs)} pairs of query and table; {len(failed)} failed")


def test_every_query_of_the_library_is_tried() -> None:
    """All public classes with `prepare`: an untested one would be a gap in the audit."""
    tried = {type(query).__name__ for query in queries().values()}
    tried |= {type(getattr(query, "model", None)).__name__ for query in queries().values()}
    public = {name for name in sl.__all__ if isinstance(getattr(sl, name), type)}
    asked = {
        name for name in public if hasattr(getattr(sl, name), "prepare") or hasattr(getattr(sl, name), "fit_table")
    }
    assert asked - tried == set()
    assert {"Quantiles", "Covariance", "LinearSVC", "PoissonRegressor", "Selection"} <= asked


@cache
def functions_that_run() -> dict[tuple[str, int], str]:
    """File, first line and name of every function of the library that runs after the charge, over all queries."""
    seen: dict[tuple[str, int], str] = {}
    root = str(SOURCE)

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            code = frame.f_code
            seen[Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_firstlineno] = code.co_name

    some = dict(tables())
    for kind, query in queries().items():
        prepared = query.prepare(sl.Schema(schema_of(query)))
        _ = prepared.claims, prepared.request
        for name in ("ordinary", "one missing row"):
            table = sl.Table(some[name], schema=schema_of(query))
            sys.setprofile(watch)
            try:
                _run_one(prepared, table, entropy=SeededEntropy(kind))
            finally:
                sys.setprofile(None)
    return seen


def raises_after_the_charge() -> dict[tuple[str, str], int]:
    """Count the `raise` statements in the text of each function that runs after the charge."""
    found: dict[tuple[str, str], int] = {}
    places = functions_that_run()
    for file in sorted({file for file, _ in places}):
        for node in ast.walk(ast.parse((SOURCE / file).read_text())):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                count = sum(isinstance(each, ast.Raise) and each.exc is not None for each in ast.walk(node))
                if (file, first) in places and count:
                    found[file, node.name] = found.get((file, node.name), 0) + count
    return found


#: Why none of them tells anything about a row: file, function, and how many `raise` statements it has.
ALLOWED: dict[str, dict[str, dict[str, int]]] = {
    PUBLIC: {
        "aggregates/group_sums.py": {"distinct_counts": 1, "group_statistics": 2},
        "aggregates/groups.py": {"_derived_axis": 3, "_limits": 2, "groups_of": 5},
        "aggregates/predicates.py": {"__post_init__": 2},
        "aggregates/rehearsal.py": {"rehearsed": 1},  # on rows made of the schema alone
        "aggregates/values.py": {"_column_value": 1, "value_of": 1},
        "mechanisms/refinable_counts.py": {"__init__": 1},
        "mechanisms/exponential.py": {"release": 2},
        "mechanisms/rank_selection.py": {"_slope": 2},
        "mechanisms/truncated_laplace.py": {"__post_init__": 2, "check": 1},
        "predictions/public_data.py": {"refuse_look_alike": 1, "refuse_private": 2},
        "records/columns.py": {"__init__": 4, "_plain_name": 1, "checked_limit": 1},
        # bins that were found lie between released numbers, each once and in their order
        "records/expression_shapes.py": {
            "check": 1,
            "code_table": 2,
            "conditions_of": 1,
            "number_in": 2,
            "number_of": 1,
        },
        "records/expressions.py": {"col": 1, "shape": 9},
        "records/readings.py": {"check_signs": 3, "checked_name": 1, "checked_texts": 2, "checked_utf8": 1},  # declared
        "records/schema.py": {"__init__": 6, "person": 1},
        "aggregates/clipped_vector.py": {"__post_init__": 5},
        "aggregates/counts.py": {"__post_init__": 1, "cell_counts": 1},
        "aggregates/fixed_point.py": {"_scale": 1},
        "aggregates/moments.py": {"check_width": 1, "clipped_moments": 2},
        "guarantees/amounts.py": {"_parse": 1, "_read": 6, "exact": 2, "largest": 1, "positive": 1},
        # of prices, which are computed again from the scales that are drawn: public numbers, or released ones
        "accounting/batch.py": {"_common": 2, "_pairs": 1, "price_batch": 2, "worst_case_branch": 4},
        "accounting/loss_distributions.py": {"_composed": 1, "compose": 1},
        "guarantees/claim_sets.py": {"__post_init__": 1, "native_claims": 2, "of": 3},
        "guarantees/claims.py": {"__init__": 1, "_epsilon": 1, "_write": 4},
        "guarantees/curves.py": {"of": 1},
        "guarantees/units.py": {"rows_of_unit": 1},
        "guarantees/envelope_curve.py": {"__post_init__": 1},
        "quantiles/descend.py": {"paying": 1},
        "gaussians/point_cloud.py": {"_extreme_eigenvalues": 1},  # of simulated matrices
        "summaries/laplace_sums.py": {"laplace_sum_quantile": 1},
        "mechanisms/additive.py": {"__post_init__": 2, "_positive": 1, "_sensitivity": 2, "scale": 1},
        "mechanisms/budget.py": {"_price": 1, "of": 1, "on": 1},
        "mechanisms/goe_norm.py": {"goe_norm_quantile": 1},
        "mechanisms/noisy_moments.py": {"_law": 1},
        "mechanisms/objective_perturbation.py": {
            "__post_init__": 2,
            "_order_excess": 1,
            "_proved": 1,
            "grid_exponent": 1,
        },
        "noise/integers_and_coins.py": {"_base_measure": 2},
        "noise/lattice.py": {"exact_scale": 2, "scale_up": 2},
        "predictions/origin.py": {"__post_init__": 3},
        "records/numbers.py": {"exact_number": 3},
        "published/adassp.py": {"mu_squared": 1},
        "regression/losses/classes.py": {"__post_init__": 3},
        "regression/public_regulariser.py": {"__post_init__": 1},
        "synthesis/spaces.py": {"check_dense": 1},
        "synthesis/workload.py": {"attribute_sets": 1},
        "testing/seeded.py": {"_seed_bytes": 1},
    },
    NOISY: {
        "coded_groups.py": {"__post_init__": 1},  # of a table that is released
        "grid.py": {"__post_init__": 7},  # of an interval that was released
        # around quartiles that were released, and of our own laws
        "predictions/histogram.py": {"__post_init__": 2},
        "predictions/location_scale.py": {"__post_init__": 1},
        "predictions/mixture.py": {"__post_init__": 4, "hedge": 1, "is_prior": 1, "own_prior": 2},
        "predictions/compiled.py": {"exact_positive": 1, "finite": 3, "positive": 1},
        "summaries/count_rollup.py": {"rolled_up": 1},
        "summaries/intervals.py": {"_miss": 1},
        "summaries/count_tables.py": {"onto_simplex": 1, "readable_counts": 1},
        "summaries/moments.py": {"_two_moments": 1},
        "summaries/shrink.py": {"shrink": 1},
        "aggregates/mapped_vector.py": {"__post_init__": 5, "as_table": 2, "of": 4},
        "mechanisms/denoise.py": {"denoise": 2},
        "gaussians/estimate.py": {"estimate_cells": 1, "length": 1, "number_columns": 1, "ratio": 1, "budget_split": 2},
        "gaussians/point_cloud.py": {"as_point_cloud": 5, "for_columns": 1},
        "gaussians/step_arithmetic.py": {"__post_init__": 1, "possible_starts": 3},
        "guarantees/amounts.py": {"_index": 1, "_searched": 1},
        "guarantees/intervals.py": {"__init__": 1, "__truediv__": 1, "log": 1, "round_up": 1},
        "mechanisms/rings.py": {"_checked": 1, "adapt": 1},
        "mechanisms/rank_selection.py": {"check_selection": 4},
        "mechanisms/refinable_counts.py": {"refined": 2},  # one flag a leaf, once: flags follow from noisy counts
        "quantiles/forms/refined_counts.py": {"refined": 1},  # the same in rho
        # of a form that a released count chose: its levels lie inside cells that were released, and are kept apart
        "quantiles/bounds.py": {"_mass": 1, "_probability": 1, "gap_bounds_tree": 1},
        "quantiles/descend.py": {"descend": 2},
        "quantiles/forms/cells_plan.py": {"cells_plan": 1},
        "quantiles/tree.py": {"_inside": 2, "exact_levels": 5, "quantile_tree": 4},
        "release/values.py": {"__post_init__": 2, "at": 1},  # of scales that were released or are public
        "released_distribution.py": {"__init__": 3, "_bounds": 1},  # of released points, in their order
        "published/adaops.py": {"_terms": 1},
        "mechanisms/tests_and_bounds.py": {"_noisy": 1},
        "synthesis/answer_bounds.py": {"__post_init__": 1},
    },
    TYPES: {
        "records/engines/arrays.py": {"as_array": 1},  # of lists and arrays alone: `width_of_row` looks first
        "records/schema.py": {"_find": 3},
        "regression/rows.py": {"block": 2, "bounded_rows": 1},
        "regression/table_rows.py": {"range_of": 1},
        "synthesis/domain.py": {"axis": 1},
        "synthesis/measurement.py": {"from_cells": 1},
    },
    MACHINE: {
        "noise/source.py": {"_guard": 3, "note_idealized": 1},
        "noise/strips.py": {"_demand": 1},
    },
    NEVER: {
        # the meter, which looks at prices alone
        "mechanisms/exponential.py": {"choose": 1},
        "mechanisms/meter.py": {"add": 2, "settle": 1},
        "noise/source.py": {"_drawing": 1, "check_size": 1, "metered_by": 1, "over": 1, "paying": 1, "sampling": 1},
        "group_table.py": {"__getitem__": 1, "__init__": 1, "_column": 1},
        "aggregates/bounded.py": {"__post_init__": 2, "_frozen": 1},
        "noise/integers_and_coins.py": {
            "__init__": 1,
            "_integers": 2,
            "below": 1,
            "bernoulli": 1,
            "bernoulli_exp": 1,
            "integers_below": 1,
        },
        "noise/lattice.py": {"_scales": 3},
        "noise/continuous.py": {"public_grid": 1, "to_grid": 1},
        "noise/strips.py": {"_thresholds": 1},
    },
    PRICED: {
        "regression/fit_core.py": {"certified_minimum": 2},
    },
    THEOREM: {
        "regression/fit_core.py": {"certified_point": 1},
    },
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_everything_that_can_be_raised_after_the_charge_has_a_reason(record_property: Any) -> None:
    found = raises_after_the_charge()
    known = {
        (file, name): count
        for files in ALLOWED.values()
        for file, names in files.items()
        for name, count in names.items()
    }
    assert {place: count for place, count in found.items() if known.get(place, 0) < count} == {}
    assert len(found) > 40  # the walk itself works
    said = f"raised after the charge: {sum(found.values())} statements in {len(found)} functions; each has a reason"
    record_property("audit", said)


def test_the_list_is_of_functions_that_exist() -> None:
    for files in ALLOWED.values():
        for file, names in files.items():
            text = (SOURCE / file).read_text()
            assert all(f"def {name}(" in text for name in names), file


@pytest.mark.planted("a failure after the charge")
def test_the_walk_finds_a_planted_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    from sidelight.regression import fit_core

    def fails(*_: Any, **__: Any) -> Any:
        raise ValueError("planted")

    monkeypatch.setattr(fit_core, "certified_point", fails)
    prepared = queries()["LinearSVC"].prepare(sl.Schema(SCHEMA))
    table = sl.Table(dict(tables())["ordinary"], schema=SCHEMA)
    with pytest.raises(ValueError, match="planted"):
        _run_one(prepared, table, entropy=SeededEntropy(0))
