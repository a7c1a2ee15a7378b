"""The proof of the nodes: before work begins each shows that it can do it, and do it the same way."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.scale.cluster.cluster import Cluster
from qt_bert.scale.cluster.connection import Node, first_line
from qt_bert.scale.cluster.ray_loading import load_ray
from qt_bert.scale.ledger.layout import BEGUN
from qt_bert.scale.partition.faults import disk_fault
from qt_bert.scale.partition.job import ScoreJob
from qt_bert.scale.partition.raised import is_fault, plain
from qt_bert.scale.places.naming import place_of
from qt_bert.scale.score_worker import refuse_other_program

PROOF_SECONDS = 300.0


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a node has to show: the inputs with their stored bytes, the job with its model, where it
    writes, and that it runs the same `program`. `folder` is where relative paths begin."""

    inputs: Mapping[str, int]
    job: ScoreJob
    program: Mapping[str, str]
    folder: str
    mark: str


def prove_nodes(
    cluster: Cluster,
    inputs: Mapping[str, int],
    job: ScoreJob,
    program: Mapping[str, str],
    folder: str,
    *,
    seconds: float = PROOF_SECONDS,
) -> None:
    """See that every machine of `cluster` that lends CPUs can score the parts of a prepared job.

    That is: it runs the same versions, sees each of the `inputs` (name → bytes), opens the same
    model, and writes where this process reads. Raises ArgumentError, naming the first machine where
    one of these fails, and where a machine does not answer within `seconds`.
    """
    cluster.call(_prove, cluster.nodes, inputs, job, program, folder, seconds)


def _prove(
    nodes: Sequence[Node],
    inputs: Mapping[str, int],
    job: ScoreJob,
    program: Mapping[str, str],
    folder: str,
    seconds: float,
) -> None:
    """In the process that is connected to the cluster."""
    ray = load_ray(private=False)
    asked = {}
    try:
        for node in nodes:
            mark = f"{BEGUN}/{node.id[:16]}.{secrets.token_hex(4)}.seen"
            question = Question(inputs=inputs, job=job, program=program, folder=folder, mark=mark)
            asked[node] = (question, _ask(ray, node, question))
        ready, _ = ray.wait(
            [answer for _, answer in asked.values()], num_returns=len(asked), timeout=seconds
        )
    except Exception as error:  # Ray raises whatever it meets
        raise ArgumentError(
            f"the cluster's machines cannot be asked ({first_line(error)})"
        ) from error
    faults = [
        fault
        for node, (question, answer) in asked.items()
        if (fault := _fault_of(ray, node, question, answer, answer in ready, seconds))
    ]
    if faults:
        others = f" ({len(faults) - 1} other machines fail too)" if len(faults) > 1 else ""
        raise ArgumentError(faults[0] + others)


def _ask(ray: Any, node: Node, question: Question) -> Any:
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node.id, soft=False)
    task = ray.remote(num_cpus=0, max_retries=0)(look)
    return task.options(scheduling_strategy=strategy).remote(question)


def _fault_of(
    ray: Any, node: Node, question: Question, answer: Any, ready: bool, seconds: float
) -> str | None:
    """What is wrong with a node; None where nothing is. What it has written is taken away."""
    where = f"machine {node.address}"
    if not ready:
        return f"{where}: no answer within {seconds:g} seconds; see to it, or take it out of the cluster"
    try:
        fault = ray.get(answer)
    except Exception as error:  # Ray raises whatever it meets
        words = plain(str(error).strip().partition("\n")[0])[:200]
        return f"{where}: {type(error).__name__}: {words}; is qt-bert installed there as here?"
    if fault is not None:
        return f"{where}: {fault}"
    return _unseen(where, question)


def _unseen(where: str, question: Question) -> str | None:
    """Whether the node wrote where this process reads."""
    out = place_of(question.job.out)
    try:
        seen = out.exists(question.mark)
        out.delete(question.mark)
    except OSError as error:
        return disk_fault(error, str(out), "").message
    if seen:
        return None
    return (
        f"{where}: {out} is another folder there than here; give an --out that all machines share, "
        "by one path or address"
    )


def look(question: Question) -> str | None:
    """On the node: what is wrong, in words; None where nothing is."""
    try:
        refuse_other_program(question.program)
        return (
            _missing(question.inputs, question.folder)
            or _another_model(question.job)
            or _closed(question)
        )
    except BaseException as error:
        if not is_fault(error):
            raise
        known = isinstance(error, QtBertError)
        return plain(str(error)) if known else f"{type(error).__name__}: {plain(str(error))}"


def _missing(inputs: Mapping[str, int], folder: str) -> str | None:
    with suppress(OSError):
        os.chdir(folder)
    for name, size in inputs.items():
        try:
            found = place_of(name).size()
        except OSError as error:
            return (
                f"{name}: cannot be read there ({error.strerror or error}); give inputs that all "
                "machines see by the same name"
            )
        if found != size:
            return f"{name}: has {found:,} bytes there, and {size:,} where it was scanned"
    return None


def _another_model(job: ScoreJob) -> str | None:
    from qt_bert.scale.partition.model import open_model

    open_model(job)
    return None


def _closed(question: Question) -> str | None:
    out = place_of(question.job.out)
    try:
        out.write_text(question.mark, platform.node())
    except OSError as error:
        return disk_fault(error, str(out), "").message
    return None
