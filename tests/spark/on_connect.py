"""Run by `test_connect.py` in a process of its own: a Connect session and a plain one do not live together."""

from __future__ import annotations

import os
import sys

import sidelight as sl
from sidelight.errors import SourceError
from sidelight.regression.model_query import ModelQuery
from sidelight.testing import seeded_release

os.environ["PYSPARK_PYTHON"] = sys.executable
ROWS = [(None if at % 11 == 0 else at % 97 + 0.25, "ab c"[at % 4], at % 40) for at in range(300)]
SCHEMA = [sl.Number("x", lower=0, upper=100), sl.Category("c", ["a", "b"])]
PERSONS = [*SCHEMA, sl.PersonId("who", max_rows=2)]
QUERIES = [sl.Quantiles([0.25, 0.5], column="x", epsilon=1), sl.Mean("x", epsilon=1), sl.Count(epsilon=1)]
MODELS = [
    ModelQuery(
        model=sl.LogisticRegression(classes=["a", "b"], epsilon=2, delta="1e-6", solver=sl.DescentSettings(passes=2)),
        target="c",
    ),
    sl.GaussianFit(["x"], prediction=[[10.0], [40.0], [70.0]], rho=1),
]


def main() -> None:
    """Compare releases of a Connect frame with those of lists, and ask for what is refused."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    frame = spark.createDataFrame(ROWS, "x double, c string, who long").repartition(3)
    plain = {name: [row[at] for row in ROWS] for at, name in enumerate(("x", "c", "who"))}
    for schema in (SCHEMA, PERSONS):
        for query in (*QUERIES, *MODELS):
            found, same = (
                str(seeded_release(query, sl.Table(source, schema=schema), seed=1).value) for source in (frame, plain)
            )
            assert found == same, (found, same)
    refused = ""
    try:
        sl.Count(epsilon=1).release(sl.Table(frame.limit(5), schema=SCHEMA))
    except SourceError as error:
        refused = str(error)
    assert "other rows each time" in refused
    print("the same releases")
    spark.stop()


if __name__ == "__main__":
    main()
