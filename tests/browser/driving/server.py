"""`qt-bert app` as somebody starts it: on a free port, from a folder that is not the repository."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil

COMMAND = Path(sys.executable).with_name("qt-bert")
PATIENCE = 60.0
MB = 1024 * 1024


@dataclass(frozen=True)
class Server:
    """A running server: its address, process and log, and the seconds from its start to its answer."""

    url: str
    process: psutil.Process
    log: Path
    seconds: float

    def resident(self) -> float:
        """MB of memory that the server and its children hold."""
        whole = [self.process, *self.process.children(recursive=True)]
        return sum(one.memory_info().rss for one in whole) / MB

    def printed(self) -> str:
        """What it wrote so far, standard output and error."""
        return self.log.read_text(encoding="utf-8", errors="replace")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[Server]:
    """`qt-bert app` with these arguments, started in `folder` and stopped at the end.

    Raises RuntimeError with what it printed where it does not answer within a minute.
    """
    port, log = free_port(), folder / "server.log"
    command = [str(COMMAND), "app", "--no-browser", "--port", str(port), *arguments]
    with log.open("wb") as printed:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed
        )
    try:
        url = f"http://127.0.0.1:{port}"
        if not _answers(url, process):
            raise RuntimeError(f"qt-bert app does not answer:\n{log.read_text(errors='replace')}")
        seconds = time.perf_counter() - started
        yield Server(url, psutil.Process(process.pid), log, seconds)
    finally:
        _stop(process)


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            with urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            time.sleep(0.05)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
