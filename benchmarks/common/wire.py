"""A wire between browser and server that notes when bytes pass: the server's own time.

In the browser an answer is read only when the page has time for it, between its drawing; here it is
timed on its way.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

STREAM = b"/_stcore/stream"
"""What the page's web socket asks for, in the first bytes of its connection."""
SMALL = 16
"""Bytes of the longest message that only keeps a web socket alive."""


class Wire:
    """Passes connections to `port` of 127.0.0.1 on; of a page's web socket it notes the times."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._asked = self._answered = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address to open instead of the server's."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def start(self) -> None:
        """Wait for the next request."""
        self._asked = self._answered = 0.0

    def milliseconds(self) -> float:
        """From the first request since `start` to the last byte of what came back.

        Raises ValueError where nothing was asked or answered.
        """
        if not 0 < self._asked < self._answered:
            raise ValueError("nothing was asked of the server, or nothing came back")
        return (self._answered - self._asked) * 1000

    def close(self) -> None:
        """Take no further connection."""
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                page, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=self._up, args=(page, server), daemon=True).start()

    def _up(self, page: socket.socket, server: socket.socket) -> None:
        first = page.recv(65536)
        stream = STREAM in first.partition(b"\r\n")[0]
        threading.Thread(target=self._down, args=(page, server, stream), daemon=True).start()
        with _closing(page, server):
            server.sendall(first)
            while data := page.recv(65536):
                if stream and len(data) > SMALL and not self._asked:
                    self._asked = time.perf_counter()
                server.sendall(data)

    def _down(self, page: socket.socket, server: socket.socket, stream: bool) -> None:
        with _closing(page, server):
            while data := server.recv(65536):
                if stream and len(data) > SMALL:
                    self._answered = time.perf_counter()
                page.sendall(data)


@contextmanager
def _closing(*ends: socket.socket) -> Iterator[None]:
    """Whichever end goes first takes the other with it."""
    try:
        with contextlib.suppress(OSError):
            yield
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wired(port: int) -> Iterator[Wire]:
    """A wire to a server on this machine, closed at the end."""
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
