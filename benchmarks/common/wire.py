"""A proxy between browser and server that times the server's answers.

The browser reads an answer only between drawing, too late for the server's time.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

STREAM = b"/_stcore/stream"
"""The request path of the page's web socket."""
SMALL = 16
"""Bytes of the longest message that only keeps a web socket alive."""


class Wire:
    """Forwards connections to `port` of 127.0.0.1, and times the page's web socket."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._requested = self._answered = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address to open instead of the server's."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def start(self) -> None:
        """Wait for the next request."""
        self._requested = self._answered = 0.0

    def milliseconds(self) -> float:
        """From the first request since `start` to the last byte of the answer.

        Raises ValueError without a request or an answer.
        """
        if not 0 < self._requested < self._answered:
            raise ValueError("the server got no request, or sent no answer")
        return (self._answered - self._requested) * 1000

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
                if stream and len(data) > SMALL and not self._requested:
                    self._requested = time.perf_counter()
                server.sendall(data)

    def _down(self, page: socket.socket, server: socket.socket, stream: bool) -> None:
        with _closing(page, server):
            while data := server.recv(65536):
                if stream and len(data) > SMALL:
                    self._answered = time.perf_counter()
                page.sendall(data)


@contextmanager
def _closing(*ends: socket.socket) -> Iterator[None]:
    """Close both ends when one closes."""
    try:
        with contextlib.suppress(OSError):
            yield
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wired(port: int) -> Iterator[Wire]:
    """A `Wire` to a server on this machine."""
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
