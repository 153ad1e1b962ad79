"""The closed list of laws that a prior may have: priors are data, and no code of a user ever meets a record.

The rank selection asks a prior for its mass below exact order statistics. So a prior is an instance of one of the
classes here, never of a subclass, and a query keeps a copy that was built and checked anew before any data is opened.
Any other law is written as a knot table: `Histogram(edges, masses)`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, TypeGuard

from sidelight.errors import RangeError
from sidelight.predictions.cauchy import Cauchy, HalfCauchy
from sidelight.predictions.gaussian import Gaussian
from sidelight.predictions.histogram import Histogram
from sidelight.predictions.laplace import Laplace
from sidelight.predictions.mixture import Mixture
from sidelight.predictions.origin import Origin
from sidelight.predictions.priors import Prior
from sidelight.predictions.scale_free import ScaleFree
from sidelight.predictions.uniform import Uniform

#: Every class that a prior may be an instance of.
LAWS: Final = (Cauchy, Gaussian, HalfCauchy, Histogram, Laplace, Mixture, ScaleFree, Uniform)
_METHODS: Final = ("compile", "inverse_in", "log_mass", "staircases")


def is_prior(given: object) -> TypeGuard[Prior]:
    """Return whether something is one of the laws here; refuse what only looks like one.

    Raises:
        RangeError: a subclass of a law, or an object with a prior's methods.
    """
    if type(given) in LAWS:
        return True
    if isinstance(given, LAWS) or any(hasattr(type(given), name) for name in _METHODS):
        raise RangeError(
            f"a {type(given).__name__} has a prior's methods and is none of sl.priors (a subclass is none either): its "
            "code would see records. Write its law as a table, sl.priors.Histogram(edges, masses), or as a Mixture"
        )
    return False


def own_prior(given: Any, *, what: str = "prediction") -> Prior:
    """Return a prior built anew from the numbers of the given one, all of them checked again.

    Args:
        given: One of `LAWS`, by exact type; so are the parts of a mixture and all origins.
        what: The parameter, for the message.

    >>> own_prior(Cauchy(40, 20)) == Cauchy(40, 20)
    True
    """
    if not is_prior(given):
        raise RangeError(
            f"{what} must be a prior such as sl.priors.Cauchy(location, scale), got {type(given).__name__}"
        )
    numbers = {each.name: getattr(given, each.name) for each in fields(given)}  # type: ignore[arg-type]
    origin = numbers["origin"]
    if type(origin) is not Origin:
        raise RangeError(
            f"the origin of a prior is public(...), released(...) or guess(...), got {type(origin).__name__}"
        )
    numbers["origin"] = Origin(**{each.name: getattr(origin, each.name) for each in fields(origin)})
    built: Prior = type(given)(**numbers)  # a mixture does this with its parts
    return built
