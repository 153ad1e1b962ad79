"""`sidelight plan` prices an additive model and forecasts how well it predicts, without its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidelight.cli import main

PLAN = """
[source]
path = "rows.csv"
[budget]
epsilon = 3
delta = 1e-6
[[column]]
name = "age"
kind = "number"
lower = 0
upper = 100
[[column]]
name = "income"
kind = "number"
lower = 0
upper = 1000
[[query]]
title = "curves"
kind = "additive_regression"
target = "income"
rows = 1000
epsilon = 1
delta = 1e-6
"""


def test_an_additive_model_is_priced_and_forecast(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.toml").write_text(PLAN, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(tmp_path / "plan.toml")])
    assert not ended.value.code
    told = " ".join(capsys.readouterr().out.split())
    assert "GDP(μ = " in told
    assert "Forecast of 'curves' on new rows: R² about" in told
    assert "1,000 rows of the declared shape" in told
