"""The tutorial on several tables runs as it is written, on TPC-H, and its numbers are those of the tables."""

from __future__ import annotations

import re
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sidelight.ledger import open_ledger

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "a-shop-in-several-tables.md"
QUARTER = "o_orderdate >= DATE '1995-01-01' AND o_orderdate < DATE '1995-04-01'"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tpchgen-cli") is None, reason="tpchgen-cli is not installed: pip install tpchgen-cli")
def test_the_page_runs_and_its_numbers_are_those_of_the_tables(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    import duckdb

    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    (commands,) = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    made = next(line for line in commands.splitlines() if line.startswith("tpchgen-cli"))
    subprocess.run(made.split(), check=True, capture_output=True)
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), found)
    with duckdb.connect() as connection:
        for path in (tmp_path / "shop").glob("*.parquet"):
            connection.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
        markets = connection.execute(
            f"""SELECT c_mktsegment, COUNT(DISTINCT c_custkey) FROM orders JOIN customer ON o_custkey = c_custkey
            WHERE {QUARTER} GROUP BY 1"""
        ).fetchall()
        late = connection.execute(
            f"""SELECT o_orderpriority, COUNT(DISTINCT o_custkey) FROM orders WHERE {QUARTER}
            AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_receiptdate > l_commitdate)
            AND (SELECT SUM(l_quantity) FROM lineitem WHERE l_orderkey = o_orderkey) >= 50 GROUP BY 1"""
        ).fetchall()
    counts = found["markets"].value
    names = list(counts["customer.c_mktsegment"])
    for segment, truth in markets:  # 20 standard deviations are 28 scales: less than one in 10^12
        at = names.index(segment)
        assert abs(float(counts["unbiased"][at]) - truth) <= 20 * float(counts["noise_sd"][at])
    shown = found["late"].shown
    answers = {str(shown["o_orderpriority"][at]): float(shown["customers"][at]) for at in range(len(late))}
    for priority, truth in late:  # noise of scale 8, and few customers in more than two groups
        assert abs(answers[priority] - truth) <= 28 * 8 + 0.2 * truth
    with open_ledger("sqlite:///budget.db") as ledger:
        charged = {scope.scope_id: Fraction(scope.totals().epsilon, 10**30) for scope in ledger.scopes()}
        half = Fraction(1, 2)
        quarters = {f"shop:periods:1995-Q{number}": half for number in (1, 2, 3)}
        assert charged == {"shop": 3 * half / 2, "shop:periods": half, **quarters}
        assert ledger.verify().ok
    assert "does not fit scope 'shop:periods:1995-Q1'" in capsys.readouterr().out
