"""The release pipeline: from a query and a budget to a paid-for release."""

from sidelight.session.common_budget import CommonBudget
from sidelight.session.deployment_record import Disclosure, PublisherFacts
from sidelight.session.disclosure import disclose
from sidelight.session.pipeline import release_once
from sidelight.session.query import Answer, ArrayQuery, Prepared, Query, Refusal
from sidelight.session.session import Session, request_key

__all__ = [
    "Answer",
    "ArrayQuery",
    "CommonBudget",
    "Disclosure",
    "Prepared",
    "PublisherFacts",
    "Query",
    "Refusal",
    "Session",
    "disclose",
    "release_once",
    "request_key",
]
