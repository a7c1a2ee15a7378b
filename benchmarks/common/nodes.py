"""A Ray cluster of several machines, played on this one: machines join it and are lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from qt_bert.cluster import watchdog
from qt_bert.cluster.processes import Helper, HelperGoneError
from qt_bert.cluster.ray import load_ray, private_folder

JOIN_SECONDS = 120
"""A busy machine starts its processes late."""

_NODE: dict[str, Any] = {
    "node_ip_address": "127.0.0.1",
    "object_store_memory": 80 * 2**20,
    "include_dashboard": False,
}

_LOSS_IS_SEEN_SOON = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
}


@dataclass(frozen=True)
class Nodes:
    """The cluster whose files lie in `folder`: a head without CPUs, and the workers that were added.

    `address` is HOST:PORT, for a driver that has this process's environment. A process apart holds it.
    """

    holder: Helper
    address: str
    folder: Path

    def add(self, number: int = 1) -> list[str]:
        """So many workers more, of one CPU each; their names."""
        added: list[str] = self.holder.call(_add, number)
        return added

    def lose(self, worker: str) -> None:
        """Kill all processes of a worker at once."""
        self.holder.call(_lose, worker)

    def processes(self) -> list[psutil.Process]:
        """All of them: of the head, of the workers, and what is connected for a command."""
        found = []
        for number in watchdog.working_in(str(self.folder), {os.getpid(), self.holder.pid}):
            try:
                found.append(psutil.Process(number))
            except psutil.NoSuchProcess:
                continue
        return found

    def actors(self) -> list[psutil.Process]:
        """Those that score or sweep, at work or idle."""
        return [one for one in self.processes() if is_actor(one)]


def is_actor(process: psutil.Process) -> bool:
    """Whether a process is one of Ray Data's that do the work; Ray writes that over its first word."""
    try:
        return "MapWorker" in "".join(process.cmdline()[:1])
    except psutil.Error:
        return False


@contextmanager
def nodes() -> Iterator[Nodes]:
    """The head, closed to others than this process's children; all is gone when the block is left."""
    with private_folder() as folder, Helper() as holder:
        (folder / "ray").mkdir()
        address, environment = holder.call(_start, str(folder))
        with _environment(**environment):
            try:
                yield Nodes(holder, address, folder)
            finally:
                with suppress(HelperGoneError):
                    holder.call(_stop)


_cluster: Any = None
"""In the process that holds it."""


def _start(folder: str) -> tuple[str, dict[str, str]]:
    """The address of a new head, and what those who come to it have in their environment."""
    global _cluster
    load_ray(private=True)
    from ray.cluster_utils import Cluster

    os.environ.update(_LOSS_IS_SEEN_SOON, RAY_TMPDIR=folder)
    _cluster = Cluster(initialize_head=True, head_node_args=_NODE | {"num_cpus": 0})
    names = [name for name in os.environ if name.startswith(("RAY_AUTH_", "RAY_ENABLE_"))]
    return _cluster.address, {name: os.environ[name] for name in names}


def _add(number: int) -> list[str]:
    added = [_cluster.add_node(wait=False, **_NODE, num_cpus=1) for _ in range(number)]
    _cluster.wait_for_nodes(timeout=JOIN_SECONDS)
    return [node.raylet_socket_name for node in added]


def _lose(worker: str) -> None:
    [lost] = [node for node in _cluster.worker_nodes if node.raylet_socket_name == worker]
    _cluster.remove_node(lost, allow_graceful=False)


def _stop() -> None:
    _cluster.shutdown()


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
