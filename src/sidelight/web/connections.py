"""The connections of a service: a limited number, and a limited time without a complete request."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from contextlib import suppress
from typing import Any

#: Seconds in which the header of a request must arrive, TLS included.
HEADER_SECONDS = 10.0

#: Seconds for which a connection without a request is kept.
KEEP_ALIVE = 30

#: Connections at most, where descriptors allow it.
MOST = 1000

#: Descriptors that connections never take: for journals, snapshots, folders and the loop itself.
RESERVE = 48

#: Connections above the limit that may exist until others have closed.
_CLOSING = 16


class Waiting:
    """The connections of a service, and those that wait for a complete request, the longest first.

    Written by hand, because uvicorn limits neither the time of a header nor what it accepts: 300 connections that never
    finish a header took all descriptors of a process, and then no state could be stored. Here every accepted connection
    is registered at once, before the TLS handshake. A connection that waits too long for a request, or the longest when
    there are too many, is closed; one that has sent a complete header never is. Descriptors for the store are
    reserved.
    """

    def __init__(self, *, most: int, seconds: float = HEADER_SECONDS) -> None:
        self.most = most
        self._seconds = seconds
        self._open: dict[int, socket.socket] = {}
        self._timers: dict[int, asyncio.TimerHandle] = {}  # in the order in which they began to wait
        self._resting: set[int] = set()

    def arrived(self, connection: socket.socket) -> bool:
        """Register a new connection and return whether it fits; a waiting one may be closed for it."""
        if len(self._open) >= self.most:
            oldest = next(iter(self._timers), None)
            if oldest is not None:
                self._hang_up(oldest)
            if oldest is None or len(self._open) >= self.most + _CLOSING:
                return False
        self._open[connection.fileno()] = connection
        self.waits(connection.fileno())
        return True

    def waits(self, number: int) -> None:
        """Start the time limit of a header at its first byte; more bytes do not extend it."""
        if number in self._resting:
            self.busy(number)
        if number in self._open and number not in self._timers:
            self._timers[number] = asyncio.get_running_loop().call_later(self._seconds, self._hang_up, number)

    def rests(self, number: int) -> None:
        """Keep a connection open for a while after an answer."""
        self.busy(number)
        if number in self._open:
            self._resting.add(number)
            self._timers[number] = asyncio.get_running_loop().call_later(KEEP_ALIVE, self._hang_up, number)

    def busy(self, number: int) -> None:
        """Remove the time limit after a complete header."""
        self._resting.discard(number)
        timer = self._timers.pop(number, None)
        if timer is not None:
            timer.cancel()

    def gone(self, number: int) -> None:
        """Forget a connection that is closed."""
        self.busy(number)
        self._open.pop(number, None)

    def _hang_up(self, number: int) -> None:
        """Shut a connection down; its transport then closes it, also during a TLS handshake."""
        self.busy(number)
        with suppress(KeyError, OSError):  # it left by itself
            self._open[number].shutdown(socket.SHUT_RDWR)


class _Connection(socket.socket):
    """A connection that reports when it is closed."""

    waiting: Waiting

    def close(self) -> None:
        self.waiting.gone(self.fileno())
        super().close()


class Listener(socket.socket):
    """A listening socket that accepts a limited number of connections."""

    waiting: Waiting

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection within the limit."""
        number, address = self._accept()  # type: ignore[attr-defined]  # as `socket.accept` does
        connection = _Connection(self.family, self.type, self.proto, fileno=number)
        connection.waiting = self.waiting
        if not self.waiting.arrived(connection):
            connection.close()
            raise BlockingIOError("no room for another connection now")
        return connection, address


def listeners(host: str, port: int, waiting: Waiting) -> list[socket.socket]:
    """Bind an address, or all addresses of a name.

    Raises:
        OSError: Nothing can listen there.
    """
    found: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ):
            listener = Listener(family, kind, protocol)
            found.append(listener)
            listener.waiting = waiting
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
    except OSError:
        for bound in found:
            bound.close()
        raise
    return found


def room() -> int:
    """Return how many connections this process may hold: its free descriptors without the reserve.

    Raises:
        OSError: There are not even a few.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST
    free = soft - len(os.listdir("/dev/fd")) - RESERVE - _CLOSING
    if free < 4:
        raise OSError(f"only {soft} descriptors are allowed; the service needs more, such as ulimit -n 1024")
    return min(MOST, free)


def protocol(waiting: Waiting) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, which reports when a connection waits for a request or has one."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class WatchedProtocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._number = transport.get_extra_info("socket").fileno()

        def connection_lost(self, exc: Exception | None) -> None:
            self._number = -1  # the next connection may get the same
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            (waiting.busy if self._has_request() else waiting.waits)(self._number)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            (waiting.busy if self._has_request() else waiting.rests)(self._number)

        def _has_request(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

    return WatchedProtocol
