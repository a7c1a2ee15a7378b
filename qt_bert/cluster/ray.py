"""Ray: how it is imported, a cluster here or elsewhere, the engine that hands out work."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import joblib

from qt_bert.cluster import watchdog
from qt_bert.cluster.faults import is_fault, plain
from qt_bert.cluster.processes import Helper, HelperGoneError, owned_folder
from qt_bert.errors import ArgumentError, RunFolderError

# Importing Ray: it reads its settings from the environment once, as it is imported.


_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "OMP_NUM_THREADS": "1",
}
_PRIVATE = {
    "RAY_AUTH_MODE": "token",
    # Despite its name it is what makes Ray listen on the address it is given, and on no other.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}


def load_ray(*, private: bool) -> Any:
    """The module `ray`, which says nothing; `private`: for a cluster that lets nobody else in.

    What it was loaded for first holds for the whole process. Raises ArgumentError where Ray is not
    installed.
    """
    if "ray" in sys.modules:
        return sys.modules["ray"]
    os.environ.update(_QUIET)
    if private:
        os.environ.update(_PRIVATE, RAY_AUTH_TOKEN=secrets.token_hex(32))
    try:
        with without_stderr(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_module("ray.data")
    except ImportError as error:
        raise ArgumentError(
            f"--engine ray: Ray is not installed ({error}); pip install 'qt-bert[ray]'"
        ) from error
    return sys.modules["ray"]


@contextmanager
def without_stderr() -> Iterator[None]:
    """Drop what this process writes to its standard error, also from below Python: as Ray's core
    starts, it says that it was told to say nothing."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# Being connected to a Ray cluster. What stands here runs in a helper process, which Ray ends
# without a
# word where the cluster's head, or its own processes on this machine, are gone.


_OBJECT_STORE_BYTES = 80 * 2**20
"""Only descriptors pass through it; Ray takes no less than 75 MiB."""

_TOKEN = "the cluster's own into RAY_AUTH_TOKEN or ~/.ray/auth_token"


@dataclass(frozen=True)
class Node:
    """A machine of a cluster: its number, its address, and how many CPUs it lends."""

    id: str
    address: str
    cpus: int


def start_private(folder: str, cpus: int) -> None:
    """Start a cluster that works in `folder`, for this machine and its user's token alone.

    Raises ArgumentError where Ray is missing or does not start: on a busy machine it gives up after 30
    seconds.
    """
    ray = load_ray(private=True)
    try:
        with without_stderr():
            ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
            )
    except Exception as error:  # Ray raises whatever it meets
        raise ArgumentError(
            f"--engine ray: no cluster could be started on this machine ({first_line(error)}); is it "
            "very busy, or out of memory?"
        ) from error
    _quiet()


def connect(address: str) -> None:
    """Connect to the cluster at HOST:PORT, or `auto`. Raises ArgumentError where that cannot be done."""
    ray = load_ray(private=False)
    try:
        with without_stderr():
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # Ray raises whatever it meets
        raise ArgumentError(_refusal(address, error)) from error
    _quiet()


def lending_nodes() -> list[Node]:
    """The machines that are alive and lend CPUs, by address. Raises ArgumentError where Ray does."""
    try:
        known = load_ray(private=False).nodes()
    except Exception as error:  # Ray raises whatever it meets
        raise ArgumentError(
            f"the cluster does not say what machines it has ({first_line(error)})"
        ) from error
    found = [
        Node(one["NodeID"], one["NodeManagerAddress"], int(one["Resources"].get("CPU", 0)))
        for one in known
        if one["Alive"]
    ]
    return sorted((one for one in found if one.cpus), key=lambda node: (node.address, node.id))


def _refusal(address: str, error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    if "auth" in text.lower() and "token" in text.lower():
        advice = f"it asks for a token: put {_TOKEN}"
    elif "version" in text.lower():
        advice = "give this machine the cluster's versions of Ray and Python"
    elif address == "auto":
        advice = "no cluster runs on this machine: start one (`ray start --head`), or leave --address out"
    else:
        # Ray does not tell a wrong token from a machine that is none of the cluster's.
        advice = f"run this command on a machine of the cluster, and if it asks for a token, put {_TOKEN}"
    return f"--address {address}: no connection to the cluster ({first_line(error)}); {advice}"


def _quiet() -> None:
    for name in ("ray", "ray.data", "ray.serve"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def first_line(error: Exception) -> str:
    """Of what an error says, or its kind where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:200]


# The folder of a private Ray cluster: nobody else's, and cleared as soon as its owner is gone.


_CLEARED_SECONDS = 30
_LONGEST = 40
"""Ray's sockets lie 66 characters below its folder, and the system takes 107."""


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder in an `owned_folder`; what works there is killed as the block is left.

    A process apart sees to that, also when this one is gone by SIGKILL. Raises as `owned_folder`.
    """
    with owned_folder(_LONGEST) as folder:
        inner = folder / "r"
        inner.mkdir()
        read, write = os.pipe()
        guard = _start(folder, read)
        os.close(read)
        try:
            yield inner
        finally:
            os.close(write)
            with suppress(subprocess.TimeoutExpired):
                guard.wait(_CLEARED_SECONDS)


def _start(folder: Path, read: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", watchdog.__file__, str(folder), str(os.getpid()), str(read)]
    return subprocess.Popen(
        command,
        pass_fds=[read],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


# The Ray cluster of a run: a private one on this machine, or one that is there.


_CONNECT_SECONDS = 10.0
_COME_BACK_SECONDS, _EVERY_SECONDS = 60.0, 2.0
_CONNECTED_SECONDS = 180.0
"""On a busy machine Ray's processes come slowly; at some addresses Ray would try for ever."""


class EngineError(Exception):
    """Ray gave up: machines or actors are gone, or nothing came for too long. Not the input's fault."""


@dataclass
class Cluster:
    """A cluster that a helper process is connected to.

    Where `address` is None it is a private one with `cpus_wanted` CPUs, which lives and dies with this
    process. Where the helper is lost, another one is connected when there is something to ask again; a
    private cluster is started anew then.
    """

    address: str | None
    cpus_wanted: int
    _helper: Helper | None = field(init=False, default=None)
    _held: ExitStack = field(init=False, default_factory=ExitStack)
    _left: bool = field(init=False, default=False)

    @property
    def own(self) -> bool:
        """Whether it is a private one."""
        return self.address is None

    @property
    def nodes(self) -> list[Node]:
        """The machines that are alive and lend CPUs, by address. Raises ArgumentError as `call` does."""
        found: list[Node] = self.call(lending_nodes)
        return found

    @property
    def cpus(self) -> int:
        """All their CPUs."""
        return sum(node.cpus for node in self.nodes)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of a module gives in the process that is connected.

        Raises what it raises, and ArgumentError where the connection is lost on the way.
        """
        try:
            return self._connected().call(function, *arguments)
        except HelperGoneError as error:
            raise ArgumentError(self._lost(error)) from error

    def stream(
        self, function: Callable[..., Iterable[Any]], *arguments: Any
    ) -> Generator[Any, None, None]:
        """As `call`, value by value; EngineError where there is no connection, or not to the end.

        A head at an address gets a minute to come back.
        """
        helper = self._connected_in_the_end()
        try:
            yield from helper.stream(function, *arguments)
        except HelperGoneError as error:
            raise EngineError(self._lost(error)) from error

    def connect(self) -> None:
        """Connect, anew where that was done before.

        Raises ArgumentError where it cannot be done; RunFolderError and OSError where there is no room
        for a folder or a process.
        """
        if self._left:
            raise RuntimeError("this cluster was left; ask it in its block")
        self._held.close()
        try:
            self._helper = self._opened()
        except ArgumentError:
            if not self.own:
                raise
            self._helper = self._opened()  # on a busy machine Ray gives up after 30 seconds

    def leave(self) -> None:
        """Take a private cluster down, and leave another one; for good."""
        self._left = True
        self._held.close()

    def _connected_in_the_end(self) -> Helper:
        end = time.monotonic() + (0 if self.own else _COME_BACK_SECONDS)
        while True:
            try:
                return self._connected()
            except (ArgumentError, RunFolderError, OSError) as error:
                if time.monotonic() >= end:
                    raise EngineError(str(error)) from error
            time.sleep(_EVERY_SECONDS)

    def _connected(self) -> Helper:
        if self._helper is None or not self._helper.alive:
            self.connect()
        assert self._helper is not None
        return self._helper

    def _opened(self) -> Helper:
        with ExitStack() as stack:
            if self.address is None:
                folder = stack.enter_context(private_folder())
                how: tuple[Any, ...] = (start_private, str(folder), self.cpus_wanted)
            else:
                _check_address(self.address)
                how = (connect, self.address)
            helper = stack.enter_context(Helper())
            try:
                helper.call(*how, seconds=_CONNECTED_SECONDS)
            except HelperGoneError as error:
                raise ArgumentError(self._lost(error)) from error
            self._held = stack.pop_all()
        return helper

    def _lost(self, error: HelperGoneError) -> str:
        where = "--engine ray" if self.address is None else f"--address {self.address}"
        return (
            f"{where}: the cluster does not answer ({error}); are its head, and Ray's own processes on "
            "this machine, alive?"
        )


@contextmanager
def cluster(address: str | None = None, cpus: int | None = None) -> Iterator[Cluster]:
    """Connect to the cluster at `address`, or start a private one with `cpus` CPUs, and leave it.

    A private cluster (no `address`) listens on this machine alone, asks for a token that only its
    processes know, and is gone when the block is left or this process dies. Any other one is only
    left. The thread that enters the block has to live as long. Raises as `Cluster.connect`, where Ray is
    missing, too.
    """
    there = Cluster(address, cpus or available_cpus())
    try:
        there.connect()
        yield there
    finally:
        there.leave()


def cpus_of(there: Cluster) -> int:
    """All CPUs of a cluster. Raises ArgumentError, naming its address, where it lends none."""
    if not (cpus := there.cpus):
        raise ArgumentError(
            f"--address {there.address}: no machine of the cluster lends a CPU; add machines to it"
        )
    return cpus


def available_cpus() -> int:
    """The processors that this process may use, by its affinity and its container's quota."""
    return int(joblib.cpu_count())


def _check_address(address: str) -> None:
    """Say what is wrong at once, where Ray would try for a minute."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isascii() and port.isdecimal()) or "/" in address:
        raise ArgumentError(
            f"--address {address}: give the cluster's HOST:PORT, as `ray start --head` prints it, or "
            "`auto` on a machine of the cluster"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ArgumentError(
            f"--address {address}: nobody answers there ({error}); is the cluster up, and is this "
            "its HOST:PORT, as `ray start --head` prints it?"
        ) from error


# Ray Data as an engine: descriptors go to actors, and what they say comes back as it is said.
#
# Ray sees one short text an item. Data are read and written by the actors themselves, and whatever
# Python raises in one becomes a text, so that Ray's own retries meet dead processes and machines
# alone.


RESTARTS = 20
"""How often an actor is started again in a round of items."""

_IN_FLIGHT = 2
_LEAST_ROUND, _MOST_ROUND, _ITEMS_AN_ACTOR = 512, 8192, 64


class Worker(Protocol):
    """What an actor does: opened once in its process, then asked again and again."""

    def answer(self, item: str) -> str:
        """What is to be said of an item. What it raises becomes `fault`."""


@dataclass(frozen=True)
class Task:
    """Who works: `opened` makes a `Worker` of `arguments` in the actor's process, and `fault` says what
    an error means that it, or its worker, raised at an item. Both are functions of a module."""

    opened: Callable[..., Worker]
    arguments: Mapping[str, Any]
    fault: Callable[[str, BaseException], str]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What an engine may use: `actors` of one CPU each, `restarts` of each; `silence`, the seconds in
    which nothing at all need come back."""

    actors: int
    restarts: int = RESTARTS
    silence: float = 1800.0

    def __post_init__(self) -> None:
        if self.actors < 1:
            raise ArgumentError(f"{self.actors} actors: give at least one")

    @property
    def round(self) -> int:
        """Items to hand over at a time.

        Actors start anew each time, and wait for the last of them at its end, so each gets many;
        the driver needs about 15 ms an item, before and while they are done, and memory for all.
        """
        return max(_LEAST_ROUND, min(_MOST_ROUND, _ITEMS_AN_ACTOR * self.actors))

    def describe(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self) | {"round": self.round}


class Actor:
    """The process of a worker. It never raises for an item, nor when it starts."""

    def __init__(self, task: Task, folder: str) -> None:
        self._task = task
        self._worker: Worker | None = None
        self._error: BaseException | None = None
        with suppress(
            OSError
        ):  # relative paths are the driver's; a machine without the folder says so
            os.chdir(folder)
        try:
            self._worker = task.opened(**task.arguments)
        except BaseException as error:
            if not is_fault(error):
                raise
            self._error = error

    def __call__(self, batch: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """A batch of Ray Data: items in, what is said of them out."""
        return {"said": [self._said(str(item)) for item in batch["item"]]}

    def _said(self, item: str) -> str:
        try:
            if self._worker is None:
                raise self._error or RuntimeError("not opened")
            return self._worker.answer(item)
        except BaseException as error:
            if not is_fault(error):
                raise
            return self._task.fault(item, error)


def run(
    there: Cluster, items: Sequence[str], task: Task, bounds: Bounds
) -> Generator[str, None, None]:
    """Have `items` answered by actors of a cluster, in any order.

    An item whose actor dies is handed out again; an answer may be missing only where EngineError is
    raised, which Ray's own failures become. An actor needs one CPU, and nothing else needs any.
    """
    if items:
        yield from there.stream(_answers, list(items), task, bounds)


def _answers(items: Sequence[str], task: Task, bounds: Bounds) -> Iterator[str]:
    """In the process that is connected to the cluster."""
    ray = load_ray(private=False)
    _set_up(ray, bounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for row in _handed_out(ray, items, task, bounds).iter_rows():
                yield row["said"]
        except Exception as error:  # Ray raises whatever it meets; nothing else is done in here
            raise EngineError(_words(error)) from error


def _set_up(ray: Any, bounds: Bounds) -> None:
    context = ray.data.DataContext.get_current()
    context.print_on_execution_start = False
    context.enable_progress_bars = False
    context.execution_no_progress_timeout_s = bounds.silence
    context.max_errored_blocks = 0


def _handed_out(ray: Any, items: Sequence[str], task: Task, bounds: Bounds) -> Any:
    """The answers as a data set, not yet begun; a block an item, for a block is what Ray hands out."""
    actors = min(bounds.actors, len(items))
    return ray.data.from_items(
        [{"item": item} for item in items], override_num_blocks=len(items)
    ).map_batches(
        Actor,
        batch_size=1,
        batch_format="numpy",
        num_cpus=1,
        compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=_IN_FLIGHT),
        fn_constructor_kwargs={"task": task, "folder": os.getcwd()},
        max_restarts=bounds.restarts,
        max_task_retries=-1,
    )


def _words(error: BaseException) -> str:
    """Its kind and the first line that says something."""
    lines = [plain(line).strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300] if lines else 'no more is known'}"
