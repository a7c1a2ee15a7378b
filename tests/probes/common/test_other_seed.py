"""The scores of a model of another seed, where one was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qt_bert.errors import CheckpointError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import described, other_seed
from qt_bert.probes.split import PairFiles
from qt_bert.scoring.bulk import Scorer

Build = Callable[..., Path]


@pytest.fixture
def context(checkpoint_of: Build, pair_file: Path, tmp_path: Path) -> Callable[..., Context]:
    def build(**facts: Any) -> Context:
        model = checkpoint_of()
        return Context(
            label="x",
            files=PairFiles(pairs=pair_file),
            work=tmp_path,
            open_model=lambda: Scorer(open_checkpoint(model), max_length=20),
            **facts,
        )

    return build


def test_the_other_model_is_scored_as_the_first(
    context: Callable[..., Context], checkpoint_of: Build
) -> None:
    folder = checkpoint_of(seed=4)
    found = other_seed(context(second=folder), lambda scorer: scorer)
    assert found is not None and found.scores.tokenizer.max_length == 20
    assert found.scores.checkpoint.sha256 == open_checkpoint(folder).sha256
    assert found.name.en == f"another seed ({folder.name})" and folder.name in found.name.zh
    assert described(found)["name"] == folder.name


def test_without_one_a_word_says_so(context: Callable[..., Context]) -> None:
    assert other_seed(context(), lambda scorer: scorer) is None
    said = described(None)
    assert set(said) == {"zh", "en"} and all("--second" in one for one in said.values())


def test_one_that_is_none_is_refused(context: Callable[..., Context], checkpoint_of: Build) -> None:
    with pytest.raises(CheckpointError, match="--second"):
        other_seed(context(second=checkpoint_of()), lambda scorer: scorer)
    with pytest.raises(CheckpointError, match="layers"):
        other_seed(context(second=checkpoint_of(layers=3)), lambda scorer: scorer)
