"""From the bytes of a request to a `Report`, or to a refusal that says what kind of mistake it was and no value."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from starlette.requests import ClientDisconnect, Request

from sidelight.errors import RefusedError, ReportError
from sidelight.experts.report import Report

#: Seconds in which a request must have arrived.
PATIENCE = 20.0


async def read_body(request: Request, *, largest: int) -> bytes:
    """Return the body of a request; refuse one that is too large before it is all here, or that trickles in."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusedError("wrong_type", "a report is sent as application/json")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) > largest:
        raise RefusedError("too_large", f"a report has at most {largest} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > largest:
                    raise RefusedError("too_large", f"a report has at most {largest} bytes")
                parts.append(part)
    except TimeoutError:
        raise RefusedError("too_slow", f"a report must arrive within {PATIENCE:.0f} seconds") from None
    except ClientDisconnect:
        raise RefusedError("malformed", "the report broke off") from None
    return b"".join(parts)


def read_report(body: bytes) -> Report:
    """Return the report in a body."""
    try:
        return Report.from_json(body)
    except ReportError as error:
        if _has_values_that_are_not_finite(body):
            raise RefusedError(
                "not_finite", "values of a report are whole numbers on the grid; one is not finite"
            ) from None
        raise RefusedError("malformed", str(error)) from None


def _has_values_that_are_not_finite(body: bytes) -> bool:
    """Look closer at a report that was refused anyhow: NaN, an infinity, or a number beyond all floats."""
    try:
        read: Any = json.loads(body)
    except (ValueError, RecursionError):
        return False
    values = read.get("values") if isinstance(read, dict) else None
    return isinstance(values, list) and any(isinstance(each, float) and not math.isfinite(each) for each in values)
