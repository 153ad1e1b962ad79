"""What the same words of SQL mean in each accepted dialect, where they differ.

sqlglot parses the spelling of a dialect; the meaning of what it parsed is decided here. What cannot be read with the
meaning of the named dialect is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sidelight.errors import RangeError

#: Whose spelling and meaning a statement has; DuckDB's is the default.
Dialect = Literal["duckdb", "postgresql", "bigquery", "snowflake", "spark", "tsql"]
#: How halves become whole numbers: to the even one, away from zero, or by dropping the fraction.
Rounding = Literal["even", "away", "cut"]


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What one dialect means by words that all dialects have."""

    parser: str  # sqlglot's name of the dialect
    like_escape: str = ""  # what makes % and _ plain in a pattern without ESCAPE
    like_sets: bool = False  # whether [abc] in a pattern is a set of characters
    whole_of_decimal: Rounding = "away"  # CAST(decimal AS INTEGER)
    whole_of_double: Rounding = "away"  # CAST(double AS INTEGER)
    decimal_digits: int | None = 0  # after the point, of CAST(x AS DECIMAL); None keeps all
    divides_integers: bool = False  # 7 / 2 is 3
    #: Quotients of exact numbers are exact, ROUND and FLOOR of integers are doubles, EXTRACT gives decimals, ROUND of
    #: doubles takes halves to the even number, and SUM of a bigint is a decimal.
    is_postgresql: bool = False
    names_first: bool = False  # whether a name of AS may hide a column of the table in GROUP BY and HAVING
    ignores_case: bool = False  # whether texts are usually compared without case and without blanks at their end


MEANINGS: Mapping[str, Meaning] = {
    "duckdb": Meaning(parser="duckdb", whole_of_double="even", decimal_digits=3),
    "postgresql": Meaning(
        parser="postgres",
        like_escape="\\",
        whole_of_double="even",
        decimal_digits=None,
        divides_integers=True,
        is_postgresql=True,
    ),
    "bigquery": Meaning(parser="bigquery", like_escape="\\", decimal_digits=9, names_first=True),
    "snowflake": Meaning(parser="snowflake"),
    "spark": Meaning(parser="spark", like_escape="\\", whole_of_decimal="cut", whole_of_double="cut"),
    "tsql": Meaning(
        parser="tsql",
        like_sets=True,
        whole_of_decimal="cut",
        whole_of_double="cut",
        divides_integers=True,
        ignores_case=True,
    ),
}
#: What may follow a backslash in a text of BigQuery; its parser refuses others, and sqlglot drops the backslash.
_BIGQUERY_ESCAPE = re.compile(r"\\([abfnrtv\\?\"'`\n]|[0-7]{3}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")


def check_text(written: str, dialect: str) -> None:
    """Refuse a text whose backslashes mean nothing in BigQuery, as it is written in the statement."""
    if dialect == "bigquery" and "\\" in _BIGQUERY_ESCAPE.sub("", written):
        raise RangeError(
            "a text of the statement has a backslash that BigQuery does not know; two of them are one: LIKE 'a\\\\_b'"
        )


def check_pattern(pattern: str, escape: str, meaning: Meaning) -> None:
    """Refuse a pattern of LIKE that does not mean the same everywhere.

    Args:
        pattern: The pattern.
        escape: What makes % and _ plain; empty where nothing does.
        meaning: That of the dialect.
    """
    signs = iter(pattern)
    for sign in signs:
        if escape and sign == escape:
            if next(signs, None) is None:
                raise RangeError(f"a pattern of LIKE ends with {escape!r}, which stands before another character")
        elif meaning.like_sets and sign == "[":
            raise RangeError(
                "a set of characters, [...] in LIKE, is not understood: what is in it depends on the collation; list "
                "the labels, or write ESCAPE for a bracket itself: LIKE '![a%' ESCAPE '!'"
            )
