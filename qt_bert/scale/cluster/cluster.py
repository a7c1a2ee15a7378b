"""The Ray cluster of a run: a private one on this machine, or one that is there."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import joblib

from qt_bert.errors import ArgumentError
from qt_bert.scale.cluster.private_folder import private_folder
from qt_bert.scale.cluster.ray_loading import load_ray, without_stderr

_OBJECT_STORE_BYTES = 80 * 2**20
"""Only descriptors pass through it; Ray takes no less than 75 MiB."""

_CONNECT_SECONDS = 10.0

_TOKEN = "the cluster's own into RAY_AUTH_TOKEN or ~/.ray/auth_token"


@dataclass(frozen=True)
class Node:
    """A machine of a cluster: its number, its address, and how many CPUs it lends."""

    id: str
    address: str
    cpus: int


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to; `own` where it lives and dies with it."""

    own: bool

    @property
    def nodes(self) -> list[Node]:
        """The machines that are alive and lend CPUs, by address."""
        ray = load_ray(private=False)
        found = [
            Node(one["NodeID"], one["NodeManagerAddress"], int(one["Resources"].get("CPU", 0)))
            for one in ray.nodes()
            if one["Alive"]
        ]
        return sorted((one for one in found if one.cpus), key=lambda node: (node.address, node.id))

    @property
    def cpus(self) -> int:
        """All their CPUs."""
        return sum(node.cpus for node in self.nodes)


@contextmanager
def cluster(address: str | None = None, cpus: int | None = None) -> Iterator[Cluster]:
    """Connect to the cluster at `address`, or start a private one with `cpus` CPUs, and leave it.

    A private cluster (no `address`) listens on this machine alone, asks for a token that only its
    processes know, and is gone when the block is left or this process dies. Any other one is only
    left. In the block nothing is printed to standard output, for Ray prints there. To be entered
    from the main thread. Raises ArgumentError where Ray is missing or the cluster cannot be reached.
    """
    if address is not None:
        _check_address(address)
    with ExitStack() as stack:
        nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
        ray = load_ray(private=address is None)
        if ray.is_initialized():
            raise ArgumentError(
                "this process is connected to a Ray cluster already; leave it first"
            )
        folder = stack.enter_context(private_folder()) if address is None else None
        stack.enter_context(redirect_stdout(nowhere))
        stack.callback(ray.shutdown)
        with without_stderr():
            if address is None:
                _start(ray, str(folder), cpus or available_cpus())
            else:
                _connect(ray, address)
        _quiet()
        yield Cluster(own=address is None)


def cpus_of(there: Cluster, address: str | None) -> int:
    """All CPUs of a cluster. Raises ArgumentError, naming its `address`, where it lends none."""
    if not (cpus := there.cpus):
        raise ArgumentError(
            f"--address {address}: no machine of the cluster lends a CPU; add machines to it"
        )
    return cpus


def available_cpus() -> int:
    """The processors that this process may use, by its affinity and its container's quota."""
    return int(joblib.cpu_count())


def _start(ray: Any, folder: str, cpus: int) -> None:
    """Start it, and once more where that failed: on a busy machine Ray gives up after 30 seconds."""
    for last in (False, True):
        try:
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
            return
        except Exception as error:  # Ray raises whatever it meets
            ray.shutdown()
            if last:
                raise ArgumentError(
                    "--engine ray: no cluster could be started on this machine "
                    f"({_first_line(error)}); is it very busy, or out of memory?"
                ) from error


def _connect(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # Ray raises whatever it meets
        raise ArgumentError(_refusal(address, error)) from error


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
    return f"--address {address}: no connection to the cluster ({_first_line(error)}); {advice}"


def _quiet() -> None:
    for name in ("ray", "ray.data", "ray.serve"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:200]
