"""The table of baselines that ships: of the test split that ships, with a card that says what it holds."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from qt_bert.data.pairs import GradeMap
from qt_bert.data.reader import read_pairs
from qt_bert.files import sha256_file
from qt_bert.results.baselines import Baselines, digest_of, labels_of, read_baselines
from qt_bert.shipped import BASELINES, DEV, TEST, shipped

FOLDER = shipped(BASELINES)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def table() -> Baselines:
    return read_baselines(FOLDER)


def test_it_was_measured_on_the_split_that_ships(table):
    pairs = read_pairs(shipped(TEST), grade_map=GradeMap.identity())
    assert table.record.pairs.sha256 == sha256_file(shipped(TEST))
    assert table.record.discovery.sha256 == sha256_file(shipped(DEV))
    assert table.record.digest == digest_of((pair.query, pair.title) for pair in pairs)
    np.testing.assert_array_equal(table.labels, labels_of(pair.grades for pair in pairs))


def rho(table, name) -> float:
    expected = (table.of(name) * np.arange(1, 6)).sum(1)
    return float(spearmanr(expected, table.labels.argmax(1) + 1).statistic)


def test_the_card_holds_the_figures(table):
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for row in table.record.rows:
        assert f"| `{row.name}` | {rho(table, row.name):.3f} [" in card
    for one in table.record.pretraining:
        assert f"{one.characters:,}" in card and f"{one.mlm_loss:.2f}" in card


def test_what_the_results_say_is_of_this_table(table):
    """They are written by a report, which must follow a new table."""
    figures = [f"{rho(table, name):.3f}" for name in ("cross-encoder", "lstm-attention")]
    for results in ("results.md", "results.zh-CN.md"):
        page = (DOCS / results).read_text(encoding="utf-8")
        assert all(figure in page for figure in figures)
