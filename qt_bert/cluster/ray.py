"""Ray Data as an engine: texts go to actors, results stream back.

Ray kills a connected process silently when the cluster's head, or Ray's own processes on that machine,
are gone, and it reads its settings once, on import. So a child process connects (`python -m
qt_bert.cluster.ray`) and exchanges lines of JSON with the command, for which its end is an ordinary error.
When the command ends, the child shuts a private cluster down.
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
    # Despite its name, this makes Ray listen on the given address only.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
OBJECT_STORE_BYTES = 80 * 2**20
"""Only descriptions of partitions are stored; Ray's minimum is 75 MiB."""
RETRIES, RESTARTS = 2, 20
"""Retries of a partition whose actor died, and restarts of an actor."""
CONNECT_SECONDS, LEAVE_SECONDS = 10.0, 20.0
LONGEST_FOLDER = 40
"""Ray's socket names are 66 characters longer, and the system allows 107."""
ROWS = 2_048
"""Rows of a partition by default: seconds for `student`, a minute for a BERT-base."""

_PANEL = {"rich_help_panel": "Cluster · 集群"}


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Options that change no score. Raises ArgumentError for less than one actor or row."""

    address: str | None = field(default=None, metadata=_PANEL)
    """With --engine ray: the cluster's HOST:PORT, or auto. [default: a private one here]"""
    actors: int | None = field(default=None, metadata=_PANEL)
    """With --engine ray: processes of one CPU each, on --device cuda also of one GPU. [default: all CPUs,
    or all GPUs]"""
    rows_per_partition: int = field(default=ROWS, metadata=_PANEL)
    """With --engine ray: rows of a partition, which an actor scores at a time."""
    skip_others: bool = field(default=False, metadata=_PANEL)
    """With --engine ray: ignore files in folders that are no files of pairs."""

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
    """The CPUs that this process may use, by affinity and container quota."""
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
    """Results of `items` from actors of one CPU and so many `gpus`, in any order, as plain data.

    Each actor makes a `worker` (`module:class`) with `arguments` and calls it with items. The cluster is
    the one at `address`, or a private one on this machine, which listens on 127.0.0.1 only, requires a
    secret token, and ends with the iterator. There are at most as many `actors` as its CPUs, or GPUs where
    they need one. An item is missing where its actors died more often than Ray retries.

    Raises ArgumentError where Ray is missing, does not start, or is unreachable; RunFolderError where Ray
    gives up or dies.
    """
    work = {"worker": worker, "arguments": dict(arguments), "items": list(items)}
    cpus = min(actors or available_cpus(), len(items))
    replies = _replies(
        address, cpus, work | {"actors": actors, "gpus": gpus, "folder": os.getcwd()}
    )
    next(replies)  # the cluster's size
    yield from replies


def cluster_size(address: str, gpus: int = 0) -> tuple[int, int]:
    """The number of machines of the cluster at `address`, and of actors of one CPU and so many `gpus` that
    fit. Raises as `run_on_ray`, and ArgumentError where none does."""
    (size,) = _replies(address, None, None)
    actors = size["gpus" if gpus else "cpus"]
    if not actors:
        raise ArgumentError(f"--address {address}: no machine lends a GPU; take --device cpu")
    return size["machines"], actors


def _replies(
    address: str | None, cpus: int | None, work: Mapping[str, Any] | None
) -> Iterator[Any]:
    """The child process's replies: the cluster's size, then the results of `work`."""
    check_address(address)
    base = tempfile.gettempdir()
    fits = len(f"{base}/qtb-12345678") <= LONGEST_FOLDER
    folder = tempfile.mkdtemp(prefix="qtb-", dir=base if fits else "/tmp")
    private = {} if address else PRIVATE | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "qt_bert.cluster.ray"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env=os.environ | QUIET | private,
        start_new_session=True,  # the command handles Ctrl-C, and ends the child
    )
    assert process.stdin is not None and process.stdout is not None
    request = {"address": address, "cpus": cpus, "folder": folder, "work": work}
    try:
        with suppress(BrokenPipeError):  # a missing reply is the error
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        for line in process.stdout:
            reply = json.loads(line)
            if "error" in reply:
                kind = ArgumentError if reply["kind"] == "start" else RunFolderError
                raise kind(reply["error"])
            if "end" in reply:
                return
            yield reply["result"]
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
    """Kill the processes of the private cluster in `folder`, and remove it."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError, ValueError):
            pid = int(entry.parent.name)
            if pid != os.getpid() and folder.encode() in entry.read_bytes():
                os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def check_address(address: str | None) -> None:
    """Raise ArgumentError at once for an unreachable address; Ray would try for a minute."""
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


# In the child process.


class Actor:
    """The process of a worker. Its exceptions become results, so that Ray retries only dead processes."""

    def __init__(self, worker: str, arguments: Mapping[str, Any], folder: str) -> None:
        with suppress(OSError):  # for the command's relative paths
            os.chdir(folder)
        module, _, name = worker.partition(":")
        try:
            self._worker: Callable[[str], Any] = getattr(import_module(module), name)(**arguments)
        except Exception as error:
            message = f"machine {socket.gethostname()}: {error}"
            self._worker = lambda item: {"fatal": message}

    def __call__(self, batch: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """A batch of Ray Data: items → results."""
        return {"result": [json.dumps(self._worker(str(item))) for item in batch["item"]]}


def main() -> None:
    """Connect as requested by the line on standard input, and do its work."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Ray prints
    request = json.loads(sys.stdin.readline())
    address, folder = request["address"], request["folder"]
    watcher = threading.Thread(target=_wait_for_end, args=(address, folder), daemon=True)
    watcher.start()

    def reply(value: Mapping[str, Any]) -> None:
        output.write(json.dumps(value) + "\n")
        output.flush()

    try:
        size = _connect(address, request["cpus"], folder)
    except Exception as error:  # Ray raises errors of many types
        reply({"kind": "start", "error": _refusal(address, error)})
        return
    reply({"result": size})
    try:
        if request["work"] is not None:
            capacity = size["gpus" if request["work"]["gpus"] else "cpus"]
            if not capacity:
                raise RuntimeError("no machine of the cluster lends a GPU; take --device cpu")
            for row in _dataset(capacity, **request["work"]).iter_rows():
                reply({"result": json.loads(row["result"])})
        reply({"end": True})
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        message = f"{type(error).__name__}: {lines[0][:300] if lines else 'no more is known'}"
        reply({"kind": "run", "error": f"Ray gave up ({message}); --resume goes on"})
    watcher.join()


def _wait_for_end(address: str | None, folder: str) -> None:
    """When the command ends, take a private cluster down, and exit."""
    sys.stdin.read()
    if address is None:
        take_down(folder)
    os._exit(0)


def _connect(address: str | None, cpus: int | None, folder: str) -> dict[str, int]:
    """Start or join the cluster; its numbers of machines, CPUs and GPUs."""
    warnings.simplefilter("ignore")
    ray = import_module("ray")
    import_module("ray.data")
    options: dict[str, Any] = {"address": address}
    if address is None:
        options = {
            "address": "local",
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": folder,
        }
    ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **options)
    for name in ("ray", "ray.data", "ray.serve"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus_of, gpus_of = ([int(node.get(kind, 0)) for node in nodes] for kind in ("CPU", "GPU"))
    if not sum(cpus_of):
        raise RuntimeError("no machine of the cluster lends a CPU; add machines to it")
    return {"machines": sum(map(bool, cpus_of)), "cpus": sum(cpus_of), "gpus": sum(gpus_of)}


def _dataset(
    capacity: int,
    worker: str,
    arguments: Mapping[str, Any],
    items: Sequence[str],
    actors: int | None,
    gpus: int,
    folder: str,
) -> Any:
    """The results as a lazy data set with a block an item: Ray schedules blocks."""
    data = import_module("ray").data
    context = data.DataContext.get_current()
    context.print_on_execution_start = False
    context.enable_progress_bars = False
    context.max_errored_blocks = -1  # an item that kills its actors is omitted
    size = min(actors or capacity, capacity, len(items))
    rows = [{"item": item} for item in items]
    return data.from_items(rows, override_num_blocks=len(items)).map_batches(
        Actor,
        batch_size=1,
        batch_format="numpy",
        num_cpus=1,
        num_gpus=gpus,
        # One at a time, so that a dying actor costs no other item a retry.
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
    # Ray reports a wrong token and a machine outside the cluster alike.
    return (
        f"--address {address}: no connection to the cluster ({words}); run this on a machine of the "
        "cluster (`ray start --head` starts one), with its versions of Ray and Python, and if it asks "
        "for a token, put that into RAY_AUTH_TOKEN or ~/.ray/auth_token"
    )


if __name__ == "__main__":
    main()
