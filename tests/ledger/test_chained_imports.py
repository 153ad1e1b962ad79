"""Exports of ledgers that hold imports themselves: laptop, department, centre. No charge is lost on the way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sidelight.errors import ClaimError, LedgerError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claims, Context, PureDP
from sidelight.ledger import Ledger, Reservation, exchange, open_ledger
from sidelight.ledger.chain import canonical
from sidelight.ledger.entries import shares_by_charge

pytestmark = pytest.mark.filterwarnings("ignore:.*(protects little|lets whole records out)")
ONE = 10**30
BUDGET = ApproxDP(50, "1e-3")
KEY = bytes(range(32))
#: What every ledger has: a scope alone, a parent with two children, and a scope in three parts.
PARENTS = {"solo": None, "top": None, "a": "top", "z": "top", "n": None, "m": "n", "o": "n", "p": "n"}


def pure(epsilon: str) -> Claims:
    return Claims.of(PureDP(epsilon))


def spend(ledger: Ledger, claims: Mapping[str, Claims], *, delta: Fraction | None = None) -> None:
    result = ledger.reserve(claims, request={"kind": "x"}, delta=delta)
    assert isinstance(result, Reservation)
    result.release("{}")


def with_scopes(path: Path) -> Ledger:
    ledger = open_ledger(path)
    for name, parent in PARENTS.items():
        parts = {"partitioned_by": "country"} if name == "n" else {}
        ledger.open_scope(name, budget=BUDGET, routes=["basic", "gdp", "zcdp"], parent=parent, **parts)
    return ledger


def passed_on(ledger: Ledger, source: Ledger, path: Path, **how: Any) -> int:
    source.export(path)
    return ledger.import_events(path, **how).booked


def test_charges_of_an_import_are_passed_on_one_by_one(tmp_path: Path) -> None:
    laptop, department, centre = (open_ledger(tmp_path / name) for name in ("laptop.db", "department.db", "centre.db"))
    for ledger in (laptop, department, centre):
        ledger.open_scope("people", budget=PureDP(1))
    for _ in range(3):
        spend(laptop, {"people": pure("0.3")})
    assert passed_on(department, laptop, tmp_path / "laptop") == 3
    assert passed_on(centre, department, tmp_path / "department") == 3
    assert [ledger.scope("people").totals().epsilon for ledger in (department, centre)] == [9 * ONE // 10] * 2
    assert centre.scope("people").remaining().epsilon == Fraction(1, 10)
    assert passed_on(centre, department, tmp_path / "department") == 0
    assert centre.verify().ok


def some_claims(draw: random.Random) -> tuple[Claims, Fraction | None]:
    """Return claims of some kind, exact or idealized, and the delta that they were declared at."""
    amount, context = Fraction(draw.randint(1, 9), 100), Context(numerics=draw.choice(["exact", "exact", "idealized"]))
    return draw.choice(
        [
            (Claims.of(PureDP(amount, **context)), None),
            (Claims.of(ZCDP(amount, **context)), None),
            (Claims.of(GDP(amount, **context)), None),
            (Claims.of(GDP(amount, **context)), Fraction("1e-6")),
            (Claims.of(GDP(amount, **context), ApproxDP(amount, "1e-7", **context)), None),
        ]
    )


def some_charge(draw: random.Random) -> tuple[dict[str, Claims], Fraction | None]:
    """Return a charge: to one scope, to two without a person in common, or to all of a family."""
    claims, delta = some_claims(draw)
    names = draw.choice([*([name] for name in PARENTS), ["solo", "m"], ["m", "p"], ["a", "top", "z"], ["n", "o"]])
    return dict.fromkeys(names, claims), delta


def reached(claims: Mapping[str, Claims]) -> list[tuple[str, str]]:
    """Return what a charge adds to which scope: a part's charge reaches the whole, unless that states its own."""
    found = [(name, own) for name, own in claims.items()]
    found += [
        (str(PARENTS[name]), own) for name, own in claims.items() if PARENTS[name] and PARENTS[name] not in claims
    ]
    return [(name, canonical(own.to_json())) for name, own in found]


@pytest.mark.parametrize("seed", range(8))
def test_no_charge_is_lost_in_random_trees_of_ledgers(tmp_path: Path, seed: int) -> None:
    """Chains, diamonds and repeated imports: each way on which a charge arrives counts it once, and none loses it."""
    draw = random.Random(f"trees of ledgers {seed}")
    ledgers = [with_scopes(tmp_path / f"{number}.db") for number in range(4)]
    charges: list[list[list[tuple[str, str]]]] = [[] for _ in ledgers]  # of each ledger, in order
    taken: Counter[tuple[int, int]] = Counter()
    for step in range(36):
        target = draw.randrange(4)
        source = draw.randrange(target + 1)
        if source == target or step < 6:
            claims, delta = some_charge(draw)
            spend(ledgers[target], claims, delta=delta)
            charges[target].append(reached(claims))
            continue
        new = charges[source][taken[source, target] :]
        assert passed_on(ledgers[target], ledgers[source], tmp_path / "export") == len(new)
        charges[target] += new
        taken[source, target] = len(charges[source])
    for ledger, booked in zip(ledgers, charges, strict=True):
        assert ledger.verify().ok
        wanted = Counter(pair for charge in booked for pair in charge)
        found = Counter(
            (scope.scope_id, canonical(claims.to_json())) for scope in ledger.scopes() for claims in scope.charged()
        )
        assert found == wanted
        for scope in ledger.scopes():
            idealized = any('"idealized"' in text for name, text in wanted if name == scope.scope_id)
            assert scope.numerics() == ("idealized" if idealized else "exact")
            assert ("; idealized)" in scope.statement()) == idealized


def as_before_06(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write imports as 0.1.0 to 0.5.0 did: without the events that they booked."""
    written = exchange.append

    def without_events(*arguments: Any, body: Any, **more: Any) -> Any:
        source = {name: value for name, value in (body["source"] or {}).items() if name != "events"}
        return written(*arguments, body={**body, "source": source or None}, **more)

    monkeypatch.setattr(exchange, "append", without_events)


def losing(history: Any) -> Any:
    """Leave in a history what 0.1.0 to 0.5.0 booked of it: of an imported import the last charge."""
    history.charges = list({event.seq: (event, charge) for event, charge in history.charges}.values())
    return history


def test_imports_of_versions_that_lost_charges_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop, department, centre = (with_scopes(tmp_path / name) for name in ("laptop.db", "department.db", "centre.db"))
    for epsilon in ("0.1", "0.2", "0.3"):
        spend(laptop, {"a": pure(epsilon)})
    with monkeypatch.context() as patched:
        as_before_06(patched)
        assert passed_on(department, laptop, tmp_path / "laptop") == 3
        patched.setattr("sidelight.ledger.ledger.read_export", lambda *a, **k: losing(exchange.read_export(*a, **k)))
        assert passed_on(centre, department, tmp_path / "department") == 1
    assert [centre.scope(name).totals().epsilon for name in ("a", "top")] == [3 * ONE // 10] * 2
    spend(department, {"a": pure("0.05")})
    assert passed_on(centre, department, tmp_path / "department") == 3  # the two that were lost, and the new one
    assert [centre.scope(name).totals().epsilon for name in ("a", "top")] == [65 * ONE // 100] * 2
    assert passed_on(centre, department, tmp_path / "department") == 0
    assert passed_on(department, laptop, tmp_path / "laptop") == 0
    assert centre.verify().ok


def test_an_older_export_after_an_import_of_an_earlier_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop, centre = (with_scopes(tmp_path / name) for name in ("laptop.db", "centre.db"))
    spend(laptop, {"a": pure("0.1")})
    laptop.export(tmp_path / "first")
    spend(laptop, {"a": pure("0.1")})
    with monkeypatch.context() as patched:
        as_before_06(patched)
        assert passed_on(centre, laptop, tmp_path / "second") == 2
    with pytest.raises(LedgerError, match="older copy"):
        centre.import_events(tmp_path / "first")


@pytest.mark.parametrize("seed", range(20))
def test_charges_are_separated_without_their_sizes(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Imports of earlier versions: two charges are taken for one only where they have no account in common."""
    draw = random.Random(f"sizes {seed}")
    source, target = with_scopes(tmp_path / "source.db"), with_scopes(tmp_path / "target.db")
    for _ in range(6):
        claims, delta = some_charge(draw)
        spend(source, claims, delta=delta)
    assert passed_on(target, source, tmp_path / "export") == 6
    body: Any = target.events()[-1].content
    sizes = [int(size) for _, size in body["source"].pop("events")]
    known = {sum(sizes[:number]) for number in range(len(sizes))}
    found = shares_by_charge(body)
    assert sum(map(len, found)) == sum(sizes)
    starts = {sum(map(len, found[:number])) for number in range(len(found))}
    assert starts <= known  # no charge is cut in two
    for charge in found:
        accounts = [(share.scope_id, share.part) for share in charge]
        own = {name for name, part in accounts if part is None}
        assert len(set(accounts)) == len(accounts)
        assert not any(name in own for name, part in accounts if part is not None)


@pytest.mark.parametrize("sizes", [["1"], ["1", "1", "1"], ["2", "0"], ["2"], ["x", "1"]])
def test_an_import_that_does_not_say_what_is_one_charge(tmp_path: Path, sizes: list[str]) -> None:
    """Two charges to one scope that are called one would be one of them: the other would be lost."""
    source, target = with_scopes(tmp_path / "source.db"), with_scopes(tmp_path / "target.db")
    spend(source, {"solo": pure("0.1")})
    spend(source, {"solo": pure("0.2")})
    real = exchange.append

    def forged(*arguments: Any, body: Any, **more: Any) -> Any:
        events = [["0" * 64, size] for size in sizes]
        return real(*arguments, body={**body, "source": {**body["source"], "events": events}}, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exchange, "append", forged)
        passed_on(target, source, tmp_path / "export")
    assert not target.verify().ok
    target.export(tmp_path / "forged")
    last = with_scopes(tmp_path / "last.db")
    with pytest.raises(LedgerError, match="broken"):
        last.import_events(tmp_path / "forged")


def test_a_request_on_two_data_sets_is_not_imported_by_halves(tmp_path: Path) -> None:
    """A Gaussian towards each costs a person in both 2 mu, and not the root of 2 mu squared."""
    with open_ledger(tmp_path / "source.db") as source:
        for name in ("visits", "bills"):
            source.open_scope(name, budget=GDP(9))
        spend(source, dict.fromkeys(("visits", "bills"), Claims.of(GDP("0.5"))))
        source.export(tmp_path / "export")
    here = open_ledger(tmp_path / "here.db")
    for name in ("all", "visits", "bills"):
        here.open_scope(name, budget=GDP(9), parent=None if name == "all" else "all")
    with pytest.raises(ClaimError, match="meet in 'all'"):
        here.import_events(tmp_path / "export")
    assert here.import_events(tmp_path / "export", into={"visits": "visits"}).booked == 1
    for into in ({"bills": "bills"}, {"bills": "all"}, None):
        with pytest.raises(LedgerError, match=r"charged 'bills' and 'visits'.*meet in 'all'.*record_external"):
            here.import_events(tmp_path / "export", into=into)
    here.scope("all").record_external(Claims.of(GDP(1)), note="both")
    apart = open_ledger(tmp_path / "apart.db")
    for name in ("visits", "bills"):
        apart.open_scope(name, budget=GDP(9))
        assert apart.import_events(tmp_path / "export", into={name: name}).booked == 1
    assert here.verify().ok


def test_parts_of_one_request_may_be_imported_one_by_one(tmp_path: Path) -> None:
    source, target = with_scopes(tmp_path / "source.db"), with_scopes(tmp_path / "target.db")
    spend(source, dict.fromkeys(("m", "p"), Claims.of(GDP("0.5"))))
    for name in ("m", "p"):  # nobody is in two parts
        assert passed_on(target, source, tmp_path / "export", into={name: name}) == 1
    assert target.scope("n").totals().mu_squared == ONE // 4
    assert target.verify().ok


def test_the_scope_itself_is_not_named_beside_it(file_ledger: Ledger) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    with pytest.raises(LedgerError, match="beside names 'people' itself"):
        scope.reserve(pure("0.5"), beside={"people": pure("0.1")}, request={"kind": "x"})
    assert scope.totals().epsilon == 0


SPENT_ON_A_COPY = """
import shutil
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import journal, open_ledger
for name, amounts in {copies}:
    journal._newest.clear()  # each copy is spent from in a process of its own
    shutil.copy({office!r}, name)
    with open_ledger(name, key={key!r}) as ledger:
        for number, amount in enumerate(amounts):
            ledger.scope("people").reserve(Claims.of(PureDP(amount)), request={{"kind": "x"}}).release("y")
            result = ledger.export(f"{{name}}.{{number}}")
"""


@pytest.mark.parametrize("key", [None, KEY])
def test_copies_are_imported_from_where_they_part(
    tmp_path: Path, key: bytes | None, beside: Callable[[str], Any]
) -> None:
    with open_ledger(tmp_path / "office.db", key=key) as office:
        scope = office.open_scope("people", budget=PureDP(1))
        spend(office, {"people": pure("0.1")})
    one, two = str(tmp_path / "one.db"), str(tmp_path / "two.db")
    copies = [(one, ["0.2", "0.05"]), (two, ["0.3"])]
    beside(SPENT_ON_A_COPY.format(copies=copies, office=str(tmp_path / "office.db"), key=key))
    with open_ledger(tmp_path / "office.db", key=key) as office:
        scope = office.scope("people")
        spend(office, {"people": pure("0.01")})  # both have gone on since
        for export, booked, total in (
            (f"{one}.0", 1, 31),
            (f"{one}.0", 0, 31),
            (f"{two}.0", 1, 61),
            (f"{one}.1", 1, 66),
            (f"{one}.0", 0, 66),
            (f"{two}.0", 0, 66),
        ):
            assert office.import_events(export, key=key).booked == booked
            assert scope.totals().epsilon == total * ONE // 100
        assert office.verify().ok
        office.export(tmp_path / "office.jsonl")
    with open_ledger(tmp_path / "centre.db") as centre:  # two copies of a ledger that is not this one
        scope = centre.open_scope("people", budget=PureDP(2))
        assert [centre.import_events(f"{name}.0", key=key).booked for name in (one, two)] == [2, 1]
        assert centre.import_events(tmp_path / "office.jsonl", key=key).booked == 4  # 0.01, and by another way the rest
        assert scope.totals().epsilon >= 66 * ONE // 100
        assert centre.verify().ok
