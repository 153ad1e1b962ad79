"""The release pipeline: charges first, no refunds, and no leaks of private values."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import pytest

import sidelight as sl
from probes import PreparedProbe
from sidelight.errors import BudgetError, LedgerError, RangeError, ReleaseFailedError, SchemaError, StrictError
from sidelight.guarantees import Claims, PureDP
from sidelight.noise import OSEntropy, Source, standard_normal
from sidelight.records import Schema, Table
from sidelight.session import Answer, Refusal
from sidelight.session.accounts import OneOffAccount, UnrecordedReservation
from sidelight.session.pipeline import release_batch_through, release_through
from sidelight.session.query import Prepared
from sidelight.testing import SeededEntropy, SeededSession

QUERY = sl.Quantiles([0.5], epsilon=0.1)
TABLE = Table({"x": [1.0, 2.0, 987654.321]}, schema=[sl.Number("x")], name="people")


class Diary(OneOffAccount):
    """An account that records the steps of the release pipeline, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def reserve(self, claims: Claims, *, request: Mapping[str, Any], key: str | None = None, **rest: Any) -> Any:
        super().reserve(claims, request=request, key=key, **rest)
        self.lines.append("reserved")
        diary = self

        class Reservation(UnrecordedReservation):
            def release(self, text: str) -> str:
                diary.lines.append("released")
                return "head"

            def refuse(self, text: str) -> str:
                diary.lines.append("refused")
                return "head"

            def fail(self) -> None:
                diary.lines.append("failed")

        return Reservation(entry_id="e#1")


class Probe:
    """A query whose run is whatever a test wants."""

    def __init__(self, run: Any, *, numerics: Literal["exact", "idealized"] = "exact") -> None:
        claims = Claims.of(PureDP(1, numerics=numerics))
        self._prepared = PreparedProbe(claims=claims, request={"kind": "probe"}, function=run)

    def prepare(self, schema: Schema) -> Prepared:
        return self._prepared


def ask(run: Any, account: Any = None, **rest: Any) -> Any:
    numerics = rest.pop("numerics", "exact")
    entropy = rest.pop("entropy", OSEntropy())
    return release_through(Probe(run, numerics=numerics), TABLE, account or Diary(), entropy=entropy, **rest)


def test_the_charge_is_written_before_the_data_is_opened() -> None:
    diary = Diary()

    def run(table: Table, source: Source) -> Answer:
        diary.lines.append("opened")
        return Answer(value=1)

    outcome = ask(run, diary)
    assert diary.lines == ["reserved", "opened", "released"]
    assert outcome.circumstances.ledger_head == "head"
    assert outcome.circumstances.entry_id == "e#1"


def test_a_refusal_is_a_paid_result() -> None:
    diary = Diary()
    outcome = ask(lambda table, source: Refusal(reason="the test said no"), diary)
    assert isinstance(outcome, sl.Refused)
    assert diary.lines == ["reserved", "refused"]
    assert sl.outcome_from_json(outcome.to_json()) == outcome
    assert "the test said no" in str(outcome)


@pytest.mark.parametrize(("answers", "recorded"), [((False, False), "refused"), ((False, True), "released")])
def test_a_batch_without_an_answer_is_recorded_as_refused(answers: tuple[bool, ...], recorded: str) -> None:
    diary = Diary()
    queries = [
        Probe(lambda table, source, told=told: Answer(value=1) if told else Refusal(reason="the test said no"))
        for told in answers
    ]
    outcomes = release_batch_through(queries, TABLE, diary, delta="1e-9", entropy=OSEntropy())
    assert diary.lines == ["reserved", recorded]
    assert [isinstance(each, sl.Release) for each in outcomes] == list(answers)


def test_a_failure_keeps_the_charge_and_hides_its_cause() -> None:
    diary = Diary()

    def run(table: Table, source: Source) -> Answer:
        raise ValueError(f"could not handle {table.rows}, 987654.321")

    with pytest.raises(ReleaseFailedError) as caught:
        ask(run, diary)
    assert diary.lines == ["reserved", "failed"]
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "987654" not in str(caught.value)


def test_an_interrupt_keeps_the_charge_and_passes() -> None:
    diary = Diary()

    def run(table: Table, source: Source) -> Answer:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(run, diary)
    assert diary.lines == ["reserved", "failed"]


def test_an_exit_passes_its_status_and_no_text() -> None:
    def run(table: Table, source: Source) -> Answer:
        raise SystemExit("987654.321")

    with pytest.raises(SystemExit) as caught:
        ask(run)
    assert caught.value.code == 1


def test_with_seeded_noise_the_cause_is_shown() -> None:
    def run(table: Table, source: Source) -> Answer:
        raise ZeroDivisionError("a defect")

    with pytest.raises(ZeroDivisionError, match="a defect"):
        ask(run, entropy=SeededEntropy(1))


def test_strict_refuses_idealized_numerics_before_the_charge() -> None:
    diary = Diary()
    with pytest.raises(StrictError, match="strict=True"):
        ask(lambda table, source: Answer(value=1), diary, numerics="idealized", strict=True)
    assert diary.lines == []


def test_a_draw_that_contradicts_the_declaration_is_not_released() -> None:
    diary = Diary()

    def run(table: Table, source: Source) -> Answer:
        return Answer(value=float(standard_normal(1, source)[0]))

    with pytest.raises(StrictError):
        ask(run, diary)
    assert diary.lines == ["reserved", "failed"]


def test_a_value_that_is_not_a_number_is_never_released() -> None:
    diary = Diary()
    with pytest.raises(ReleaseFailedError):
        ask(lambda table, source: Answer(value=float("nan")), diary)
    assert diary.lines == ["reserved", "failed"]


def test_a_one_off_account_grants_once() -> None:
    account = OneOffAccount()
    ask(lambda table, source: Answer(value=1), account)
    with pytest.raises(LedgerError, match="single release"):
        ask(lambda table, source: Answer(value=1), account)


def test_every_release_draws_fresh_noise() -> None:
    query = sl.Count(epsilon="1e-12")
    found = {float(query.release(TABLE).value["unbiased"][0]) for _ in range(5)}
    assert len(found) == 5  # numbers of about 1e12: one of ten pairs is equal by chance once in 1e11


class TestSession:
    def test_it_never_overspends(self) -> None:
        session = sl.Session(TABLE, budget=sl.PureDP(1))
        for _ in range(10):
            session.release(sl.Quantiles([0.5], epsilon=0.1))
        with pytest.raises(BudgetError) as caught:
            session.release(sl.Quantiles([0.5], epsilon="1e-15"))
        assert caught.value.requested
        assert caught.value.remaining
        assert caught.value.difference

    def test_a_budget_is_meant_for_the_unit_of_the_schema(self) -> None:
        table = Table(
            {"x": [1.0, 2.0], "who": [1, 1]}, schema=[sl.Number("x"), sl.PersonId("who", max_rows=2)], name="visits"
        )
        session = sl.Session(table, budget=sl.PureDP(1))
        release = session.release(sl.Quantiles([0.5], column="x", epsilon=1))
        assert release.guarantee.unit == table.schema.unit
        assert session.remaining.epsilon is None

    def test_refused_requests_never_open_the_data(self) -> None:
        session = sl.Session(TABLE, budget=sl.PureDP(1))
        session._data = _unreadable(TABLE)
        with pytest.raises(BudgetError):
            session.release(sl.Quantiles([0.5], epsilon=2))
        with pytest.raises(SchemaError):
            session.release(sl.Quantiles([0.5], epsilon=0.5, column="no such column"))
        with pytest.raises(ReleaseFailedError):  # the control: a request that fits does open it
            session.release(sl.Quantiles([0.5], epsilon=0.5))

    def test_a_key_needs_a_ledger(self) -> None:
        with pytest.raises(LedgerError, match="ledger="):
            sl.Session(TABLE, budget=sl.PureDP(1)).release(sl.Quantiles([0.5], epsilon=0.1), key="monday")

    def test_it_wants_a_table(self) -> None:
        with pytest.raises(sl.errors.SchemaError, match=r"sl\.Table"):
            sl.Session([1, 2, 3], budget=sl.PureDP(1))  # type: ignore[arg-type]

    def test_an_account_cannot_be_copied(self) -> None:
        import copy
        import pickle

        account = sl.Session(TABLE, budget=sl.PureDP(1))._account
        for copier in (copy.deepcopy, copy.copy, pickle.dumps):
            with pytest.raises(TypeError, match="spend"):
                copier(account)

    def test_a_batch_is_one_charge(self, tmp_path: Any) -> None:
        url = f"sqlite:///{tmp_path}/budget.db"
        session = sl.Session(TABLE, budget=sl.ApproxDP(3, "1e-6"), ledger=url)
        queries = [sl.Quantiles([0.5], epsilon="0.05") for _ in range(20)]
        together = session.release_together(queries, delta="1e-8", key="plan")
        assert len(together) == 20
        assert len(session._account.entries()) == 1
        spent = session.spent
        again = session.release_together(queries, delta="1e-8", key="plan")
        assert again == together
        assert session.spent == spent
        with pytest.raises(RangeError, match="at least one query"):
            session.release_together([], delta="1e-8")

    def test_a_stored_release_is_free_and_equal(self, tmp_path: Any) -> None:
        url = f"sqlite:///{tmp_path}/budget.db"
        first = sl.Session(TABLE, budget=sl.PureDP(1), ledger=url).release(sl.Quantiles([0.5], epsilon=0.6), key="a")
        second = sl.Session(TABLE, budget=sl.PureDP(1), ledger=url).release(sl.Quantiles([0.5], epsilon=0.6), key="a")
        assert second == first
        assert second.circumstances.ledger_head
        with pytest.raises(BudgetError):
            sl.Session(TABLE, budget=sl.PureDP(1), ledger=url).release(sl.Quantiles([0.5], epsilon=0.6), key="b")


def _unreadable(table: Table) -> Any:
    class Unreadable(Table):
        def __init__(self) -> None:
            self._schema, self._name, self._rows, self._database = table.schema, table.name, table.rows, None

        @property
        def rows(self) -> Any:
            raise AssertionError("the data was opened")

    return Unreadable()


def test_charges_of_one_run_carry_one_time(tmp_path: Any) -> None:
    session = sl.Session(TABLE, budget=sl.PureDP(1), ledger=f"sqlite:///{tmp_path}/budget.db", one_run=True)
    for _ in range(3):
        session.release(sl.Quantiles([0.5], epsilon=0.1))
    assert len({entry.at_utc for entry in session._account.entries()}) == 1


def test_seeded_noise_and_real_noise_keep_to_their_ledgers(tmp_path: Any) -> None:
    testing = sl.open_ledger(f"sqlite:///{tmp_path}/testing.db", testing=True)
    real = sl.open_ledger(f"sqlite:///{tmp_path}/real.db")
    assert not SeededSession(TABLE, seed=1, budget=sl.PureDP(1), ledger=testing).release(QUERY).private
    with pytest.raises(LedgerError, match="not private"):
        SeededSession(TABLE, seed=1, budget=sl.PureDP(1), ledger=real)
    with pytest.raises(LedgerError, match="for tests"):
        sl.Session(TABLE, budget=sl.PureDP(1), ledger=testing)


@pytest.mark.parametrize("error", [OverflowError, ZeroDivisionError, FloatingPointError, RecursionError])
def test_arithmetic_that_fails_before_the_charge_is_about_a_public_number(error: type[Exception]) -> None:
    class Unlucky:
        def prepare(self, schema: Any) -> Any:
            raise error("what Python says")

    table = sl.Table({"a": [1.0]}, schema=[sl.Number("a")])
    session = sl.Session(table, budget=sl.PureDP(1))
    before = str(session.spent)
    said = "a condition or expression of it" if error is RecursionError else "one of its public numbers"
    with pytest.raises(RangeError, match=f"Unlucky cannot be prepared: {said}") as caught:
        session.release(Unlucky())
    assert "Nothing was charged" in str(caught.value)
    assert str(session.spent) == before


def test_a_vote_with_too_little_noise_is_refused_in_words() -> None:
    table = sl.Table({"y": ["p"]}, schema=[sl.Category("y", ["p", "q"], other=None)])
    with pytest.raises(RangeError, match="noise_scale must be from 1e-9"):
        SeededSession(table, budget=sl.ApproxDP(10, "1e-4"), seed=1).release(
            sl.MajorityVote("y", noise_scale="1e-10", epsilon=10, delta="1e-6")
        )


def test_once_gives_a_key_one_attempt(tmp_path: Path) -> None:
    """A second charge for a retry after failure; with `once`, an error without charge."""
    table = sl.Table({"age": [31.0, 47.0]}, schema=[sl.Number("age", lower=0, upper=100)], name="people")
    opened = []

    class Failing:
        def prepare(self, schema: sl.Schema) -> Prepared:
            prepared = sl.Count(epsilon="0.1").prepare(schema)

            def run(*given: Any) -> Any:
                opened.append(given)
                raise ValueError("a record")

            object.__setattr__(prepared, "run", run)
            return prepared

    session = sl.Session(table, budget=sl.PureDP(1), ledger=tmp_path / "ledger.db")
    for once in (False, False, True, True):
        with pytest.raises(ReleaseFailedError) as failed:
            session.release(Failing(), key="monday", once=once)
        assert ("once=True" in str(failed.value)) == once
    assert len(opened) == 2
    assert session.remaining.epsilon == Fraction("0.8")
    with pytest.raises(ReleaseFailedError, match="once=True"):
        session.release(Failing(), key="monday", once=True)
    assert session.release(sl.Count(epsilon="0.1"), key="tuesday", once=True) == session.release(
        sl.Count(epsilon="0.1"), key="tuesday", once=True
    )
