"""Budgets of two scopes over the same people add up: nothing in the product advises a second one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sidelight
from sidelight.errors import BudgetError, LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger

ADVICE = re.compile(
    r"""(open|use|make|start|take|with|give|for|terms,|clients)\s+((a\s+)?new|another)\s+(scope|ledger)s?\b(?!\s+(over|adds))
    | \bgive\b[^.;]{0,20}\ba\s+(scope|ledger)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def test_a_refusal_says_what_is_safe(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(
        BudgetError, match=r"Ask for less: .* a new scope over the same people adds its budget"
    ) as refused:
        scope.reserve(Claims.of(PureDP(2)), request={"kind": "x"})
    assert "common parent" in str(refused.value)
    with pytest.raises(LedgerError, match="over the same people adds its budget"):
        file_ledger.open_scope("people", budget=PureDP(2))
    scope.close()
    with pytest.raises(LedgerError, match="over the same people adds its budget"):
        scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"})


def test_no_text_of_the_product_advises_a_second_budget() -> None:
    root = Path(sidelight.__file__).parent
    files = [*root.rglob("*.py"), *root.rglob("*.html")]
    documents = root.parents[1] / "docs"
    files += [*documents.rglob("*.md"), *documents.parent.glob("README.md")] if documents.is_dir() else []
    assert ADVICE.search("Ask for less, or open a new scope with its own budget")
    assert ADVICE.search("a new agreement, with a new ledger")
    assert ADVICE.search("give the new one a scope and a state of its own")
    wrong = []
    for file in files:
        text = re.sub(r'"\s*\n\s*f?"', "", file.read_text(encoding="utf-8"))  # a text over several lines
        wrong += [f"{file.name}: {found[0]}" for found in ADVICE.finditer(text)]
    assert wrong == []
