"""A small sweep with every kind of mask, and workers for it in this process."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from qt_bert.ablation.asked import parts_with, variants_asked
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.masks import PARTS, MeanContexts
from qt_bert.ablation.run_sweep import run_sweep
from qt_bert.ablation.variant import Variant
from qt_bert.encoder.heads import Shape
from qt_bert.pairs import Pair
from qt_bert.results.probe import PairsRef
from qt_bert.scale.sweeping.filler import ShardFiller
from qt_bert.scale.sweeping.job import SweepJob
from qt_bert.scale.sweeping.shards import Shard, ShardFault, ShardLine, said_from_json
from qt_bert.scale.sweeping.sweeper import ShardSweeper
from qt_bert.scoring.bulk import Scorer

SHAPE = Shape(3, 4)
MODEL = {"layers": 3, "heads": 4}


class Killed(Exception):
    """Stands for a kill."""


def mean_contexts(seed: int = 0) -> MeanContexts:
    """Some vector for each head, with its true hash."""
    vectors = np.random.default_rng(seed).normal(size=(*SHAPE[:2], 4)).astype("<f4")
    return MeanContexts(hashlib.sha256(vectors.tobytes()).hexdigest(), torch.from_numpy(vectors))


def every_kind(seed: int = 0) -> list[Variant]:
    """Whole layers and three random draws under each mode."""
    part_of = parts_with(mean_contexts)
    return [
        replace(one, name=f"{mode} {one.name}", family=f"{mode} {one.family}")
        for mode in PARTS
        for one in variants_asked(["layers", "random"], SHAPE, mode, part_of, draws=1, seed=seed)[
            :6
        ]
    ]


def a_few(seed: int = 0) -> list[Variant]:
    """One of each mode, `mean` among them, drawn by `seed`: enough where bits are not the question."""
    kinds = every_kind(seed)
    modes = dict.fromkeys(one.mode for one in kinds)
    return [next(one for one in kinds if one.mode == mode and one.draw == 0) for mode in modes]


@dataclass
class Workers:
    """A `Dispatch`: all that goes to a worker and comes back does so as bytes or JSON.

    `order` -1 computes the last shard first; a `stop` kills it all behind so many shards; `after` is
    called with every finished line. `asked` are the numbers of the shards of each call.
    """

    order: int = 1
    stop: int | None = None
    after: Callable[[ShardLine], object] = lambda line: None
    asked: list[list[int]] = field(default_factory=list)

    def __call__(
        self, job: SweepJob, shards: Sequence[Shard]
    ) -> Generator[ShardLine | ShardFault, None, None]:
        self.asked.append([shard.number for shard in shards])
        sweeper = ShardSweeper(pickle.loads(pickle.dumps(job)))
        for count, shard in enumerate(shards[:: self.order]):
            if count == self.stop:
                raise Killed
            answer = sweeper.answer(json.loads(json.dumps(shard.describe())))
            said = said_from_json(json.loads(json.dumps(answer)))
            if isinstance(said, ShardLine):
                self.after(said)
            yield said


def run(
    scorer: Scorer,
    pairs: Sequence[Pair],
    out: Path,
    workers: Workers | ShardFiller | None = None,
    **options,
) -> SweepFolder:
    """A sweep in `out`, by `workers`, by a filler or, without either, as a plain one; the workers' shards
    have about `each` pairs."""
    variants = options.pop("variants", None) or a_few()
    settings = {"pairs_ref": PairsRef(name="pairs.tsv", sha256="ab"), "resamples": 5, "tokens": 30}
    runs = options.pop("each", 2) * len(variants)
    ours = workers is None or isinstance(workers, ShardFiller)
    filler = workers if ours else ShardFiller(workers, runs=runs)
    return run_sweep(scorer, pairs, variants, out, filler=filler, **settings | options)


def contents(folder: Path) -> dict[str, bytes]:
    """File name → bytes; an IsADirectoryError where there is a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
