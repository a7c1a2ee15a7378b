"""The small sweep of these tests: its model and its pairs."""

from __future__ import annotations

import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.pairs import GradeMap, read_pairs
from qt_bert.scoring.bulk import Scorer
from tests.scale.swept import MODEL


@pytest.fixture
def scorer(checkpoint_of):
    return Scorer(open_checkpoint(checkpoint_of(**MODEL)))


@pytest.fixture
def pairs(pair_file):
    return read_pairs(pair_file, grade_map=GradeMap.identity())
