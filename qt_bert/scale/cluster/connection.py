"""Being connected to a Ray cluster. What stands here runs in a helper process, which Ray ends without a
word where the cluster's head, or its own processes on this machine, are gone."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from qt_bert.errors import ArgumentError
from qt_bert.scale.cluster.ray_loading import load_ray, without_stderr

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
