"""A worker of a sweep: opens the model once, passes the guards, and computes shard after shard."""

from __future__ import annotations

import hashlib
import io
import platform
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.ablation.loop import sweep
from qt_bert.ablation.run_sweep import SweepInputs, refuse_overflow
from qt_bert.ablation.shard_folder import shard_line, shard_logits
from qt_bert.encoder.batches import Batch, to_batch
from qt_bert.errors import QtBertError, RunFolderError
from qt_bert.files import atomic_write, write_json
from qt_bert.scale.partition.raised import lacks_memory
from qt_bert.scale.sweeping.job import SweepJob
from qt_bert.scale.sweeping.shards import Shard, ShardFault, ShardLine


class ShardSweeper:
    """Computes shards of one job; an actor wraps it.

    The first shard opens the model, which puts torch on one thread for the whole process, and runs
    the guards, once.
    """

    def __init__(self, job: SweepJob) -> None:
        self.job = job

    @cached_property
    def _inputs(self) -> SweepInputs:
        """What is swept, checked."""
        inputs = self.job.opened()
        inputs.run_guards()
        return inputs

    def sweep(self, shard: Shard) -> ShardLine:
        """Compute a shard and leave its logits in the sweep's folder, float32 [V, rows, K].

        They have the bits of an undivided sweep on one thread of the same machine. Raises as
        `SweepJob.opened` does; GuardError where a guard fails; ArgumentError for logits that are no
        finite numbers; OSError where they cannot be written. What failed to open is opened anew for
        the next shard.
        """
        inputs = self._inputs
        started = time.perf_counter()
        found = []
        for swept in sweep(
            inputs.scorer.encoder, _batches(shard, inputs), inputs.variants, tokens=inputs.budget
        ):
            refuse_overflow(swept, inputs)
            found.append(swept.logits)
        sha256 = self._store(shard, np.concatenate(found, axis=1))
        line = ShardLine(
            number=shard.number,
            job=self.job.identity,
            rows=shard.rows,
            sha256=sha256,
            seconds=time.perf_counter() - started,
            node=platform.node(),
        )
        write_json(shard_line(Path(self.job.folder), shard.number), line.describe())
        return line

    def answer(self, asked: Any) -> dict[str, Any]:
        """`sweep` in plain data: a `Shard` comes, a `ShardLine` or a `ShardFault` goes back.

        A fault of the input, the disk or the memory is a `ShardFault`; one of the program is raised.
        """
        shard = Shard.from_json(asked)
        try:
            return self.sweep(shard).describe()
        except (QtBertError, OSError, MemoryError, RuntimeError) as error:
            return _fault(shard, error).describe()

    def _store(self, shard: Shard, logits: np.ndarray) -> str:
        """Write the logits, atomically; the SHA-256 of the file."""
        bytes_ = io.BytesIO()
        np.save(bytes_, logits)
        with atomic_write(shard_logits(Path(self.job.folder), shard.number)) as temporary:
            temporary.write_bytes(bytes_.getvalue())
        return hashlib.sha256(bytes_.getvalue()).hexdigest()


def _batches(shard: Shard, inputs: SweepInputs) -> Iterator[Batch]:
    """The very batches of the undivided sweep."""
    scorer = inputs.scorer
    for rows in shard.batches:
        encoded = scorer.tokenizer.encode([inputs.texts[row] for row in rows], offsets=False)
        yield to_batch(np.array(rows), encoded, pad=scorer.pad)


def _fault(shard: Shard, error: Exception) -> ShardFault:
    """What to say of an error that is no fault of the program; any other one is raised again."""
    name, message = type(error).__name__, str(error)
    if lacks_memory(error):
        name = RunFolderError.__name__
        message = "memory ran out; give fewer --actors, and go on with --resume"
    elif isinstance(error, OSError):
        name = RunFolderError.__name__
        message = f"{error}; see to it, and go on with --resume"
    elif not isinstance(error, QtBertError):
        raise error
    return ShardFault(number=shard.number, error=name, message=message, node=platform.node())
