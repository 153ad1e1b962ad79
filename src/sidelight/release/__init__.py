"""What leaves the release pipeline: releases and refusals, their JSON, and how far off they can be."""

from sidelight.release.circumstances import Circumstances
from sidelight.release.outcomes import Outcome, Refused, Release, Value, outcome_from_json
from sidelight.release.stored import read_outcomes, stored_text, titled_outcomes
from sidelight.release.tail_bound import NO_ASSUMPTION, TailBound
from sidelight.release.values import encode_value

__all__ = [
    "NO_ASSUMPTION",
    "Circumstances",
    "Outcome",
    "Refused",
    "Release",
    "TailBound",
    "Value",
    "encode_value",
    "outcome_from_json",
    "read_outcomes",
    "stored_text",
    "titled_outcomes",
]
