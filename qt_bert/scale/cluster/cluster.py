"""The Ray cluster of a run: a private one on this machine, or one that is there."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import joblib

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.scale.apart.helper import Helper, HelperGoneError
from qt_bert.scale.cluster.connection import Node, connect, lending_nodes, start_private
from qt_bert.scale.cluster.private_folder import private_folder

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
