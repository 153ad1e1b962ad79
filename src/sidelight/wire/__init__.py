"""Requests of analysts as data: strict JSON, queries as sections of plans, and problems in both directions.

The server and the client share this, and neither imports the other. Nothing here opens a file or a connection.
"""

from sidelight.errors import ProblemError
from sidelight.wire.json_text import read_json, write_json
from sidelight.wire.problems import CODES, error_of, problem_json, problem_of
from sidelight.wire.queries import (
    LIMITS,
    RELEASE_ID,
    REQUEST_KEY,
    WireResolver,
    check_limits,
    query_digest,
    read_wire_query,
    release_ids,
    write_wire_query,
)

__all__ = [
    "CODES",
    "LIMITS",
    "RELEASE_ID",
    "REQUEST_KEY",
    "ProblemError",
    "WireResolver",
    "check_limits",
    "error_of",
    "problem_json",
    "problem_of",
    "query_digest",
    "read_json",
    "read_wire_query",
    "release_ids",
    "write_json",
    "write_wire_query",
]
