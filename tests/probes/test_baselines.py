"""The table of baselines as a probe: planted differences, AUC and ratios by hand, tables of other pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.baselines.heads import BoundaryHead, MatchingHead
from qt_bert.probes.baselines.table import Table
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.baselines import (
    LSTM_WORDS,
    NO_PAIRS,
    BoundaryOutputs,
    MatchingOutputs,
    read_baselines,
)
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes import planted_baselines as planted
from tests.probes.judged import outcome

PAIRS = planted.pairs_of()


@pytest.fixture
def probed(
    checkpoint_of: Callable[..., Path], tmp_path: Path
) -> Callable[[Path | None], ProbeResult]:
    """Run the probe on the planted pairs with a table's folder."""
    file = tmp_path / "test.tsv"
    file.write_text("query\ttitle\tgrade\n", encoding="utf-8")

    def run(folder: Path | None, pairs: list[Pair] = PAIRS, **options: int) -> ProbeResult:
        context = Context(
            label="baselines",
            files=PairFiles(pairs=file, discovery=file),
            work=tmp_path / "sweeps",
            open_model=lambda: Scorer(open_checkpoint(checkpoint_of("bert", **options))),
            read_pairs=lambda labels: Split(pairs[:4], pairs, 0),
            resamples=300,
            baseline_table=folder,
        )
        return run_probe(probe_named("baselines"), context)

    return run


def finding(result: ProbeResult, name: str) -> Finding:
    return next(one for one in result.findings if one.id == f"baselines.{name}")


def test_what_was_planted_is_found(probed: Callable[..., ProbeResult], tmp_path: Path) -> None:
    result = probed(planted.write(tmp_path / "table", PAIRS))
    claims = {one.id.removeprefix("baselines."): one for one in result.findings if one.primary}
    assert set(claims) == {
        "over_lstm",
        "over_two_tower",
        "bert_lstm_below",
        "words_of_bert",
        "words_of_lstm",
        "boundary_without_pairs",
        "matching_of_pairs",
    }
    assert {outcome(one) for one in claims.values()} == {"reproduced"}
    assert claims["bert_lstm_below"].value is not None and claims["bert_lstm_below"].value < 0
    assert claims["words_of_bert"].margin == 0.02
    assert result.settings["lstm"] == LSTM_WORDS  # the better of the two on discovery
    drawn = {figure.name for figure in result.figures}
    assert drawn == {"spearman", "metrics", "speed", "boundary", "matching"}


def test_what_is_not_there_is_not_found(probed: Callable[..., ProbeResult], tmp_path: Path) -> None:
    whole = planted.table(PAIRS)
    alike = np.tile(whole.of(LSTM_WORDS), (len(whole.probabilities), 1, 1))
    replace(whole, probabilities=alike).write(tmp_path / "table")
    result = probed(tmp_path / "table")
    for name in ("over_lstm", "over_two_tower", "bert_lstm_below", "words_of_lstm"):
        one = finding(result, name)
        assert one.value == 0 and one.p == 1 and outcome(one) == "not reproduced"
    assert outcome(finding(result, "words_of_bert")) == "reproduced"


def test_a_worse_cross_encoder_is_seen(probed: Callable[..., ProbeResult], tmp_path: Path) -> None:
    noise = planted.NOISE | {"cross-encoder": 4.0, "words": 4.0}
    folder = planted.write(tmp_path / "table", PAIRS, noise=noise, words_like_characters=False)
    result = probed(folder)
    for name in ("over_lstm", "over_two_tower", "bert_lstm_below", "words_of_bert"):
        assert outcome(finding(result, name)) == "not reproduced"


def test_differences_are_those_of_spearmans_rho(
    probed: Callable[..., ProbeResult], tmp_path: Path
) -> None:
    from scipy.stats import spearmanr

    folder = planted.write(tmp_path / "table", PAIRS)
    stored, grades = read_baselines(folder), [pair.grades[0] for pair in PAIRS if pair.grades]

    def rho(name: str) -> float:
        return float(spearmanr(stored.of(name) @ np.arange(1, 6), grades).statistic)

    value = finding(probed(folder), "over_two_tower").value
    assert value == pytest.approx(rho("cross-encoder") - rho("two-tower"), abs=1e-6)


def test_without_a_table_it_says_so(probed: Callable[..., ProbeResult]) -> None:
    result = probed(None)
    assert result.findings == () and result.figures == ()
    assert "--baseline-table" in result.summary.zh and "--baseline-table" in result.summary.en


def test_a_model_of_one_logit_has_the_same_table(
    probed: Callable[..., ProbeResult], tmp_path: Path
) -> None:
    folder = planted.write(tmp_path / "table", PAIRS)
    assert probed(folder, labels=1).findings == probed(folder).findings


def test_a_table_of_other_pairs_is_refused(
    probed: Callable[..., ProbeResult], tmp_path: Path
) -> None:
    folder = planted.write(tmp_path / "table", PAIRS)
    with pytest.raises(
        ArgumentError, match="measured on the 480 pairs of test.tsv, not on these 476"
    ):
        probed(folder, PAIRS[4:])


def test_a_table_of_other_labels_is_refused(
    probed: Callable[..., ProbeResult], tmp_path: Path
) -> None:
    folder = planted.write(tmp_path / "table", PAIRS)
    grade = (PAIRS[0].grades or (0,))[0] % 5 + 1
    with pytest.raises(ArgumentError, match="other labels by now"):
        probed(folder, [replace(PAIRS[0], grades=(grade,)), *PAIRS[1:]])


def test_damaged_tables_are_refused(tmp_path: Path) -> None:
    folder = planted.write(tmp_path / "table", PAIRS)
    (folder / "baselines.npz").write_bytes(b"0")
    with pytest.raises(RunFolderError, match="not the file that baselines.json"):
        read_baselines(folder)
    planted.write(folder, PAIRS)
    record = json.loads((folder / "baselines.json").read_text(encoding="utf-8"))
    record["rows"] = record["rows"][1:]
    (folder / "baselines.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunFolderError, match="no row 'cross-encoder'"):
        read_baselines(folder)
    whole = planted.table(PAIRS)
    replace(whole, probabilities=whole.probabilities[:, 1:]).write(folder)
    with pytest.raises(RunFolderError, match="do not fit"):
        read_baselines(folder)


def test_no_heads_no_claims_of_heads(probed: Callable[..., ProbeResult], tmp_path: Path) -> None:
    whole = planted.table(PAIRS)
    replace(whole, boundary={}, matching={}).write(tmp_path / "table")
    result = probed(tmp_path / "table")
    assert not any("pairs" in one.id for one in result.findings)
    assert {figure.name for figure in result.figures} == {"spearman", "metrics", "speed"}


def test_auc_by_hand_with_ties_and_weights() -> None:
    values = np.array([3.0, 1.0, 1.0, 0.0], np.float32)
    labels, queries = np.array([True, True, False, False]), np.array([0, 0, 1, 1])
    head = BoundaryHead(BoundaryOutputs(values, labels, queries), 50, 0)
    assert head.value == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    # A query drawn twice counts twice on both sides of a comparison; of one query alone there is none.
    weighted = head._of(np.array([[2.0, 1.0], [2.0, 0.0]]))
    assert weighted[0] == pytest.approx(3.5 / 4) and np.isnan(weighted[1])


def test_auc_is_that_of_scikit_learn() -> None:
    from sklearn.metrics import roc_auc_score

    outputs = planted.boundary(1.0)
    assert BoundaryHead(outputs, 10, 0).value == pytest.approx(
        roc_auc_score(outputs.labels, outputs.values)
    )


def test_the_matching_ratio_by_hand() -> None:
    outputs = MatchingOutputs(
        np.array([[0.8, 0.5], [0.4, 0.5]]),
        np.array([[0.2, 0.5], [0.2, 0.5]]),
        np.array([[2.0, 10.0], [2.0, 10.0]]),
    )
    head = MatchingHead(outputs, 50, 0)
    # own 1.2 / 4 over other 1.0 / 20, beside 0.4 / 4 over the same
    assert head.value == pytest.approx(3.0, rel=1e-3)
    assert head.logs.shape == (50,) and head.n_queries == 2


def test_chosen_lstm_without_a_figure_on_discovery() -> None:
    whole = planted.table(PAIRS)
    rows = tuple(
        replace(row, discovery=None) if row.name == LSTM_WORDS else row for row in whole.record.rows
    )
    without = replace(whole, record=replace(whole.record, rows=rows))
    assert Table(without, 10, 0).lstm == LSTM_WORDS  # -3 lies below what is not known
    assert NO_PAIRS in Table(without, 10, 0).names


def test_everything_is_json(probed: Callable[..., Any], tmp_path: Path) -> None:
    result = probed(planted.write(tmp_path / "table", PAIRS))
    result.write(tmp_path / "baselines.json")
    assert ProbeResult.read(tmp_path / "baselines.json") == result
