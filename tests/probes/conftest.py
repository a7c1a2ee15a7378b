"""Contexts for probes: around a model folder, and pairs of a file or by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context
from qt_bert.probes.split import PairFiles, Split
from qt_bert.scoring.bulk import Scorer

Build = Callable[..., Context]


@pytest.fixture
def context_of(tmp_path: Path, pair_file: Path) -> Build:
    """`context_of(model, pairs, …)`: a context, any other of its fields by keyword.

    `pairs` is a file, which is halved by query; a list, which stands for both halves; or a list of each
    half. Without it the eight pairs are taken.
    """

    def build(
        model: Path,
        pairs: Path | Sequence[Pair] | tuple[Sequence[Pair], Sequence[Pair]] | None = None,
        **changes: Any,
    ) -> Context:
        facts: dict[str, Any] = {
            "label": "asked",
            "files": PairFiles(pairs=pairs if isinstance(pairs, Path) else pair_file),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 200,
        }
        if pairs is not None and not isinstance(pairs, Path):
            halves = pairs if isinstance(pairs, tuple) else (pairs, pairs)
            facts["read_pairs"] = lambda labels: Split(list(halves[0]), list(halves[1]), 0)
        return Context(**(facts | changes))

    return build
