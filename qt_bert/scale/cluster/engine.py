"""Ray Data as an engine: descriptors go to actors, and what they say comes back as it is said.

Ray sees one short text an item. Data are read and written by the actors themselves, and whatever
Python raises in one becomes a text, so that Ray's own retries meet dead processes and machines alone.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from qt_bert.errors import ArgumentError
from qt_bert.scale.cluster.cluster import Cluster, EngineError
from qt_bert.scale.cluster.ray_loading import load_ray
from qt_bert.scale.partition.raised import is_fault, plain

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
