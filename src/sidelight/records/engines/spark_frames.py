"""What Spark knows about a frame before any job runs: its types, and whether it is deterministic.

A statistic may read rows several times, and a failed task is read again. A frame whose rows depend on chance, on time
or on the order of partitions is a different data set each time, which no guarantee covers: it is refused.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import Any

from sidelight.errors import SourceError
from sidelight.records.engines.folders import FOLDERS, shown
from sidelight.records.rows import ColumnType, TypeKind, types_by_name

#: Spark's own words for types, up to a bracket or a space.
_KINDS: dict[str, TypeKind] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "float"),
    **dict.fromkeys(("string", "char", "varchar"), "text"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "date"),
    "boolean": "boolean",
    "void": "any",
}
#: Parts of a plan that choose rows by chance or by their order, and functions that do, as Spark writes them: numbering
#: rows is among them, because the order of ties decides.
_CHOOSES = ("Sample", "GlobalLimit", "LocalLimit", "Offset", "Tail", "Deduplicate")
_CHANCE = (
    *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
    *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
    *("first", "last", "first_value", "last_value", "any_value", "nth_value", "row_number", "ntile", "lag", "lead"),
    *("max_by", "min_by", "mode", "percentile_approx", "approx_percentile"),
    *("collect_list", "collect_set", "array_agg", "listagg", "string_agg", "histogram_numeric"),
    *("current_timestamp", "current_date", "localtimestamp", "now"),
)
#: Functions that give ties one number: their window may end at a row.
_RANKS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
_WINDOW, _ALL_ROWS = "windowspecdefinition(", "unboundedpreceding$(), unboundedfollowing$()"
_PARTS = re.compile(rf"^[\s:+\-|]*({'|'.join(_CHOOSES)})\b", re.MULTILINE)
_CALLS = re.compile(rf"(?<![\w.])({'|'.join(_CHANCE)})\(", re.IGNORECASE)


def types_of(frame: Any, folders: frozenset[str]) -> dict[str, ColumnType]:
    """Return the columns and their types by Spark's analysis of the frame."""
    natives = ((column.name, column.dataType.simpleString()) for column in frame.schema.fields)
    kinds = ((name, native, _KINDS.get(re.split(r"[( ]", native, maxsplit=1)[0], "other")) for name, native in natives)
    return types_by_name((name, FOLDERS if name in folders else ColumnType(kind, each)) for name, each, kind in kinds)


def check_deterministic(frame: Any) -> None:
    """Refuse a frame that may hold other rows each time it is read, by its plan; no job runs for it.

    Functions of your own that Spark does not know to depend on chance are not found. Nor are sums of floats that the
    frame itself makes, whose last digits follow the order in which parts come.
    """
    reason = ""
    try:
        reason = _chance_in(frame)
    except Exception:  # a plan without a text cannot be checked
        reason = "a plan that Spark does not show"
    if reason:
        raise SourceError(
            f"the Spark frame may hold other rows each time it is read (its plan has {reason}), and statistics read "
            "rows several times; write it to Parquet, or give frame.localCheckpoint(). Nothing was charged"
        )


def _chance_in(frame: Any) -> str:
    plan = getattr(frame, "_jdf", None)  # of a plain session; a Connect session has only the text
    if plan is not None:
        analyzed = plan.queryExecution().analyzed()
        text, known = analyzed.toString(), analyzed.deterministic()
    else:
        text, known = _analyzed(frame._explain_string(extended=True)), True
    if not text.strip():
        return "a plan that Spark does not show"
    found = _PARTS.search(text) or _CALLS.search(text)
    if found:
        return found[1]
    if _counts_rows_in_order(text):
        return "a window of a number of rows, whose ties come in any order"
    return "" if known else "an expression that depends on chance"


def _counts_rows_in_order(plan: str) -> bool:
    """Return whether a window begins or ends at a row, so that the order of ties decides.

    >>> _counts_rows_in_order("rank(k#1) windowspecdefinition(k#1 ASC, specifiedwindowframe(RowFrame, a, b)) AS x#2")
    False
    >>> _counts_rows_in_order("count(1) windowspecdefinition(k#1 ASC, specifiedwindowframe(RowFrame, a, b)) AS x#2")
    True
    """
    before, *windows = plan.split(_WINDOW)
    for window in windows:
        frame = window.partition("specifiedwindowframe(")[2]
        by_rows = frame.startswith("RowFrame") and not frame.removeprefix("RowFrame, ").startswith(_ALL_ROWS)
        if by_rows and _function(before) not in _RANKS:
            return True
        before = window
    return False


def _function(text: str) -> str:
    """Return the name of the call at the end of a text; empty if there is none."""
    text, open_brackets = text.rstrip(), 0
    for place in range(len(text) - 1, -1, -1):
        open_brackets += (text[place] == ")") - (text[place] == "(")
        if open_brackets <= 0:
            found = re.search(r"\w+$", text[:place])
            return found[0] if found else ""
    return ""


def _analyzed(explained: str) -> str:
    """Return the analyzed plan of an explanation."""
    return explained.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]


def frame_of(source: Any, table: str | None) -> Any:
    """Return a Spark data frame itself, or a table of a Spark session by its name."""
    kind = type(source).__name__
    if kind == "SparkSession":
        if table is None:
            raise SourceError("a Spark session may have many tables; say which, as in table='visits'")
        found = None
        with suppress(Exception):  # whatever Spark raises; a view that is broken may quote what it reads
            found = source.table(table)
            found.schema  # noqa: B018 - a Connect session looks for it only now
        if found is None:
            raise SourceError(f"the Spark session has no table {table!r} that can be read; look at spark.catalog")
        return found
    if kind != "DataFrame" or not hasattr(type(source), "mapInArrow"):
        raise SourceError(
            f"a Spark source must be a pyspark.sql.DataFrame or a session, got {kind}; of pandas on Spark give "
            "frame.to_spark()"
        )
    if table is not None:
        raise SourceError("table=... names a table of a Spark session, and a data frame is one; leave it out")
    if source.isStreaming:
        raise SourceError("the Spark frame is a stream, which has no end; write it to Parquet and give the folder")
    return source


def open_path(path: str) -> tuple[Any, frozenset[str]]:
    """Let Spark read Parquet files, a folder or a URL, and return the frame and the columns in names of folders.

    Spark guesses the types of these columns from all names together, so that one record would decide how others are
    read: they are read as texts, and each by itself by the declaration.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError('engine = "spark" needs PySpark and Java; pip install "sidelight[spark]"') from None
    if path.lower().endswith((".csv", ".tsv", ".txt", ".gz")):
        raise SourceError(f"engine = 'spark' reads Parquet, and {path!r} is none; leave engine out, or write Parquet")
    if "://" not in path:  # Java has a working folder of its own
        path = os.path.abspath(os.path.expanduser(path))
    frame, folders, reason = None, frozenset[str](), ""
    try:
        session = SparkSession.getActiveSession() or _session(SparkSession)
        options = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED", "mergeSchema": "true"}
        reader = session.read.options(**options)
        frame = reader.parquet(path)
        folders = _columns_of_folders(frame)
        if folders:
            fields = [
                f"`{each.name.replace('`', '``')}` {'string' if each.name in folders else each.dataType.simpleString()}"
                for each in frame.schema.fields
            ]
            frame = reader.schema(", ".join(fields)).parquet(path)
    except Exception as error:  # a name of a folder may stand in what Spark raises
        reason = type(error).__name__
    if reason or frame is None:
        raise SourceError(
            f"Spark cannot read {shown(path)!r} as Parquet files ({reason}); check the path, its permissions, and "
            "that all files have columns of the same types"
        )
    return frame, folders


def _columns_of_folders(frame: Any) -> frozenset[str]:
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        raise SourceError("engine = 'spark' starts a plain session; of a Connect session give the data frame itself")
    partition = plan.queryExecution().analyzed().relation().partitionSchema()
    return frozenset(partition.fieldNames())


def _session(builder: Any) -> Any:
    """Start a session on this machine, or on what spark-defaults.conf names."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise whatever is called python3
    found = (
        builder.builder.appName("sidelight")
        .config("spark.ui.showConsoleProgress", "false")  # it would print how long rows took
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("OFF")  # failures are reported by us
    return found
