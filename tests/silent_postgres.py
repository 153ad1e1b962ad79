"""A relay in front of a PostgreSQL server that can fall silent, as a stopped server or a vanished host does."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url


class SilentRelay:
    """Passes bytes on until it is silent; connections stay open, and new ones are taken and not answered."""

    def __init__(self, database: str) -> None:
        url = make_url(database)
        self._target = f"{url.query['host']}/.s.PGSQL.5432"
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.address = url.set(host="127.0.0.1", port=port, query={}).render_as_string(hide_password=False)
        self.silent = threading.Event()
        self.swallow_after: bytes | None = None  # one connection falls silent once its client has sent this
        self._closing = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._closing.set()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        server, muted = socket.socket(socket.AF_UNIX), False
        server.connect(self._target)
        with client, server, suppress(OSError):
            while not self._closing.is_set():
                readable, _, _ = select.select([client, server], [], [], 0.1)
                if self.silent.is_set():
                    self._closing.wait(0.1)
                    continue
                for source in readable:
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is client and self.swallow_after is not None and self.swallow_after in data:
                        muted, self.swallow_after = True, None
                    if source is client:
                        server.sendall(data)
                    elif not muted:
                        client.sendall(data)


@contextmanager
def silent_relay(database: str) -> Iterator[SilentRelay]:
    """Relay to a database while the block lasts."""
    assert Path(str(make_url(database).query["host"])).is_dir()
    relay = SilentRelay(database)
    try:
        yield relay
    finally:
        relay.close()
