"""One Spark session on this machine for all tests; they are left out where PySpark or Java is not there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the tests on Spark out where it cannot run."""
    missing = reason_to_skip()
    for item in items:
        if missing and HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=missing))


def reason_to_skip() -> str:
    """Return what is missing; `make test-spark` installs PySpark where Java is found."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return 'PySpark is not installed: make test-spark, or pip install "sidelight[spark]"'
    return "" if shutil.which("java") else "Java is not there: PySpark needs Java 17 or later"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start Spark with two workers, where each task may fail twice."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,3]")
        .appName("tests of sidelight")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
