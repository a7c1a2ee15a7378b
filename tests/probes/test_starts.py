"""The initialisation study in `shift`: claims over made arms, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.shift.probe import PROBE
from qt_bert.probes.shift.starts import Starts, open_starts
from qt_bert.probes.shift.starts_report import start_figures, start_findings
from qt_bert.probes.split import PairFiles, Split
from tests.probes.judged import outcome
from tests.probes.planted_shift import opened, pairs
from tests.results.made_initialisations import RIGHT, made, written

Build = Callable[..., Path]


@pytest.fixture
def starts() -> Starts:
    found = made("c" * 64)
    return Starts(found.record, found.outputs["validation"], 500, 0)


def test_arms_reach_what_they_grade_right(starts: Starts) -> None:
    for arm, share in RIGHT.items():
        reached = starts.reached(arm, "accuracy")
        assert reached.value == pytest.approx(share)
        assert reached.seeds == pytest.approx((share, share))
        assert reached.samples.mean() == pytest.approx(share, abs=0.02)
    assert starts.n_pairs == 50 and starts.n_queries == 25


def test_the_claims_compare_arms_on_the_same_resamples(starts: Starts) -> None:
    found = {one.id: one for one in start_findings(starts)}
    pretraining, tuning = found["start_pretraining"], found["start_tuning"]
    assert pretraining.value == pytest.approx(40) and tuning.value == pytest.approx(60)
    assert outcome(pretraining) == outcome(tuning) == "reproduced"
    assert pretraining.ci_low is not None and 15 < pretraining.ci_low < 40
    assert not found["start_random_over_frozen_spearman"].primary
    assert found["start_pretraining_spearman"].value == pytest.approx(
        starts.reached("tuned", "spearman").value - starts.reached("random", "spearman").value
    )


def test_bars_show_the_mean_with_its_interval_and_every_seed(starts: Starts) -> None:
    accuracy, spearman = start_figures(starts)
    assert [series.values for series in accuracy.series] == [  # type: ignore[union-attr]
        pytest.approx(tuple(100 * share for share in RIGHT.values()))
    ] * 3
    names = [series.name.en for series in accuracy.series]  # type: ignore[union-attr]
    assert names == ["mean of seeds", "seed 0", "seed 1"]
    assert accuracy.series[0].intervals is not None  # type: ignore[union-attr]
    assert spearman.name == "starts_spearman"
    assert accuracy.note is not None and "25 queries" in accuracy.note.en


def test_the_probe_shows_a_record_or_says_that_there_is_none(
    checkpoint_of: Build, tmp_path: Path, pair_file: Path
) -> None:
    base, model = checkpoint_of(seed=1), checkpoint_of(seed=2)
    record = written(tmp_path / "record", open_checkpoint(base).sha256)

    def result(folder: Path | None):
        made_pairs = pairs()
        context = Context(
            label="shift",
            files=PairFiles(pairs=pair_file),
            read_pairs=lambda labels: Split(made_pairs[:15], made_pairs[15:], 0),
            work=tmp_path / "work",
            open_model=lambda: opened(model),
            base=base,
            resamples=100,
            initialisations=folder,
        )
        return run_probe(PROBE, context)

    with_record, without = result(record), result(None)
    assert "start_pretraining" in {one.id for one in with_record.findings}
    assert "100.0 %" in with_record.summary.en
    assert {"starts_accuracy", "starts_spearman", "set_back_accuracy"} <= {
        one.name for one in with_record.figures
    }
    assert with_record.settings["initialisations"]["reached"]["tuned"]["accuracy"]["mean"] == 1
    assert not any(one.id.startswith("start_") for one in without.findings)
    assert without.settings["initialisations"].keys() == {"zh", "en"}
    with pytest.raises(ArgumentError, match="--initialisations"):
        result(written(tmp_path / "other", "d" * 64))


def test_another_base_is_refused(checkpoint_of: Build, tmp_path: Path) -> None:
    folder = written(tmp_path, "d" * 64)
    with pytest.raises(ArgumentError, match="not those of --base"):
        open_starts(folder, open_checkpoint(checkpoint_of()), 100, 0)
