"""The live page: one HTML text with its style and script inside, allowed by their hashes and nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
import time
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from sidelight.experts.learners import WINDOWS
from sidelight.experts.service.rounds import Rounds
from sidelight.experts.service.shown import moment
from sidelight.experts.service.strip import strip_chart
from sidelight.version import VERSION

if TYPE_CHECKING:
    from jinja2 import Template

_SHOWN_IN_TABLE = 20


def _part(name: str) -> str:
    return files("sidelight.experts.service").joinpath("live", name).read_text(encoding="utf-8")


def _allowed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STYLE, _SCRIPT = _part("page.css"), _part("page.js")
#: What the page may do: its own style and script, and ask its own service.
PAGE_POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src {_allowed(_STYLE)}",
        f"script-src {_allowed(_SCRIPT)}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_part("page.html"))


def page(rounds: Rounds) -> str:
    """Return the page of the rounds as they stand."""
    view, plan, now = rounds.view, rounds.plan, time.time()
    deadline = moment(view.deadline or now)
    seconds = max(0, int((view.deadline or now) - now))
    terms = plan.reporting
    observers = rounds.observers
    return _template().render(
        plan=plan,
        view=view,
        received=min(rounds.received, view.clients),
        deadline=f"{deadline[:10]} {deadline[11:19]}",
        deadline_iso=deadline,
        now_iso=moment(now),
        left=f"{seconds // 60:02d}:{seconds % 60:02d}",
        strip=strip_chart(view.closed, plan.action_names),
        last=view.closed[: -_SHOWN_IN_TABLE - 1 : -1],
        claims=str(terms.claims),
        success=_success(float(terms.exact_mu)),
        person_claims=None if terms.max_rounds_per_person is None else str(terms.person_claims),
        window=max(WINDOWS),
        observers=None if observers is None else [_up(each) for each in observers],
        style=Markup(_STYLE),
        script=Markup(_SCRIPT),
        version=VERSION,
    )


def _success(mu: float) -> str:
    """How often the best test of two neighbours is right, if both are equally likely: Φ(μ/2), rounded up."""
    percent = 100 * (0.5 + 0.5 * math.erf(mu / 2 / math.sqrt(2)))
    return f"{min(100.0, math.ceil(10 * percent) / 10):.1f} %"


def _up(delta: float) -> str:
    """A δ with three digits, never smaller than it is."""
    step = 10.0 ** (math.floor(math.log10(delta)) - 2)
    return f"{math.ceil(delta / step) * step:.3g}"
