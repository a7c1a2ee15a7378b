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
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import joblib

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


def available_cpus() -> int:
    """The processors that this process may use, by its affinity and its container's quota."""
    return int(joblib.cpu_count())


class Engine:
    """A cluster of Ray: the one at `address`, or a private one of this machine with `cpus` CPUs.

    A private one listens on 127.0.0.1 alone, asks for a token that only its own processes know, and is
    gone when the block is left. Entering raises ArgumentError where Ray is missing, does not start, or
    cannot be reached. `machines` and `cpus` are what the cluster lends.
    """

    def __init__(self, address: str | None = None, cpus: int | None = None) -> None:
        self.address = address
        self.cpus = cpus or available_cpus()
        self.machines = 1

    def __enter__(self) -> Engine:
        check_address(self.address)
        base = tempfile.gettempdir()
        base = base if len(base) < LONGEST_FOLDER - 12 else "/tmp"
        self._folder = tempfile.mkdtemp(prefix="qtb-", dir=base)
        own = {} if self.address else PRIVATE | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "qt_bert.cluster.ray"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=os.environ | QUIET | own,
            start_new_session=True,  # a Ctrl-C is the command's, which then ends it
        )
        try:
            self._ask({"address": self.address, "cpus": self.cpus, "folder": self._folder})
            found = next(self._heard())
        except BaseException:
            self._leave()
            raise
        self.machines, self.cpus = found["machines"], found["cpus"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def run(
        self, worker: str, arguments: Mapping[str, Any], items: Sequence[str], actors: int
    ) -> Iterator[Any]:
        """What `actors` actors of one CPU say of `items`, in any order, as plain data.

        `worker` (`module:class`) is opened with `arguments` in each, and called with an item. An item is
        left out of which the actors died more often than Ray tries again. Raises RunFolderError where
        Ray gives up, or ends without a word.
        """
        self._ask(
            {
                "worker": worker,
                "arguments": dict(arguments),
                "items": list(items),
                "actors": actors,
                "folder": os.getcwd(),
            }
        )
        yield from self._heard()

    def _ask(self, asked: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # its end is told where an answer is missing
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()

    def _heard(self) -> Iterator[Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "error" in said:
                kind = ArgumentError if said["kind"] == "start" else RunFolderError
                raise kind(said["error"])
            if "end" in said:
                return
            yield said["said"]
        where = "on this machine" if self.address is None else f"of {self.address}"
        raise RunFolderError(
            f"--engine ray: Ray's process ended without a word; the head {where}, or Ray's own processes "
            "here, are gone, or memory ran out; --resume goes on"
        )

    def _leave(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        take_down(self._folder)


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
        tell({"said": _connect(first["address"], first["cpus"], first["folder"])})
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
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    words = (lines or [type(error).__name__])[0][:200]
    if isinstance(error, ImportError):
        return f"--engine ray: Ray is not installed ({words}); pip install 'qt-bert[ray]'"
    if address is None:
        return (
            f"--engine ray: no cluster could be started on this machine ({words}); is it very busy, or "
            "out of memory?"
        )
    token = "put the cluster's own into RAY_AUTH_TOKEN or ~/.ray/auth_token"
    said = f"{type(error).__name__}: {error}".lower()
    if "auth" in said and "token" in said:
        advice = f"it asks for a token: {token}"
    elif "version" in said:
        advice = "give this machine the cluster's versions of Ray and Python"
    elif address == "auto":
        advice = "no cluster runs on this machine: start one (`ray start --head`), or leave --address out"
    else:
        # Ray does not tell a wrong token from a machine that is none of the cluster's.
        advice = f"run this on a machine of the cluster, and if it asks for a token, {token}"
    return f"--address {address}: no connection to the cluster ({words}); {advice}"


if __name__ == "__main__":
    main()
