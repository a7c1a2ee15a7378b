"""The wire that times a server: what it counts, and what it only passes on."""

import socket
import threading
import time

import pytest

from benchmarks.common.wire import Wire, wired

ASK = b"GET /_stcore/stream HTTP/1.1\r\n\r\n"


@pytest.fixture
def slow_server():
    """Sends what it gets back in capitals, after 50 ms."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            end, _ = listening.accept()
            threading.Thread(target=answer, args=(end,), daemon=True).start()

    def answer(end):
        while data := end.recv(65536):
            time.sleep(0.05)
            end.sendall(data.upper())

    threading.Thread(target=serve, daemon=True).start()
    return listening.getsockname()[1]


def said(wire: Wire, *messages: bytes) -> list[bytes]:
    port = int(wire.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as end:
        answers = []
        for message in messages:
            end.sendall(message)
            answers.append(end.recv(65536))
        return answers


def test_a_web_socket_is_timed_from_request_to_answer(slow_server):
    with wired(slow_server) as wire:
        assert said(wire, ASK, b"rerun the page, please") == [
            ASK.upper(),
            b"RERUN THE PAGE, PLEASE",
        ]
        assert 50 <= wire.milliseconds() < 5000
