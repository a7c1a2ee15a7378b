"""Ray Data as an engine: texts go to actors, results stream back.

Ray ends a connected process without a word where the head of its cluster, or its own processes on that
machine, are gone; and it reads its settings once, as it is imported. So a process of its own is connected
(`python -m qt_bert.cluster.ray`): the command talks to it by lines of JSON, and its end is an error like
any other. Where the command is gone, however it ended, that process takes a private cluster down.
"""

from __future__ import annotations

import json
import logging
import os
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
from dataclasses import dataclass, field, fields
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
ROWS = 2_048
"""Of a partition, unless said: seconds of `student`, a minute of a BERT-base."""

_PANEL = {"rich_help_panel": "Cluster · 集群"}


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """How a run is done, on which its scores do not depend; the fields' docs are the help.

    Raises ArgumentError for less than one actor or row.
    """

    address: str | None = field(default=None, metadata=_PANEL)
    """With --engine ray: the cluster's HOST:PORT, or auto. [default: a private one here]"""
    actors: int | None = field(default=None, metadata=_PANEL)
    """With --engine ray: processes of one CPU each, on --device cuda also of one GPU. [default: all CPUs,
    or all GPUs]"""
    rows_per_partition: int = field(default=ROWS, metadata=_PANEL)
    """With --engine ray: rows that an actor takes at a time."""
    skip_others: bool = field(default=False, metadata=_PANEL)
    """With --engine ray: files in folders that are not of pairs are no error."""

    def __post_init__(self) -> None:
        for name in ("actors", "rows_per_partition"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"--{name.replace('_', '-')} {value}: give at least 1")


_ENGINES = ("local", "ray")


@dataclass(frozen=True, kw_only=True)
class EngineOptions(RayOptions):
    """Where `score` runs, and how on a cluster. Raises ArgumentError for options that need --engine ray."""

    engine: str = field(default="local", metadata=_PANEL)
    """Where the work runs: local, in this process; or ray, in actors on this machine or a cluster."""
    dry_run: bool = field(default=False, metadata=_PANEL)
    """Write nothing: count the rows, time a sample, and estimate the run."""
    rows: int | None = field(default=None, metadata={**_PANEL, "min": 1})
    """With --dry-run: for so many rows; without a file the sample is of pairs that ship."""
    price_per_hour: float | None = field(default=None, metadata={**_PANEL, "min": 0})
    """With --dry-run: the price of a machine an hour."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine not in _ENGINES:
            raise ArgumentError(f"--engine {self.engine}: give one of {', '.join(_ENGINES)}")
        for option in fields(RayOptions):
            if self.engine != "ray" and getattr(self, option.name) != option.default:
                raise ArgumentError(f"--{option.name.replace('_', '-')} goes with --engine ray")
        if not self.dry_run and (self.rows, self.price_per_hour) != (None, None):
            raise ArgumentError("--rows and --price-per-hour go with --dry-run")


def available_cpus() -> int:
    """The processors that this process may use, by its affinity and its container's quota."""
    import joblib

    return int(joblib.cpu_count())


def run_on_ray(
    worker: str,
    arguments: Mapping[str, Any],
    items: Sequence[str],
    *,
    address: str | None = None,
    actors: int | None = None,
    gpus: int = 0,
) -> Iterator[Any]:
    """What actors of one CPU, and so many `gpus`, say of `items`, in any order, as plain data.

    `worker` (`module:class`) is opened with `arguments` in each actor, and called with an item. The
    cluster is the one at `address`, or a private one of this machine: it listens on 127.0.0.1 alone, asks
    for a token that only its own processes know, and is gone when the iterator is. There are as many
    `actors` as it has CPUs, or GPUs where they take one, or fewer. An item is left out of which the actors died more often than Ray
    tries again.

    Raises ArgumentError where Ray is missing, does not start, or cannot be reached; RunFolderError where
    Ray gives up, or ends without a word.
    """
    work = {"worker": worker, "arguments": dict(arguments), "items": list(items)}
    cpus = min(actors or available_cpus(), len(items))
    said = _talk(address, cpus, work | {"actors": actors, "gpus": gpus, "folder": os.getcwd()})
    next(said)  # what the cluster lends
    yield from said


def lent(address: str, gpus: int = 0) -> tuple[int, int]:
    """How many machines of the cluster at `address` have room for how many actors, of one CPU and so many
    `gpus`. Raises as `run_on_ray`."""
    (found,) = _talk(address, None, None)
    return found["machines"], found["gpus" if gpus else "cpus"]


def _talk(address: str | None, cpus: int | None, work: Mapping[str, Any] | None) -> Iterator[Any]:
    """What the process that is connected says: what the cluster lends, then the answers to `work`."""
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
    assert process.stdin is not None and process.stdout is not None
    asked = {"address": address, "cpus": cpus, "folder": folder, "work": work}
    try:
        with suppress(BrokenPipeError):  # its end is told where an answer is missing
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
        for line in process.stdout:
            said = json.loads(line)
            if "error" in said:
                raise (ArgumentError if said["kind"] == "start" else RunFolderError)(said["error"])
            if "end" in said:
                return
            yield said["said"]
        where = "on this machine" if address is None else f"of {address}"
        raise RunFolderError(
            f"--engine ray: Ray's process ended without a word; the head {where}, or Ray's own "
            "processes here, are gone, or memory ran out; --resume goes on"
        )
    finally:
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
    """Connect as the line of standard input says, and have its work done."""
    say = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Ray prints
    asked = json.loads(sys.stdin.readline())
    address, folder = asked["address"], asked["folder"]
    command = threading.Thread(target=_outlive, args=(address, folder), daemon=True)
    command.start()

    def note_once(value: Mapping[str, Any]) -> None:
        say.write(json.dumps(value) + "\n")
        say.flush()

    try:
        found = _connect(address, asked["cpus"], folder)
    except Exception as error:  # Ray raises whatever it meets
        note_once({"kind": "start", "error": _refusal(address, error)})
        return
    note_once({"said": found})
    try:
        if asked["work"] is not None:
            room = found["gpus" if asked["work"]["gpus"] else "cpus"]
            if not room:
                raise RuntimeError("no machine of the cluster lends a GPU; take --device cpu")
            for row in _handed_out(room, **asked["work"]).iter_rows():
                note_once({"said": json.loads(row["said"])})
        note_once({"end": True})
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        words = f"{type(error).__name__}: {lines[0][:300] if lines else 'no more is known'}"
        note_once({"kind": "run", "error": f"Ray gave up ({words}); --resume goes on"})
    command.join()


def _outlive(address: str | None, folder: str) -> None:
    """Where the command has ended, however it did, take a private cluster down, and end."""
    sys.stdin.read()
    if address is None:
        take_down(folder)
    os._exit(0)


def _connect(address: str | None, cpus: int | None, folder: str) -> dict[str, int]:
    """Start or join the cluster; how many machines lend how many CPUs and GPUs."""
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
    there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    lent, gpus = ([int(one.get(kind, 0)) for one in there] for kind in ("CPU", "GPU"))
    if not sum(lent):
        raise RuntimeError("no machine of the cluster lends a CPU; add machines to it")
    return {"machines": sum(map(bool, lent)), "cpus": sum(lent), "gpus": sum(gpus)}


def _handed_out(
    room: int,
    worker: str,
    arguments: Mapping[str, Any],
    items: Sequence[str],
    actors: int | None,
    gpus: int,
    folder: str,
) -> Any:
    """The answers as a data set, not yet begun; a block an item, for a block is what Ray hands out."""
    data = import_module("ray").data
    context = data.DataContext.get_current()
    context.print_on_execution_start = False
    context.enable_progress_bars = False
    # An item that kills its actors is left out; all others are done.
    context.max_errored_blocks = -1
    size = min(actors or room, room, len(items))
    rows = [{"item": item} for item in items]
    return data.from_items(rows, override_num_blocks=len(items)).map_batches(
        Actor,
        batch_size=1,
        batch_format="numpy",
        num_cpus=1,
        num_gpus=gpus,
        # One at a time: an actor that dies takes no other item's tries with it.
        compute=data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),
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
