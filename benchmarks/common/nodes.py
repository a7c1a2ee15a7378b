"""A Ray cluster of several machines, played on this one: machines join it and are lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from qt_bert.scale.apart import watchdog
from qt_bert.scale.cluster.private_folder import private_folder
from qt_bert.scale.cluster.ray_loading import load_ray

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
    """The cluster whose files lie in `folder`: a head without CPUs, and the workers that were added."""

    ray: Any
    folder: Path

    @property
    def address(self) -> str:
        """HOST:PORT, for a driver that has this process's environment."""
        return str(self.ray.address)

    def add(self, number: int = 1) -> list[Any]:
        """So many workers more, of one CPU each."""
        added = [self.ray.add_node(wait=False, **_NODE, num_cpus=1) for _ in range(number)]
        self.ray.wait_for_nodes(timeout=JOIN_SECONDS)
        return added

    def lose(self, worker: Any) -> None:
        """Kill all processes of a worker at once."""
        self.ray.remove_node(worker, allow_graceful=False)

    def processes(self) -> list[psutil.Process]:
        """All of them: of the head, of the workers, and of the drivers that are connected."""
        found = []
        for number in watchdog.working_in(str(self.folder), {os.getpid()}):
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
    load_ray(private=True)
    from ray.cluster_utils import Cluster

    with private_folder() as folder:
        (folder / "ray").mkdir()
        with _environment(RAY_TMPDIR=str(folder), **_LOSS_IS_SEEN_SOON):
            started = Cluster(initialize_head=True, head_node_args=_NODE | {"num_cpus": 0})
        try:
            yield Nodes(started, folder)
        finally:
            # It removes a file that says where the cluster is: its own, and no other cluster's.
            with _environment(RAY_TMPDIR=str(folder)):
                started.shutdown()


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
