"""A process that imports the libraries once and forks workers and pricing processes from itself.

Written by hand, because the standard fork server imports the main program into every child, collects children when
they end (a time that may depend on rows), and does not check for threads. It never opens a table or a ledger and never
draws noise, so a child's memory contains nothing of another release. A child is collected on request only, so that the
time of its end is not measured. It is killed by a descriptor of its process, where the system has them: if the zygote
dies, its children are collected by another process, and their ids are used again.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sidelight.errors import ServiceError
from sidelight.registry import load

#: One thread per library: a release computes on its own seat only.
_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "ARROW")
ENVIRONMENT = {**{f"{name}_NUM_THREADS": "1" for name in _LIBRARIES}, "POLARS_MAX_THREADS": "1"}
ENVIRONMENT["JE_ARROW_MALLOC_CONF"] = "background_thread:false"  # Arrow's allocator; a fork would lack this thread
#: Modules that every child would otherwise import itself.
PRELOADED = (
    "sidelight.accuracy.expected",
    "sidelight.ledger.head_file",
    "sidelight.plans.predictions",
    "sidelight.quantiles.query",
    "sidelight.server.pricing",
    "sidelight.server.worker",
    "sidelight.summaries.mean",
    "sidelight.summaries.plan_forms",
    "sidelight.summaries.summary",
    "sidelight.summaries.sql_query",
)

#: What is loaded on first use, where it is installed.
LIBRARIES = ("duckdb", "narwhals", "numpy.fft", "pandas", "sidelight.records.engines.parquet", "sqlglot")


class Child:
    """A process that the zygote forked, the connection to it, and a descriptor of it (None where there are none)."""

    def __init__(self, zygote: Zygote, pid: int, connection: Connection, *, parent: int, handle: int | None) -> None:
        self._zygote = zygote
        self.pid = pid
        self.connection = connection
        self._parent, self._handle = parent, handle
        self._ended = False

    def kill(self) -> None:
        """Kill the process, and no other that has its id now."""
        if not self._ended:
            with contextlib.suppress(ProcessLookupError):
                if self._handle is None:
                    os.kill(self.pid, signal.SIGKILL)
                else:
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def end(self) -> None:
        """Kill and collect the process."""
        if not self._ended:
            self.kill()
            self._ended = True
            self.connection.close()
            if self._handle is not None:
                os.close(self._handle)
            with contextlib.suppress(ServiceError):
                self._zygote.collect(self.pid, parent=self._parent)


class Zygote:
    """The handle of the zygote in the listening process; it restarts the zygote if it dies."""

    def __init__(self, shared: Any) -> None:
        self._shared = shared
        self._cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Start the process and wait until its libraries are imported."""
        with self._lock:
            self._start()

    def fork(self, target: str) -> Child:
        """Fork a child that calls `module:function` with its connection and the shared object."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            try:
                pid, handle = self._ask(target, theirs)
            except OSError:
                self._start()
                pid, handle = self._ask(target, theirs)
            assert self._process is not None
            parent = self._process.pid
        return Child(self, pid, Connection(ours.detach()), parent=parent, handle=handle)

    def collect(self, pid: int, *, parent: int) -> None:
        """Wait for a child that was killed; a later zygote may have another child with its id."""
        with self._lock:
            if self._control is not None and self._process is not None and self._process.pid == parent:
                with contextlib.suppress(OSError):
                    self._control.sendall(f"end {pid}".encode().ljust(_MESSAGE))
                    self._control.recv(_MESSAGE)

    def stop(self) -> None:
        """End the process; running children continue."""
        with self._lock:
            if self._control is not None:
                self._control.close()
            if self._process is not None:
                try:
                    self._process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self._control = self._process = None

    def _start(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sidelight.server.zygote", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
            )
        if self._cores is not None:  # this process is pinned to one core by now; workers use the others
            os.sched_setaffinity(self._process.pid, self._cores)
        self._control = ours
        shared = pickle.dumps(self._shared)
        ours.sendall(len(shared).to_bytes(8, "big") + shared)
        if ours.recv(_MESSAGE).strip() != b"ready":
            raise ServiceError("the zygote did not start; see the lines above", code="unavailable")

    def _ask(self, target: str, connection: socket.socket) -> tuple[int, int | None]:
        if self._control is None:
            raise OSError("not started")
        socket.send_fds(self._control, [target.encode().ljust(_MESSAGE)], [connection.fileno()])
        answer, handles, _, _ = socket.recv_fds(self._control, _MESSAGE, 1)
        if not answer:
            raise OSError("the zygote ended")
        return int(answer), handles[0] if handles else None


_MESSAGE = 128


def main(control: socket.socket) -> None:
    """Import the libraries, then fork a child for each message until the connection ends."""
    for each in (signal.SIGINT, signal.SIGTERM):  # a terminal or a supervisor sends them to all processes:
        signal.signal(each, signal.SIG_IGN)  # the listening process decides, and children finish paid releases
    size = int.from_bytes(_exactly(control, 8), "big")
    shared = pickle.loads(_exactly(control, size))  # from the process that started this one
    for name in PRELOADED:
        import_module(name)
    for name in (*LIBRARIES, *getattr(shared, "libraries", ())):
        with contextlib.suppress(ImportError):
            import_module(name)
    threads = (
        len(list(Path("/proc/self/task").iterdir())) if Path("/proc/self/task").is_dir() else threading.active_count()
    )
    if threads != 1:
        raise SystemExit(
            f"the zygote has {threads} threads, and a fork would copy their locks; which library starts them?"
        )
    control.sendall(b"ready".ljust(_MESSAGE))
    while True:
        try:
            message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE, 1)
        except OSError:  # the listening process was killed
            return
        if not message:
            return
        word, _, rest = message.decode().strip().partition(" ")
        if word == "end":
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(rest), 0)
            control.sendall(b"ended".ljust(_MESSAGE))
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            _run(load(word), Connection(descriptors[0]), shared)
        os.close(descriptors[0])
        handles = _handles(pid)
        socket.send_fds(control, [str(pid).encode().ljust(_MESSAGE)], handles)
        for handle in handles:
            os.close(handle)


def _handles(pid: int) -> list[int]:
    """Return a descriptor of a child that was not collected; none where the system has no such descriptors."""
    try:
        return [os.pidfd_open(pid)] if hasattr(os, "pidfd_open") else []
    except OSError:  # an older kernel, or one that forbids it
        return []


def _run(target: Callable[[Connection, Any], None], connection: Connection, shared: Any) -> None:
    """Run a child, and end it without Python's exit handlers, which could print something."""
    try:
        target(connection, shared)
    finally:
        os._exit(0)


def _exactly(control: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = control.recv(min(size - len(found), 2**20))
        if not part:
            raise SystemExit(0)
        found += part
    return found


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
