"""What leaves the release pipeline: releases and refusals, their JSON, and how far off they can be."""

from sidelight.release.outcomes import Outcome, Refused, Release, Value, outcome_from_json
from sidelight.release.stored import read_outcomes, stored_text, titled_outcomes
from sidelight.release.values import NO_ASSUMPTION, Circumstances, TailBound, encode_value

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
