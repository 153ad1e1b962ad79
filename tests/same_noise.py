"""The noise of tests, in CI: the same in every run of a test, so that a change is judged by the change.

A test that draws from the operating system and fails once in a thousand runs fails in every tenth run of ten thousand
tests, whatever was changed. Where `CI` is set, the bytes of `OSEntropy` follow from the name of the test instead, or of
the fixture that several tests share; the brand stays "os", so that everything else is as in production. Without `CI`
they are fresh, as hypothesis' cases are: that is where a test that fails rarely shows itself.

Processes that a test starts, and children that it forks, have noise of their own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sidelight.noise import OSEntropy

_fresh = OSEntropy.read


class SameNoise:
    """A plugin that gives every test, every shared fixture and every collected file a stream of bytes of its own."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._stream = random.Random()

    def read(self, entropy: OSEntropy, nbytes: int) -> bytes:
        return self._stream.randbytes(nbytes) if os.getpid() == self._process else _fresh(entropy, nbytes)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        outer, self._stream = self._stream, random.Random(name)
        try:
            yield
        finally:
            self._stream = outer

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        with self.of(f"collecting {collector.nodeid}"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        with self.of(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
        shared = "" if fixturedef.scope == "function" else f"{fixturedef.baseid} {getattr(request, 'param_index', 0)}"
        with self.of(f"{fixturedef.argname} {shared or request.node.nodeid}"):
            return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Repeat the noise of every test where CI runs them."""
    if os.environ.get("CI"):
        plugin = SameNoise()
        OSEntropy.read = lambda entropy, nbytes: plugin.read(entropy, nbytes)  # type: ignore[method-assign]
        config.pluginmanager.register(plugin)
