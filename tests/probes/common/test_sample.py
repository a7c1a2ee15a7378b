"""The sample of a quick run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qt_bert.data.pairs import Pair
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context
from qt_bert.probes.split import PairFiles
from qt_bert.probes.streams import for_model
from qt_bert.scoring.bulk import Scorer

PAIRS = [Pair(f"q{n % 5}", f"t{n}", None, str(n), n, None, {}) for n in range(20)]


def drawn(model: Path, limit: int, *, full: bool = False) -> list[Pair]:
    context = Context(
        label="made",
        files=PairFiles(pairs=Path("pairs.tsv")),
        work=Path("work"),
        open_model=lambda: Scorer(open_checkpoint(model)),
        full=full,
    )
    return for_model(PAIRS, limit, context)


def test_a_graded_model_gets_pairs_of_as_many_queries_as_there_are(
    checkpoint_of: Callable[..., Path],
) -> None:
    found = drawn(checkpoint_of(), 5)
    assert len(found) == 5 and len({pair.query for pair in found}) == 5


def test_a_one_logit_model_gets_whole_queries(checkpoint_of: Callable[..., Path]) -> None:
    found = drawn(checkpoint_of(labels=1), 8)
    assert len(found) == 8 and len({pair.query for pair in found}) == 2


def test_a_full_run_takes_all(checkpoint_of: Callable[..., Path]) -> None:
    assert drawn(checkpoint_of(), 5, full=True) == PAIRS
