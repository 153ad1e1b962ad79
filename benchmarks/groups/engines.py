"""What a release costs compared with the engine's own answer."""

from __future__ import annotations

from benchmarks.engines import (
    measure,
    measure_csv,
    measure_long_model,
    measure_many,
    measure_model,
    measure_persons,
    measure_wide,
)
from benchmarks.engines_spark import MISSING
from benchmarks.engines_spark import measure as measure_spark
from benchmarks.target import Target

TARGETS = [
    Target("deciles-1e7-rows-of-parquet-vs-duckdb", measure, "deciles", "<=", 3),
    Target("deciles-exponent-1e6-to-1e7-rows", measure, "deciles_exponent", "<=", 1.1),
    Target("deciles-1e7-rows-in-50-folders-vs-one-file", measure, "deciles_of_folders", "<=", 1.5),
    Target("counts-by-3-columns-1e7-rows-vs-duckdb", measure, "counts", "<=", 3),
    Target("counts-1e7-rows-in-50-folders-vs-one-file", measure, "counts_of_folders", "<=", 1.5),
    Target("peak-gigabytes", measure, "gigabytes", "<=", 2),
    Target("deciles-1e8-rows-of-parquet-vs-duckdb", measure_many, "deciles_1e8", "<=", 3),
    Target("deciles-exponent-1e6-to-1e8-rows", measure_many, "exponent_1e8", "<=", 1.1),
    Target("counts-by-3-columns-1e8-rows-vs-duckdb", measure_many, "counts_1e8", "<=", 3),
    Target("peak-gigabytes-at-1e8-rows", measure_many, "gigabytes_1e8", "<=", 2),
    Target("moments-of-20-columns-1e7-rows-vs-numpy", measure_wide, "moments", "<=", 3),
    Target("moments-of-20-columns-seconds-by-processor-seconds", measure_wide, "moments_wall", "<=", 0.65),
    Target("peak-gigabytes-of-moments", measure_wide, "moments_gigabytes", "<=", 2),
    Target("csv-2e6-rows-vs-duckdb", measure_csv, "csv", "<=", 1.5),
    Target("deciles-of-persons-1e7-rows-vs-duckdb", measure_persons, "persons", "<=", 2),
    Target("peak-gigabytes-of-persons", measure_persons, "persons_gigabytes", "<=", 2),
    Target("logistic-with-a-text-target-1e6-rows-vs-scikit-learn", measure_model, "logistic", "<=", 3),
    Target("logistic-with-texts-in-memory-vs-scikit-learn", measure_model, "logistic_in_memory", "<=", 3),
    Target("logistic-with-a-text-target-1e7-rows-vs-scikit-learn", measure_long_model, "logistic_1e7", "<=", 3),
    Target("peak-gigabytes-of-logistic", measure_long_model, "logistic_gigabytes", "<=", 2),
    Target("deciles-1e7-rows-on-spark-vs-spark-sql", measure_spark, "spark_deciles", "<=", 2, MISSING),
    Target("counts-by-3-columns-1e7-rows-on-spark-vs-spark-sql", measure_spark, "spark_counts", "<=", 2, MISSING),
    Target("moments-of-20-columns-1e7-rows-on-spark-vs-spark-sql", measure_spark, "spark_moments", "<=", 2, MISSING),
]
