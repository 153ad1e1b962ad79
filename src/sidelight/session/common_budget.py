"""`CommonBudget`: one promise to the same people about several data sets, each with a budget of its own.

The scope of every session is a child of one scope for the people, so that each charge is granted by both or by neither
(accounting proof page). A person of one table (`Person`) and a person of a database (`PersonOf`) are both persons of
the parent: that they are the same people is what naming it declares.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.accounting import Rule
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Claim, Neighbours, Numerics, Person, PersonOf, Unit
from sidelight.ledger import Ledger, Scope
from sidelight.session.accounts import budget_for


@dataclass(frozen=True)
class CommonBudget:
    """Promise the same people one budget for several data sets together.

    Guarantee: everything ever released under all sessions with this parent satisfies `budget` for one person with all
    their rows in all of the data sets, and what each session releases satisfies its own budget. That the people are the
    same is declared and not checked; somebody in one data set alone is promised no less.

    Args:
        name: The public name of the people, and of the scope in the ledger.
        budget: What everything about one of them together must keep; fixed for good by the first session that names it.

    >>> import tempfile, sidelight as sl
    >>> people = CommonBudget("people", sl.PureDP(1))
    >>> ledger = f"{tempfile.mkdtemp()}/budget.db"
    >>> columns = [sl.PersonId("who", max_rows=9), sl.Category("sex", ["F", "M"])]
    >>> rows = {"who": [1, 2], "sex": ["F", "M"]}
    >>> shop, clinic = (sl.Table(rows, schema=columns, name=name) for name in ("shop", "clinic"))
    >>> release = sl.Session(shop, budget=sl.PureDP(1), ledger=ledger, parent=people).release(sl.Count(epsilon="0.75"))
    >>> print(sl.Session(clinic, budget=sl.PureDP(1), ledger=ledger, parent=people).remaining)
    left: one pure query up to ε = 0.25
    """

    name: str
    budget: Claim

    def __post_init__(self) -> None:
        PersonOf(self.name)  # says what is wrong with it
        budget_for(self.budget, PersonOf(self.name))

    @property
    def rule(self) -> Rule:
        """The rule by which requests of the data sets are granted together."""
        return Rule.again_for(self._budget)

    @property
    def _budget(self) -> Claim:
        return self.budget.under(unit=PersonOf(self.name), neighbours=Neighbours.ADD_REMOVE)

    def check(self, unit: Unit, *, scope: str, ledger: bool) -> None:
        """Refuse a session whose claims say nothing about these people. Opens no ledger.

        Args:
            unit: What the session protects.
            scope: How its data is called in the ledger.
            ledger: Whether it has one.
        """
        if not ledger:
            raise RangeError("a common budget is kept in the ledger that all of its sessions share; pass ledger=...")
        if not isinstance(unit, (Person, PersonOf)):
            raise SchemaError(
                f"a common budget protects people, and this session one {unit}; declare a sl.PersonId(...)"
            )
        if scope == self.name:
            raise RangeError(f"the data and its people are both called {scope!r} in the ledger; rename one of them")

    def open(self, ledger: Ledger) -> Scope:
        """Return the scope that all sessions of these people are charged to as well.

        Args:
            ledger: The ledger that they share.

        Returns:
            The scope, made if there is none.
        """
        return ledger.open_scope(self.name, budget=self._budget)

    def statement(self, *, numerics: Numerics = "exact", seeded: bool = False) -> str:
        """Return the sentence that may be published about everything released about these people.

        Args:
            numerics: "idealized" if any of it was, in whichever of the data sets.
            seeded: Whether the ledger is for tests.

        Returns:
            The sentence, with a second one on what idealized means where it is.
        """
        return self.rule.statement(numerics=numerics, seeded=seeded).replace(
            "this budget", f"this budget and the others of {self.name}", 1
        )
