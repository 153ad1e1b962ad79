"""While data is open nothing is said: no warning, no log line, no signal, whatever the user has switched on."""

from __future__ import annotations

import io
import logging
import pickle
import re
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import NoiseError, RangeError, ReleaseFailedError, SchemaError
from sidelight.quantiles import prepared as prepared_module
from sidelight.records.rows import WORKERS
from sidelight.regression.rows import side_by_side
from sidelight.session.suppressed_output import suppress_output
from sidelight.testing import seeded_release

AGES = sl.Table({"age": [31.0, 47.0] * 20}, schema=[sl.Number("age", lower=0, upper=120)])
QUERY = sl.Quantiles([0.5], column="age", epsilon=1)


def before_reading(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    """Let something happen after the data was opened."""
    collect = prepared_module.collect_ranks

    def noisy(*given: Any) -> Any:
        action()
        return collect(*given)

    monkeypatch.setattr(prepared_module, "collect_ranks", noisy)


@pytest.mark.parametrize("action", ["always", "error", "default"])
def test_no_warning_leaves(monkeypatch: pytest.MonkeyPatch, action: Any) -> None:
    before_reading(monkeypatch, lambda: warnings.warn("cell 987654.321", RuntimeWarning, stacklevel=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        assert QUERY.release(AGES).private
        assert caught == []
        with pytest.raises(UserWarning) if action == "error" else pytest.warns(UserWarning, match="of the user"):
            warnings.warn("of the user", UserWarning, stacklevel=1)


def test_a_seeded_release_of_public_data_shows_its_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    before_reading(monkeypatch, lambda: warnings.warn("public", RuntimeWarning, stacklevel=1))
    with pytest.warns(RuntimeWarning, match="public"):
        seeded_release(QUERY, AGES, seed=1)


def test_no_log_line_leaves(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    before_reading(monkeypatch, lambda: logging.getLogger("engine").critical("cell 987654.321"))
    assert QUERY.release(AGES).private
    assert caplog.records == []
    logging.getLogger("engine").warning("of the user")
    assert [record.getMessage() for record in caplog.records] == ["of the user"]


def test_no_log_line_leaves_by_a_handler_that_is_added_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    said, log = io.StringIO(), logging.getLogger("engine")
    handler = logging.StreamHandler(said)

    def add() -> None:
        log.addHandler(handler)
        log.critical("cell 987654.321")

    before_reading(monkeypatch, add)
    try:
        assert QUERY.release(AGES).private
        log.critical("of the user")
    finally:
        log.removeHandler(handler)
    assert said.getvalue() == "of the user\n"


def test_no_signal_of_arithmetic_becomes_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    before_reading(monkeypatch, lambda: np.float64(1) / np.zeros(1))
    with np.errstate(all="raise"):
        assert QUERY.release(AGES).private


def test_other_threads_are_heard_and_engines_are_not() -> None:
    heard: list[str] = []

    def warn(text: str) -> None:
        warnings.warn(text, UserWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest: heard.append(str(message))  # type: ignore[assignment]
        with suppress_output():
            other = threading.Thread(target=warn, args=["of another thread"])
            other.start()
            other.join()
            warn("of the release")
            with ThreadPoolExecutor(1, thread_name_prefix=WORKERS) as pool:
                pool.submit(warn, "of a thread that adds rows up").result()
            list(side_by_side(warn, ["of rows that are bounded side by side"] * 8))
            _in_a_thread_of_an_engine(lambda: warn("of an engine"))
        _in_a_thread_of_an_engine(lambda: warn("of an engine afterwards"))
    assert heard == ["of another thread", "of an engine afterwards"]


def _in_a_thread_of_an_engine(action: Any) -> None:
    """Run something in a thread that Python did not start through `threading`."""
    import _thread

    done = threading.Event()

    def run() -> None:
        try:
            logging.getLogger("engine").debug("asks which thread this is")
            threading.current_thread()
            action()
        finally:
            done.set()

    _thread.start_new_thread(run, ())
    assert done.wait(10)


def test_releases_that_overlap_leave_everything_as_it_was() -> None:
    """Two that end in another order than they began: `catch_warnings` would leave the warnings off."""
    begun, ended = threading.Event(), threading.Event()

    def other() -> None:
        with suppress_output():
            begun.set()
            ended.wait(10)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        worker = threading.Thread(target=other)
        with suppress_output():
            worker.start()
            assert begun.wait(10)
        with pytest.raises(UserWarning):
            warnings.warn("heard while the other is silent", UserWarning, stacklevel=1)
        ended.set()
        worker.join()
        with pytest.raises(UserWarning):
            warnings.warn("heard again", UserWarning, stacklevel=1)


@pytest.mark.parametrize("error", [RangeError("987654.321"), SchemaError("987654.321"), KeyError(987654.321)])
def test_an_error_whose_text_is_not_fixed_is_replaced(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail() -> None:
        raise error

    before_reading(monkeypatch, fail)
    with pytest.raises(ReleaseFailedError, match="the cause is not shown") as caught:
        QUERY.release(AGES)
    assert "987654" not in str(caught.value)
    with pytest.raises(type(error)):
        seeded_release(QUERY, AGES, seed=1)


def test_errors_of_fixed_texts_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NoiseError("a noise source belongs to the thread of its release")

    before_reading(monkeypatch, fail)
    with pytest.raises(NoiseError, match="belongs to the thread"):
        QUERY.release(AGES)


def test_with_warnings_as_errors_no_cell_fails_anything() -> None:
    code = (
        "import numpy as np, sidelight as sl\n"
        "np.seterr(all='raise')\n"
        "for cell in (np.complex64(1 + 2j), np.ma.masked, np.array([1.0]), 1j, b'1', np.longdouble('1e4000')):\n"
        "    print(sl.Quantiles([0.5], epsilon=1, bounds=(0, 9)).release([1.0] * 50 + [cell]).private)"
    )
    command = [sys.executable, "-bb", "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n" * 6, "")


def test_libraries_that_copy_filters_into_workers_can_read_ours() -> None:
    """scikit-learn asks every filter for the text of its pattern, in a process that may have released before."""
    import warnings as module

    with suppress_output():
        ours = [entry for entry in module.filters if not (entry[1] is None or isinstance(entry[1], str))]
        assert all(re.compile(entry[1].pattern) for entry in ours)
        mine = next(entry for entry in ours if type(entry[1]).__module__.startswith("sidelight"))
        assert re.match(mine[1].pattern, "anything")
        assert issubclass(UserWarning, mine[2])
        assert pickle.loads(pickle.dumps(mine))[1:3] == (re.compile(""), Warning)
    assert not issubclass(UserWarning, mine[2])  # a copy that is left behind suppresses nothing
    assert pickle.loads(pickle.dumps(mine[2])) is mine[2]
    assert not [entry for entry in module.filters if type(entry[1]).__module__.startswith("sidelight")]
