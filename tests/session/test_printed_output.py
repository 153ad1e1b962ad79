"""What a user's code prints while it works on private rows goes nowhere, and what all others print is shown."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout

import pytest

from sidelight.session.printed_output import suppress_all_output

Shown = Callable[[], str]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """What a user saw since the last look, on one stream after the other."""
    return lambda: "".join(capsys.readouterr())


def say(text: str) -> None:
    print(text)
    sys.stderr.write(f"{text}\n")


def in_a_thread(action: Callable[[], None]) -> None:
    other = threading.Thread(target=action)
    other.start()
    other.join(10)
    assert not other.is_alive()


@contextmanager
def another_thread_in_a_run(action: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Another thread is in a run all along; at its end it does something."""
    begun, ended = threading.Event(), threading.Event()

    def run() -> None:
        with suppress_all_output():
            begun.set()
            assert ended.wait(10)
            action()

    other = threading.Thread(target=run)
    other.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        ended.set()
        other.join(10)


def test_runs_that_overlap_are_silent_to_their_ends_and_others_are_heard(shown: Shown) -> None:
    with suppress_all_output():
        first = contextlib.ExitStack()
        first.enter_context(another_thread_in_a_run(lambda: say("of the other run")))
    say("of the user")
    first.close()
    say("of the user")
    assert shown() == "of the user\n" * 4


def test_a_thread_that_a_run_starts_is_silent_as_long_as_it_lives(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)  # not the one of pytest
    over, threads = threading.Event(), []

    def late() -> None:
        assert over.wait(10)
        say("of a run")
        in_a_thread(lambda: say("of a run"))
        logging.getLogger("late").critical("of a run")
        raise ValueError("of a run")  # which `threading` prints

    def work() -> None:
        say("of a run")
        threads.append(threading.Thread(target=late))
        threads[0].start()

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with suppress_all_output():
            in_a_thread(work)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(say, "of a run").result()
                pool.submit(warnings.warn, "of a run").result()
        over.set()
        threads[0].join(10)
        in_a_thread(lambda: say("of the user"))
    assert shown() == "of the user\n" * 2


def test_a_thread_that_others_start_during_a_run_is_heard(shown: Shown) -> None:
    with another_thread_in_a_run():
        in_a_thread(lambda: say("of the user"))
    assert shown() == "of the user\n" * 2


def test_what_a_log_handler_made_in_a_run_writes_goes_nowhere() -> None:
    stream, log = io.StringIO(), logging.getLogger("tests.handler of a run")
    handler = logging.StreamHandler(stream)
    try:
        with suppress_all_output():
            log.addHandler(handler)
            log.critical("of a run")
        log.critical("of the user")
    finally:
        log.removeHandler(handler)
    assert stream.getvalue() == "of the user\n"


def uses_buffer() -> None:
    sys.stdout.buffer.write(b"of a run\n")
    sys.stderr.buffer.flush()


def uses_descriptor() -> None:
    subprocess.run([sys.executable, "-c", "print('of a run')"], stdout=sys.stdout, stderr=sys.stderr, check=True)


def uses_encoding() -> None:
    "é".encode(sys.stdout.encoding, sys.stdout.errors or "strict")
    print("\udcff é", flush=True)


def uses_everything_else() -> None:
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    assert not sys.stdout.isatty()
    assert sys.stdout.writable()
    assert os.path.basename(sys.stdout.name)
    with sys.stdout as stream:
        stream.writelines(["of a run\n"])
    assert sys.stdout.closed
    sys.stderr.detach()


@pytest.mark.parametrize("use", [uses_buffer, uses_descriptor, uses_encoding, uses_everything_else])
def test_a_run_has_complete_streams_that_show_nothing(
    capfd: pytest.CaptureFixture[str], use: Callable[[], None]
) -> None:
    for _ in range(2):  # what a run does to its stream is nothing to the next
        with suppress_all_output():
            use()
    print("of the user")
    assert capfd.readouterr() == ("of the user\n", "")


def test_outside_of_a_run_the_stream_is_the_one_that_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", stream)
    with another_thread_in_a_run():
        assert sys.stdout is not stream
        assert isinstance(sys.stdout, io.TextIOWrapper)
        assert sys.stdout.encoding == "latin-1"
        assert sys.stdout.buffer is stream.buffer
        sys.stdout.mode = "w"  # type: ignore[misc]
        assert stream.mode == "w"
        del sys.stdout.mode
        assert not hasattr(stream, "mode")
        sys.stdout.reconfigure(encoding="utf-16-le")
        assert stream.encoding == "utf-16-le"
        sys.stdout.writelines(["é"])
        sys.stdout.flush()
        assert stream.buffer.getvalue() == "é".encode("utf-16-le")  # type: ignore[attr-defined]
        assert pickle.loads(pickle.dumps(sys.stdout)) is sys.stdout


def test_a_method_that_was_taken_before_a_run_decides_when_it_is_called(shown: Shown) -> None:
    with suppress_all_output():
        pass
    write, lines = sys.stdout.write, sys.stdout.writelines
    with suppress_all_output():
        write("of a run\n")
        lines(["of a run\n"])
    write("of the user\n")
    assert shown() == "of the user\n"


def test_a_stream_that_a_user_puts_in_place_stays(shown: Shown) -> None:
    mine, before = io.StringIO(), sys.stdout
    with suppress_all_output():
        sys.stdout = mine  # as a notebook does, or a test that begins
    assert sys.stdout is mine
    with suppress_all_output():
        say("of a run")
    say("of the user")
    assert mine.getvalue() == "of the user\n"
    with suppress_all_output(), redirect_stdout(io.StringIO()) as its_own:
        print("of a run")
    assert its_own.getvalue() == "of a run\n"
    print("of the user")
    assert mine.getvalue() == "of the user\n" * 2
    sys.stdout = before
    assert shown() == "of the user\n"  # standard error


def test_a_program_without_streams_has_none_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where a program has no console."""
    monkeypatch.setattr(sys, "stdout", None)
    with suppress_all_output():
        print("of a run")
    assert sys.stdout is None


def test_warnings_of_workers_into_which_a_library_copies_the_filters_are_not_shown() -> None:
    from joblib import parallel_config
    from sklearn.utils.parallel import Parallel, delayed

    def warn(text: str) -> None:
        warnings.warn(text, UserWarning, stacklevel=1)

    def work(text: str) -> None:
        with parallel_config(backend="threading"):
            Parallel(n_jobs=2)(delayed(warn)(text) for _ in range(2))

    heard: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest: heard.append(str(message))  # type: ignore[assignment]
        with suppress_all_output():
            work("of a run")
        work("of the user")
    assert set(heard) == {"of the user"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_silent_in_its_own_run_only(shown: Shown) -> None:
    def in_a_child(said: str) -> None:
        child = os.fork()
        if child == 0:
            say("of a child")
            os._exit(0 if shown() == said else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    with suppress_all_output():
        in_a_child("")
        in_a_thread(lambda: in_a_child(""))
    with another_thread_in_a_run():
        in_a_child("of a child\n" * 2)
