"""The table of baselines as a probe: planted differences, values by hand, tables of other pairs."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.figures import Bars
from qt_bert.probes.base import probe_named, run_probe
from qt_bert.probes.baselines import better_lstm, coverage, matching_of_pairs
from qt_bert.results import baselines
from qt_bert.results.probe import Measurement, ProbeResult
from tests.probes import planted_baselines as planted
from tests.probes.made_context import context_of
from tests.probes.probe_results import measured

PAIRS = planted.pairs_of()


@pytest.fixture
def probed(checkpoint_of, tmp_path) -> Callable[..., ProbeResult]:
    """Run the probe on the planted pairs with a table's folder."""

    def run(folder, pairs=PAIRS, **options):
        model, halves = checkpoint_of("bert", **options), (pairs[:4], pairs)
        context = context_of("baselines", model, tmp_path, halves, baseline_table=folder)
        return run_probe(probe_named("baselines"), context)

    return run


def sign(one: Measurement) -> int:
    """The side of 0 on which the interval lies; 0 where it holds 0."""
    assert one.ci_low is not None and one.ci_high is not None
    return int(one.ci_low > 0) - int(one.ci_high < 0)


def test_planted_differences_are_found(probed, tmp_path):
    result = probed(planted.write(tmp_path / "table", PAIRS))
    found = measured(result)
    assert {name: sign(one) for name, one in found.items() if one.n_queries} == {
        "over_lstm": 1,
        "short_over_lstm": 1,
        "lstm_over_lexical": 1,
        "over_two_tower": 1,
        "bert_lstm_below": -1,
        "words_of_bert": 0,
        "words_of_lstm": 1,
        "matching_of_pairs": 1,
        "coverage_of_the_best": 0,
    }
    assert found["over_lstm"].n_queries == 120 and not result.claims
    assert result.settings["lstm"] == baselines.LSTM_WORDS  # the better of the two on discovery
    (figure,) = result.figures
    assert isinstance(figure, Bars) and len(figure.categories) == len(baselines.MODELS)


def test_differences_are_those_of_scipys_rho(probed, tmp_path):
    """Also where a label means two grades: their mean is the label."""
    pairs = [replace(one, grades=(2, 3)) if one.grades == (2,) else one for one in PAIRS]
    whole = planted.table(PAIRS)
    labels = whole.labels.copy()
    labels[labels[:, 1], 2] = True
    replace(whole, labels=labels).write(tmp_path / "table")
    grades = [np.mean(pair.grades or (0,)) for pair in pairs]

    def rho(name):
        expected = whole.of(name).astype(np.float32).astype(float) @ np.arange(1, 6)
        return float(spearmanr(expected, grades).statistic)

    found = measured(probed(tmp_path / "table", pairs))
    for name, one, other in (
        ("over_two_tower", "cross-encoder", "two-tower"),
        ("lstm_over_lexical", baselines.LSTM_WORDS, baselines.LEXICAL),
    ):
        assert found[name].value == pytest.approx(rho(one) - rho(other), abs=1e-6)


def test_coverage_counts_distinct_characters():
    texts = [("北京 北京", "京城"), ("abc", "cab"), (" ", "京"), ("高铁", "")]
    pairs = [Pair(query, title, None, None, 2, "", {}) for query, title in texts]
    np.testing.assert_equal(coverage(pairs), [0.5, 1.0, np.nan, 0.0])


def test_coverage_of_the_best_titles(probed, tmp_path):
    """Titles of grade 5 hold one of two characters, those of grades 2 to 4 both."""
    title = {1: "z", 2: "ab", 3: "ba", 4: "ab", 5: "a"}
    pairs = [
        replace(one, query="ab" + "\t" * number, title=title[(one.grades or (0,))[0]])
        for number, one in enumerate(planted.pairs_of(titles=1))
    ]
    pairs += [replace(one, title=title[4], grades=(4,)) for one in pairs if one.grades == (5,)]
    one = measured(probed(planted.write(tmp_path / "table", pairs), pairs))["coverage_of_the_best"]
    assert one.value == -0.5 and one.n_queries == sum(pair.grades == (5,) for pair in pairs)


def test_the_lift_by_hand():
    with_pairs = baselines.MatchingOutputs(
        np.array([[0.8, 0.5], [0.4, 0.5]]),
        np.array([[0.2, 0.5], [0.2, 0.5]]),
        np.array([[2.0, 10.0], [2.0, 10.0]]),
    )
    without = replace(with_pairs, original=with_pairs.replaced)
    whole = replace(
        planted.table(PAIRS),
        matching={baselines.CHARACTERS: with_pairs, baselines.NO_PAIRS: without},
    )
    found = matching_of_pairs(whole)
    # own 1.2 / 4 over other 1.0 / 20, beside 0.4 / 4 over the same: log 3. One query alone: 4, or 2.
    assert found is not None and np.exp(found.value) == pytest.approx(3.0, rel=1e-3)
    np.testing.assert_allclose(np.exp(found.leave_one_out), [2.0, 4.0], rtol=1e-3)


def test_the_better_lstm_is_chosen_on_discovery():
    record = planted.table(PAIRS).record

    def chosen(characters, words):
        reached = {baselines.LSTM: characters, baselines.LSTM_WORDS: words}
        rows = (replace(row, discovery=reached.get(row.name)) for row in record.rows)
        return better_lstm(replace(record, rows=tuple(rows)))

    assert chosen(0.2, 0.3) == baselines.LSTM_WORDS
    assert chosen(0.2, 0.1) == chosen(-0.2, None) == baselines.LSTM


def test_labels_that_do_not_vary_leave_nothing_to_compare(probed, tmp_path):
    pairs = [replace(one, grades=(3,)) for one in PAIRS]
    result = probed(planted.write(tmp_path / "table", pairs), pairs)
    known = {name for name, one in measured(result).items() if one.value is not None}
    assert known == {"matching_of_pairs"}


def test_a_table_of_other_pairs_or_labels_is_refused(probed, tmp_path):
    folder = planted.write(tmp_path / "table", PAIRS)
    with pytest.raises(ArgumentError, match="the 480 pairs of test.tsv, not on these 476"):
        probed(folder, PAIRS[4:])
    grade = (PAIRS[0].grades or (0,))[0] % 5 + 1
    with pytest.raises(ArgumentError, match="labels of the pairs have changed"):
        probed(folder, [replace(PAIRS[0], grades=(grade,)), *PAIRS[1:]])


def test_damaged_tables_are_refused(tmp_path):
    folder = planted.write(tmp_path / "table", PAIRS)
    (folder / "baselines.npz").write_bytes(b"0")
    with pytest.raises(RunFolderError, match="not the file that baselines.json"):
        baselines.read_baselines(folder)
    planted.write(folder, PAIRS)
    record = json.loads((folder / "baselines.json").read_text(encoding="utf-8"))
    record["rows"] = record["rows"][1:]
    (folder / "baselines.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunFolderError, match="no row 'cross-encoder'"):
        baselines.read_baselines(folder)
    whole = planted.table(PAIRS)
    replace(whole, probabilities=whole.probabilities[:, 1:]).write(folder)
    with pytest.raises(RunFolderError, match="do not fit"):
        baselines.read_baselines(folder)
