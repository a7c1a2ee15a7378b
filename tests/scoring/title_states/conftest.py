"""An opened offline model of three layers, two of them below the texts' meeting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.scoring.bulk import Scorer


@pytest.fixture(scope="session")
def offline_scorer(offline_checkpoint_of) -> Callable[..., Scorer]:
    """`offline_scorer("roberta")`: opened once for each family; titles begin at 12, 20 tokens each."""
    opened: dict[str, Scorer] = {}

    def build(family="bert"):
        if family not in opened:
            folder = offline_checkpoint_of(family, below=2, layers=3)
            opened[family] = Scorer(open_checkpoint(folder), batch_tokens=120)
        return opened[family].fresh()

    return build


@pytest.fixture
def title_file(tmp_path) -> Path:
    """Nine titles, a line each: two are equal, one is longer than 20 tokens."""
    titles = [f"{'北京到上海高铁票价时刻表查询'[: 2 + n]}" for n in range(7)]
    path = tmp_path / "titles.txt"
    path.write_text("\n".join([*titles, titles[3], "狗追猫" * 9]) + "\n", encoding="utf-8")
    return path
