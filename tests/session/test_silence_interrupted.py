"""Suppressed output, interrupted anywhere or forked: output is restored, and nothing leaks."""

from __future__ import annotations

import _thread
import contextlib
import dis
import io
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import count
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from sidelight.session import printed_output
from sidelight.session import suppressed_output as module
from sidelight.session.printed_output import suppress_all_output
from sidelight.session.suppressed_output import suppress_output

Silence = Callable[[], AbstractContextManager[None]]
LOG = logging.getLogger("tests.interrupted")
TRACED = {__file__, module.__file__, printed_output.__file__, contextlib.__file__, np.seterr.__code__.co_filename}


def say(text: str) -> None:
    warnings.warn(f"warning {text}", UserWarning, stacklevel=1)
    LOG.error("line %s", text)


def both(text: str) -> list[str]:
    return [f"warning {text}", f"line {text}"]


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What a user hears, who has every warning shown, and a filter of warnings of his own."""
    found: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    def keep(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, UserWarning):  # not that a process with threads forks
            found.append(str(message))

    handler = Keep()
    LOG.addHandler(handler)
    LOG.propagate = False
    try:
        with warnings.catch_warnings(), np.errstate(divide="raise", over="warn"):
            warnings.simplefilter("always")
            warnings.showwarning = keep  # type: ignore[assignment]
            yield found
    finally:
        LOG.removeHandler(handler)
        LOG.propagate = True


def story(silent: Silence) -> None:
    with silent():
        say("of a cell")


@cache
def places_that_look(code: CodeType) -> frozenset[int]:
    """Return where Python looks for signals: at calls, jumps back, and the start of a function."""
    words = ("CALL", "BACKWARD", "RESUME")
    return frozenset(each.offset for each in dis.get_instructions(code) if any(word in each.opname for word in words))


def trace_until(steps: int, cut: Iterator[None]) -> Callable[[FrameType, str, Any], Any]:
    """Return a trace function that interrupts after `steps` signal checks of the traced code.

    `cut_after` in the fault tests of the ledger explains why this is realistic: the unpacking here is not interrupted
    itself, and the interrupt waits until the traced code is where a user's interrupt would reach it.
    """
    done = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal done
        if frame.f_code.co_filename not in TRACED:
            return None
        frame.f_trace_opcodes = True
        if event in ("call", "return") or (event == "opcode" and frame.f_lasti in places_that_look(frame.f_code)):
            done += 1
            if done > steps:
                sys.settrace(None)
                _ = [*cut]
                return None
        return trace

    return trace


def cut_at(steps: int, silent: Silence) -> bool:
    """Interrupt the story; return whether it was."""
    try:
        sys.settrace(trace_until(steps, map(_thread.interrupt_main, [signal.SIGINT])))
        try:
            story(silent)
        finally:
            sys.settrace(None)
    except KeyboardInterrupt:
        return True
    return False


def in_a_thread(action: Callable[[], None]) -> None:
    other = threading.Thread(target=action)
    other.start()
    other.join(10)
    assert not other.is_alive()


def elsewhere() -> None:
    say("of another thread")
    story(suppress_output)
    say("of another thread")


def check(heard: list[str], *, silent: Silence = suppress_output, others: int = 0) -> None:
    """Check that everybody is heard again, that nothing is left behind, and that the next block is silent."""
    assert heard == []  # nothing of a cell
    say("of the user")
    in_a_thread(elsewhere)
    assert heard == both("of the user") + 2 * both("of another thread")
    heard.clear()
    assert np.geterr() == {"divide": "raise", "over": "warn", "under": "ignore", "invalid": "warn"}
    assert len(module._BLOCKS) == others
    assert others <= len(module._ours()) <= 2 * others
    story(silent)
    assert heard == []


def cut_everywhere(heard: list[str], silent: Silence, each: Callable[[], None] = lambda: None, **more: int) -> int:
    """Cut the story wherever it can be; return how often it was."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job would ignore it
    try:
        for steps in count():
            interrupted = cut_at(steps, silent)
            each()
            check(heard, silent=silent, **more)
            if not interrupted:
                return steps
    finally:
        signal.signal(signal.SIGINT, before)
    raise AssertionError("it never came to an end")


def test_interrupted_anywhere_everybody_is_heard_again(heard: list[str]) -> None:
    assert cut_everywhere(heard, suppress_output) > 100


def test_interrupted_anywhere_in_a_run_everybody_is_heard_again(
    heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is printed is shown again, and what runs print is not."""
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)

    @contextmanager
    def printing() -> Iterator[None]:
        with suppress_all_output():
            print("of a run")
            yield

    cuts = cut_everywhere(heard, printing, lambda: print("of the user"))
    assert cuts > 100
    assert screen.getvalue() == "of the user\n" * (cuts + 1)


@contextmanager
def open_in_another_thread() -> Iterator[Callable[[], None]]:
    """Have data open in a thread; what is given lets it say something of a cell, and waits until it has."""
    wanted, said, done = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def run() -> None:
        with suppress_output():
            said.release()
            while wanted.acquire(timeout=10) and not done.is_set():
                say("of a cell")
                said.release()

    def ask() -> None:
        wanted.release()
        assert said.acquire(timeout=10)

    other = threading.Thread(target=run)
    other.start()
    try:
        assert said.acquire(timeout=10)
        yield ask
    finally:
        done.set()
        wanted.release()
        other.join(10)


def test_interrupted_anywhere_another_release_stays_silent(heard: list[str]) -> None:
    """Also where the user's filter is before ours, so that ours is put first again."""
    with open_in_another_thread() as ask:

        def each() -> None:
            ask()
            warnings.filters.insert(0, warnings.filters.pop())  # type: ignore[attr-defined]

        cut_everywhere(heard, suppress_output, each, others=1)
    check(heard)


def test_a_block_within_a_block_that_is_interrupted_stays_silent(heard: list[str]) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for steps in count():
            with suppress_output():
                interrupted = cut_at(steps, suppress_output)
                say("of a cell")
            check(heard)
            if not interrupted:
                break
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _begins_too_soon() -> Iterator[None]:
    block, errors = module._Block(), np.geterr()
    module._begin(block)
    try:
        yield
    finally:
        block.over = True
        module._end(block, errors)


@contextmanager
def _ends_once() -> Iterator[None]:
    block, errors = module._Block(), np.geterr()
    try:
        module._begin(block)
        yield
    finally:
        block.over = True
        module._end(block, errors)


@contextmanager
def _never_over() -> Iterator[None]:
    block, errors = module._Block(), np.geterr()
    KEPT.append(block)
    try:
        module._begin(block)
        yield
        block.over = True
    finally:
        module._end(block, errors)


@contextmanager
def _over_too_soon() -> Iterator[None]:
    block, errors = module._Block(), np.geterr()
    try:
        module._begin(block)
        block.over = True
        yield
    finally:
        module._end(block, errors)


KEPT: list[Any] = []


@pytest.mark.parametrize("silent", [_begins_too_soon, _ends_once, _never_over, _over_too_soon])
def test_what_could_go_wrong_is_found(heard: list[str], silent: Silence) -> None:
    try:
        with pytest.raises(AssertionError):
            cut_everywhere(heard, silent)
    finally:
        for block in KEPT:
            block.over = True
        KEPT.clear()
        module._tidy()


def test_interrupted_again_and_again_the_next_block_takes_the_filter_away(
    heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_tidy", interrupted)
        with pytest.raises(KeyboardInterrupt):
            story(suppress_output)
    say("of the user")
    assert heard == both("of the user")
    heard.clear()
    story(suppress_output)
    check(heard)


def test_a_block_that_was_never_entered_is_silent_no_longer_than_its_traceback(heard: list[str]) -> None:
    entered = suppress_output()
    entered.__enter__()  # and the `with` that it was for is interrupted
    say("of a cell")
    del entered
    check(heard)


def in_a_child(action: Callable[[], None]) -> None:
    """Run checks in a forked child, which must end in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    for _ in range(1000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child waits for a thread that it does not have")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("inside", [False, True])
def test_a_child_knows_its_own_thread_only(heard: list[str], inside: bool) -> None:
    """Another thread has data open; the thread that forks may have, too."""
    with open_in_another_thread() as ask:
        with suppress_output() if inside else nullcontext():
            in_a_child(lambda: _in_the_block(heard) if inside else check(heard))
        ask()
        check(heard, others=1)
    check(heard)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_forked_while_another_thread_begins_and_ends_blocks_never_wait(heard: list[str]) -> None:
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            story(suppress_output)

    other = threading.Thread(target=run)
    other.start()
    try:
        for _ in range(20):
            in_a_child(lambda: check(heard))
    finally:
        done.set()
        other.join(10)
    check(heard)


def test_no_lock_can_stay_taken() -> None:
    """A lock would hang a forked child, and Python's `with` does not always give one back after an interrupt."""
    assert not [name for name, each in vars(module).items() if hasattr(each, "acquire")]


def _in_the_block(heard: list[str]) -> None:
    say("of a cell")
    story(suppress_output)
    say("of a cell")
    assert heard == []
    in_a_thread(lambda: say("of another thread"))
    assert heard == both("of another thread")
    assert len(module._BLOCKS) == 1
    assert len(module._ours()) <= 2
