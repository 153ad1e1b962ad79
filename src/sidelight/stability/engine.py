"""Propose, test, release: what every mechanism of this package is to the door.

Two shapes. `DistanceProposal`: an integer distance says whether the proposal is safe, and the release follows or not.
`CertifiedProposal`: a private bound is released first, a parameter is chosen from that bound alone, and the release
follows with the parameter. `choose` never sees the data: it gets the certificate and nothing else. The door has charged
before either begins, and charges a refusal like a release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from sidelight.guarantees import Claims, PureDP
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import DistanceTest
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.release import TailBound
from sidelight.session.query import Answer, Prepared, Refusal
from sidelight.stability.budgets import RowBudget

Secret = TypeVar("Secret")
Certificate = TypeVar("Certificate")
Parameter = TypeVar("Parameter")

Numerics = Literal["exact", "idealized"]
_THEOREM = "stability proof page, section 2"


class DistanceProposal(Protocol[Secret]):
    """A proposal with an integer distance to the nearest data set where it is wrong."""

    def look(self, table: Table, source: Source) -> Secret:
        """Read what is needed of the rows, once. Secret."""
        ...

    def distance(self, secret: Secret, *, cap: int) -> int:
        """Return how many records must change until the proposal is wrong, at most `cap`. Secret; one record: one."""
        ...

    def release(self, secret: Secret, source: Source) -> Answer:
        """Run the mechanism, which is as private as stated wherever the distance is not 0."""
        ...


class CertifiedProposal(Protocol[Secret, Certificate, Parameter]):
    """A family of mechanisms with a private route to an upper bound of their loss."""

    def look(self, table: Table, source: Source) -> Secret:
        """Read what is needed of the rows, once. Secret."""
        ...

    def certify(self, secret: Secret, source: Source) -> Certificate:
        """Release, with noise, numbers from which a bound of the loss follows."""
        ...

    def choose(self, certificate: Certificate) -> Parameter | None:
        """Choose the parameter from the certificate alone; None if none is good enough."""
        ...

    def release(self, secret: Secret, parameter: Parameter, source: Source) -> Answer | Refusal:
        """Run the mechanism with this parameter; a private selection may come out empty."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class _Proposed(Prepared):
    refusal: str
    within: Claims

    def _price(self, law: str) -> DrawPrice:
        """Return the price of everything: the unit's (ε, δ), which includes what single draws cost a row."""
        return DrawPrice(law=law, claims=self.claims, theorem=_THEOREM, covers=self.within)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTest(_Proposed, Generic[Secret]):
    """A `DistanceProposal` proposal with its price."""

    proposal: DistanceProposal[Secret]
    test: DistanceTest

    adds_up = True  # distances are of counts and ranks

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Test, then release or refuse."""
        with source.paying(self._price("propose, test, release")):
            pass  # the draws that follow keep within it
        secret = self.proposal.look(table, source)
        distance = self.proposal.distance(secret, cap=self.test.cap)
        if self.test.passes(distance, source, neighbours=self.claims.neighbours):
            return self.proposal.release(secret, source)
        return Refusal(reason=self.refusal)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCertificate(_Proposed, Generic[Secret, Certificate, Parameter]):
    """A `CertifiedProposal` family with its price."""

    proposal: CertifiedProposal[Secret, Certificate, Parameter]

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Certify, choose, then release or refuse."""
        with source.paying(self._price("certify, choose, release")):
            pass  # the draws that follow keep within it
        secret = self.proposal.look(table, source)
        parameter = self.proposal.choose(self.proposal.certify(secret, source))
        if parameter is None:
            return Refusal(reason=self.refusal)
        return self.proposal.release(secret, parameter, source)


def propose_and_test(
    proposal: DistanceProposal[Secret],
    *,
    test: DistanceTest,
    budget: RowBudget,
    request: Mapping[str, Any],
    refusal: str,
    numerics: Numerics = "exact",
    error: TailBound | None = None,
) -> PreparedTest[Secret]:
    """Return the prepared query of a tested proposal; `refusal` is the public text of its refusals.

    Test and mechanism cost a row the ε of the budget together; the probability of a false pass is its δ.
    """
    stated = _stated(budget.claims, numerics)
    within = Claims.of(PureDP(budget.epsilon, neighbours=stated.neighbours))
    return PreparedTest(
        proposal=proposal, test=test, claims=stated, request=request, refusal=refusal, error=error, within=within
    )


def propose_and_certify(
    proposal: CertifiedProposal[Secret, Certificate, Parameter],
    *,
    budget: RowBudget,
    within: Claims,
    request: Mapping[str, Any],
    refusal: str,
    numerics: Numerics = "idealized",
) -> PreparedCertificate[Secret, Certificate, Parameter]:
    """Return the prepared query of a certified family; `within` is what all its draws may cost a row."""
    stated = _stated(budget.claims, numerics)
    return PreparedCertificate(proposal=proposal, claims=stated, request=request, refusal=refusal, within=within)


def _stated(claims: Claims, numerics: Numerics) -> Claims:
    """Let the claims say it where the law holds for real numbers only; nothing makes them better than they came."""
    return claims.with_numerics(numerics) if numerics == "idealized" else claims
