"""What reading states changes, beside the whole model."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.title_run import METRICS, compare_whole
from qt_bert.scoring.title_states import states_of
from tests.conftest import PAIRS


@pytest.fixture
def reading(offline_scorer) -> Scorer:
    scorer = offline_scorer()
    return scorer.reading(states_of(scorer, [title for _, title, _ in PAIRS], "int8"))


def test_the_largest_difference_and_metrics_of_both(reading, pair_file):
    found = compare_whole(pair_file, ReaderOptions(), reading)
    texts = [(query, title) for query, title, _ in PAIRS]
    whole, read = reading.whole().logits(texts), reading.logits(texts)
    assert (found.pairs, found.graded) == (8, 8)
    assert found.largest == np.abs(whole - read).max() > 0
    assert tuple(found.metrics) == METRICS
    grades = np.array([grade for *_, grade in PAIRS])
    one = found.metrics["accuracy"]
    assert one.value_a == pytest.approx((whole.argmax(1) + 1 == grades).mean())
    assert one.value_b == pytest.approx((read.argmax(1) + 1 == grades).mean())
    assert compare_whole(pair_file, ReaderOptions(), reading, most=3).pairs == 3


def test_pairs_without_grades_have_a_difference_alone(reading, tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("query\ttitle\n狗追猫\t猫追狗\n", encoding="utf-8")
    found = compare_whole(path, ReaderOptions(), reading)
    assert found.largest > 0 and (found.graded, found.metrics) == (0, {})
