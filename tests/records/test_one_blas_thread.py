"""BLAS has one thread inside the limit, and the user's number of threads after it, in whatever order callers leave."""

from __future__ import annotations

import pytest

from sidelight.records import rows
from sidelight.records.rows import one_blas_thread

threadpoolctl = pytest.importorskip("threadpoolctl")


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}


def test_the_last_of_several_callers_lifts_the_limit() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("a BLAS whose threads cannot be set")
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}


def test_an_error_lifts_the_limit() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        assert blas_threads() == before


def test_libraries_that_cannot_be_read_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable() -> None:
        raise AttributeError("'NoneType' object has no attribute 'split'")  # of threadpoolctl with some builds

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", unreadable)
    rows._blas.cache_clear()
    try:
        with one_blas_thread():
            pass
    finally:
        rows._blas.cache_clear()
