"""Encoded against used: a sign that the grades rest on, one that they do not; every kind of model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.figures import Bars, HeatMap, Scatter
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context, Probe, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles, Split
from qt_bert.probes.usage import study as study_module
from qt_bert.probes.usage.probe import PROBE
from qt_bert.probes.usage.reading import Draws
from qt_bert.probes.usage.study import places_of
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes import planted_order, planted_usage
from tests.probes.judged import outcome

Build = Callable[..., Path]
FEW = Draws(probe=1, eraser=3, alone=("grade",))


def context_of(folder: Path, pairs: Sequence[Pair], tmp_path: Path, **changes: Any) -> Context:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\n", encoding="utf-8")
    middle = len(pairs) // 2
    facts: dict[str, Any] = {
        "label": "usage",
        "files": PairFiles(pairs=path, reader=ReaderOptions()),
        "work": tmp_path / "sweeps",
        "open_model": lambda: Scorer(open_checkpoint(folder)),
        "read_pairs": lambda labels: Split(list(pairs[:middle]), list(pairs[middle:]), 0),
        "resamples": 200,
    }
    return Context(**(facts | changes))


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> ProbeResult:
    """The whole probe on the planted model, asked for the two signs under --full."""
    tmp_path = tmp_path_factory.mktemp("usage")
    folder = planted_usage.plant(checkpoint_of(**planted_usage.SHAPE), tmp_path / "model")
    pairs = planted_usage.pairs(120)
    context = context_of(folder, pairs, tmp_path, full=True, resamples=1000)
    asked = planted_usage.Asked(pairs[:60], pairs[60:], folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_module, "tasks", lambda context, names: asked.tasks())
        patch.setattr(study_module, "FULL_DRAWS", Draws(probe=1, eraser=12))
        return run_probe(PROBE, context)


def finding(result: ProbeResult, name: str):
    return next(one for one in result.findings if one.id == name)


def test_both_signs_are_read_and_one_is_used(planted: ProbeResult) -> None:
    used, unused = planted_usage.USED.name, planted_usage.UNUSED.name
    assert outcome(finding(planted, f"usage_used_{used}")) == "reproduced"
    assert finding(planted, f"usage_used_{used}").value > 0.3
    idle = finding(planted, f"usage_used_{unused}")
    assert outcome(idle) != "reproduced" and abs(idle.value) < 0.1
    (readable,) = (one for one in planted.figures if one.name == "usage_readable")
    assert isinstance(readable, HeatMap)
    first = np.array(readable.values, float)[:, :2]  # before the last layer
    assert (first > 0.95).all()


def test_what_is_read_and_not_used_is_found(planted: ProbeResult) -> None:
    found = finding(planted, "usage_encoded_not_used")
    assert planted.settings["nearest_to_unused"] == planted_usage.UNUSED.name
    assert found.side == "none" and found.margin == 0.02 and found.primary
    assert outcome(found) == "reproduced"
    assert planted_usage.UNUSED.title.en in found.conclusions["reproduced"].en


def test_nothing_is_left_to_read_behind_the_erasers(planted: ProbeResult) -> None:
    left = planted.settings["guards"]["nothing_left_to_read"]
    assert len(left) == 6 and all(one["holds"] for one in left.values())
    assert planted.settings["guards"]["erased"]["unmasked"] < 1e-4
    told = planted.settings["properties"][planted_usage.USED.name]["by_place"]["r0"]
    assert told["rank"] == 1 and told["permuted"] == told["random"] == 12


def test_the_figures(planted: ProbeResult) -> None:
    kinds = {one.name: type(one) for one in planted.figures}
    assert "60 对、60 个查询" in planted.figures[0].note.zh
    assert kinds == {
        "usage_map": Scatter,
        "usage_used": HeatMap,
        "usage_readable": HeatMap,
        "usage_controls": Bars,
        "usage_spearman": HeatMap,
        "usage_accuracy": HeatMap,
    }
    scatter = planted.figures[0]
    assert len(scatter.points) == 6  # two signs at r0, r1 and r2
    top = max(scatter.points, key=lambda point: point.y)
    assert top.series == planted_usage.USED.title and top.label in ("r0", "r1")
    assert top.y_low <= top.y <= top.y_high
    json.dumps(planted.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("family", "options"),
    [("bert", {}), ("xlm-roberta", {}), ("electra", {"labels": 1}), ("ernie", {"layers": 4})],
)
def test_every_kind_of_model(
    family: str,
    options: dict[str, int],
    checkpoint_of: Build,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(study_module, "QUICK_DRAWS", FEW)
    folder = checkpoint_of(family, **options)
    found = run_probe(PROBE, context_of(folder, planted_order.pairs(24), tmp_path))
    assert not any(one.primary for one in found.findings)
    assert found.settings["places"] == (["r1", "r4"] if options.get("layers") else ["r2"])
    assert "快速档" in found.summary.zh
    units = {str(one.unit) for one in found.findings if one.id.startswith("usage_used")}
    assert units and ("1 − ρ" in units) == (options.get("labels") == 1)
    json.dumps(found.to_json(), allow_nan=False)


def test_the_same_seed_gives_the_same(
    checkpoint_of: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_module, "QUICK_DRAWS", FEW)
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        context = context_of(checkpoint_of(), planted_order.pairs(20), tmp_path / name)
        found.append(run_probe(PROBE, context).to_json())
    assert found[0]["findings"] == found[1]["findings"]


@pytest.mark.parametrize("probe", [PROBE, probe_named("layers")], ids=lambda probe: probe.name)
def test_too_few_pairs_are_said_in_words(
    probe: Probe, checkpoint_of: Build, tmp_path: Path
) -> None:
    found = run_probe(probe, context_of(checkpoint_of(), planted_order.pairs(6), tmp_path))
    assert (found.probe, found.findings, found.figures) == (probe.name, (), ())
    assert "3 to fit on" in found.summary.en and "3 to score on" in found.summary.en
    assert "至少 5 对" in found.summary.zh


def test_the_places_of_a_profile() -> None:
    assert places_of(12, every=False) == (3, 6, 9, 12)
    assert places_of(2, every=False) == (2,)
    assert places_of(2, every=True) == (0, 1, 2)
