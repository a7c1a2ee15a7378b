"""Ray Data as an engine: texts go to actors, and what they say comes back as it is said.

Ray ends a connected process without a word where the head of its cluster, or its own processes on that
machine, are gone; and it reads its settings once, as it is imported. So a process of its own is connected
(`python -m qt_bert.cluster.ray`): the command talks to it by lines of JSON, and its end is an error like
any other. Where the command is gone, however it ended, that process takes a private cluster down.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, RunFolderError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "OMP_NUM_THREADS": "1",
}
PRIVATE = {
    "RAY_AUTH_MODE": "token",
    # Despite its name it is what makes Ray listen on the address it is given, and on no other.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
OBJECT_STORE_BYTES = 80 * 2**20
"""Only descriptions pass through it; Ray takes no less than 75 MiB."""
RETRIES, RESTARTS = 2, 20
"""How often a partition whose actor died is tried again, and an actor started again."""
CONNECT_SECONDS, LEAVE_SECONDS = 10.0, 20.0
LONGEST_FOLDER = 40
"""Ray's sockets lie 66 characters below its folder, and the system takes 107."""


_PANEL = {"rich_help_panel": "Cluster · 集群"}


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """How a run is done, on which its scores do not depend; the fields' docs are the help.

    Raises ArgumentError for less than one actor or row.
    """

    address: str | None = field(default=None, metadata=_PANEL)
    """With --engine ray: the cluster's HOST:PORT, or auto. [default: a private one here]"""
    actors: int | None = field(default=None, metadata=_PANEL)
    """With --engine ray: processes of one CPU each. [default: all CPUs]"""
    rows_per_partition: int | None = field(default=None, metadata=_PANEL)
    """With --engine ray: rows that an actor takes at a time. [default: at most 8192]"""

    def __post_init__(self) -> None:
        for name in ("actors", "rows_per_partition"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"--{name.replace('_', '-')} {value}: give at least 1")


def available_cpus() -> int:
    """The processors that this process may use, by its affinity and its container's quota."""
    import joblib

    return int(joblib.cpu_count())


class Engine:
    """A connected cluster: `machines` and `cpus` are what it lends. Made by `connected`."""

    def __init__(self, process: subprocess.Popen[str], where: str) -> None:
        self._process, self._where = process, where
        self.machines = self.cpus = 1

    def run(
        self, worker: str, arguments: Mapping[str, Any], items: Sequence[str], actors: int
    ) -> Iterator[Any]:
        """What `actors` actors of one CPU say of `items`, in any order, as plain data.

        `worker` (`module:class`) is opened with `arguments` in each, and called with an item. An item is
        left out of which the actors died more often than Ray tries again. Raises RunFolderError where
        Ray gives up, or ends without a word.
        """
        work = {"worker": worker, "arguments": dict(arguments), "items": list(items)}
        return self.ask(work | {"actors": actors, "folder": os.getcwd()})

    def ask(self, asked: Mapping[str, Any]) -> Iterator[Any]:
        """Send a line, and give what is said until its end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # its end is told where an answer is missing
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            said = json.loads(line)
            if "error" in said:
                raise (ArgumentError if said["kind"] == "start" else RunFolderError)(said["error"])
            if "end" in said:
                return
            yield said["said"]
        raise RunFolderError(
            f"--engine ray: Ray's process ended without a word; the head {self._where}, or Ray's own "
            "processes here, are gone, or memory ran out; --resume goes on"
        )


@contextmanager
def connected(address: str | None = None, cpus: int | None = None) -> Iterator[Engine]:
    """The cluster at `address`, or a private one of this machine with `cpus` CPUs.

    A private one listens on 127.0.0.1 alone, asks for a token that only its own processes know, and is
    gone when the block is left. Raises ArgumentError where Ray is missing, does not start, or cannot be
    reached.
    """
    check_address(address)
    base = tempfile.gettempdir()
    folder = tempfile.mkdtemp(
        prefix="qtb-", dir=base if len(base) < LONGEST_FOLDER - 12 else "/tmp"
    )
    own = {} if address else PRIVATE | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "qt_bert.cluster.ray"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env=os.environ | QUIET | own,
        start_new_session=True,  # a Ctrl-C is the command's, which then ends it
    )
    engine = Engine(process, "on this machine" if address is None else f"of {address}")
    try:
        start = {"address": address, "cpus": cpus or available_cpus(), "folder": folder}
        (found,) = engine.ask(start)
        engine.machines, engine.cpus = found["machines"], found["cpus"]
        yield engine
    finally:
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        take_down(folder)


def take_down(folder: str) -> None:
    """Kill what works in the folder of a private cluster, and remove it."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError, ValueError):
            pid = int(entry.parent.name)
            if pid != os.getpid() and folder.encode() in entry.read_bytes():
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def check_address(address: str | None) -> None:
    """Raise ArgumentError at once for an address where nobody answers; Ray would try for a minute."""
    if address is None or address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal()) or "/" in address:
        raise ArgumentError(
            f"--address {address}: give the cluster's HOST:PORT, as `ray start --head` prints it, or "
            "`auto` on a machine of the cluster"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ArgumentError(
            f"--address {address}: nobody answers there ({error}); is the cluster up, and is this its "
            "HOST:PORT, as `ray start --head` prints it?"
        ) from error


# In the process that is connected.


class Actor:
    """The process of a worker. What Python raises in it becomes what is said, so that Ray's own retries
    meet dead processes alone."""

    def __init__(self, worker: str, arguments: Mapping[str, Any], folder: str) -> None:
        with suppress(OSError):  # relative paths are the command's; a machine without it says so
            os.chdir(folder)
        module, _, name = worker.partition(":")
        try:
            opened = getattr(import_module(module), name)(**arguments)
            self._answer: Callable[[str], Any] = opened
        except Exception as error:
            words = f"machine {socket.gethostname()}: {error}"
            self._answer = lambda item: {"fatal": words}

    def __call__(self, batch: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """A batch of Ray Data: items in, what is said of them out."""
        return {"said": [json.dumps(self._answer(str(item))) for item in batch["item"]]}


def main() -> None:
    """Connect as the first line of standard input says, and run what each further line asks."""
    say = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Ray prints
    asked: queue.Queue[dict[str, Any]] = queue.Queue()
    first = json.loads(sys.stdin.readline())
    threading.Thread(target=_listen, args=(asked, first), daemon=True).start()

    def tell(value: Mapping[str, Any]) -> None:
        say.write(json.dumps(value) + "\n")
        say.flush()

    try:
        tell({"said": _connect(**first)})
        tell({"end": True})
    except Exception as error:  # Ray raises whatever it meets
        tell({"kind": "start", "error": _refusal(first["address"], error)})
        return
    while True:
        wanted = asked.get()
        try:
            for row in _handed_out(**wanted).iter_rows():
                tell({"said": json.loads(row["said"])})
            tell({"end": True})
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            words = f"{type(error).__name__}: {lines[0][:300] if lines else 'no more is known'}"
            tell({"kind": "run", "error": f"Ray gave up ({words}); --resume goes on"})


def _listen(asked: queue.Queue[dict[str, Any]], first: Mapping[str, Any]) -> None:
    """Take what is asked; where nobody is there to ask any more, take all down."""
    for line in sys.stdin:
        asked.put(json.loads(line))
    if first["address"] is None:
        take_down(first["folder"])
    os._exit(0)


def _connect(address: str | None, cpus: int, folder: str) -> dict[str, int]:
    """Start or join the cluster; how many machines lend how many CPUs."""
    warnings.simplefilter("ignore")
    ray = import_module("ray")
    import_module("ray.data")
    more: dict[str, Any] = {"address": address}
    if address is None:
        more = {
            "address": "local",
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": folder,
        }
    ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **more)
    for name in ("ray", "ray.data", "ray.serve"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    lent = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    if not sum(lent):
        raise RuntimeError("no machine of the cluster lends a CPU; add machines to it")
    return {"machines": sum(map(bool, lent)), "cpus": sum(lent)}


def _handed_out(
    worker: str, arguments: Mapping[str, Any], items: Sequence[str], actors: int, folder: str
) -> Any:
    """The answers as a data set, not yet begun; a block an item, for a block is what Ray hands out."""
    data = import_module("ray").data
    context = data.DataContext.get_current()
    context.print_on_execution_start = False
    context.enable_progress_bars = False
    context.max_errored_blocks = (
        -1
    )  # an item that kills its actors is left out; all others are done
    return data.from_items(
        [{"item": item} for item in items], override_num_blocks=len(items)
    ).map_batches(
        Actor,
        batch_size=1,
        batch_format="numpy",
        num_cpus=1,
        # One at a time: an actor that dies takes no other item's tries with it.
        compute=data.ActorPoolStrategy(
            size=min(actors, len(items)), max_tasks_in_flight_per_actor=1
        ),
        fn_constructor_kwargs={"worker": worker, "arguments": arguments, "folder": folder},
        max_restarts=RESTARTS,
        max_task_retries=RETRIES,
    )


def _refusal(address: str | None, error: Exception) -> str:
    words = next((line.strip() for line in str(error).splitlines() if line.strip()), "")[:200]
    words = words or type(error).__name__
    if isinstance(error, ImportError):
        return f"--engine ray: Ray is not installed ({words}); pip install 'qt-bert[ray]'"
    if address is None:
        return (
            f"--engine ray: no cluster could be started on this machine ({words}); is it very busy, or "
            "out of memory?"
        )
    # Ray does not tell a wrong token from a machine that is none of the cluster's.
    return (
        f"--address {address}: no connection to the cluster ({words}); run this on a machine of the "
        "cluster (`ray start --head` starts one), with its versions of Ray and Python, and if it asks "
        "for a token, put that into RAY_AUTH_TOKEN or ~/.ray/auth_token"
    )


if __name__ == "__main__":
    main()
