"""What fine-tuning changes: a planted head, a second seed, the whole probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.segmenters import segmenter
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.shift.case import case_of
from qt_bert.probes.shift.probe import PROBE
from qt_bert.probes.shift.study import strengthened
from qt_bert.probes.split import HeldOutFile, PairFiles, Split
from qt_bert.results.probe import Finding, ProbeResult
from tests.probes import planted_shift
from tests.probes.judged import outcome
from tests.probes.planted_shift import compared, opened

Build = Callable[..., Path]
JIEBA = segmenter("jieba")
PLACED = list(enumerate(planted_shift.pairs()))
HEADS = ("L0H1", "L0H0")


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    """Models whose L0H1 matches tokens not at all, a little, and strongly."""
    folder = checkpoint_of(**planted_shift.SHAPE)
    out = tmp_path_factory.mktemp("planted")
    return {
        strength: planted_shift.plant(folder, out / f"strength-{strength}", strength)
        for strength in (0.0, 0.05, 1.0)
    }


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., Context]:
    """A context around two folders, of made pairs or of the eight in a file."""

    def build(base: Path | None, model: Path, *, made: bool = True, **facts: Any) -> Context:
        def split(labels: ModelLabels) -> Split:
            fit = [replace(pair, grades=(1 + row % labels.logits,)) for row, pair in PLACED]
            return Split(fit[:15], fit[15:], 0)

        return Context(
            label="shift",
            files=PairFiles(pairs=pair_file),
            read_pairs=split if made else None,
            work=tmp_path / "sweeps" / "shift",
            open_model=lambda: opened(model),
            base=base,
            resamples=200,
            **facts,
        )

    return build


def by_id(result: ProbeResult) -> dict[str, Finding]:
    return {finding.id: finding for finding in result.findings}


@pytest.fixture(scope="module")
def random_pair(checkpoint_of: Build) -> tuple[Path, Path]:
    return checkpoint_of(seed=1), checkpoint_of(seed=2)


def test_a_model_beside_itself_has_not_changed(random_pair: tuple[Path, Path]) -> None:
    found = compared(random_pair[0], random_pair[0])
    assert np.abs(found.after - found.before).max() == 0
    np.testing.assert_allclose(found.likeness[..., :2], 1, atol=1e-6)
    np.testing.assert_allclose(found.likeness[..., 2], 0, atol=1e-6)
    assert strengthened(found).heads() == []


def test_exactly_the_planted_head_changes(planted: dict[float, Path]) -> None:
    found = compared(planted[0.0], planted[1.0])
    likeness = found.likeness.mean(0)
    others = np.ones((2, 4), bool)
    others[0, 1] = False
    np.testing.assert_allclose(likeness[others][:, :2], 1, atol=1e-6)
    np.testing.assert_allclose(likeness[others][:, 2], 0, atol=1e-3)
    assert likeness[0, 1, 0] < 0.9
    assert likeness[0, 1, 2] > 0.3
    assert found.after[:, 0, 1, 0].min() > 0.8
    assert strengthened(found).heads() == [Head(0, 1)]
    assert strengthened(compared(planted[1.0], planted[0.0])).heads() == []


def test_the_probe_tells_what_became_of_the_planted_head(
    planted: dict[float, Path], context: Callable[..., Context]
) -> None:
    result = run_probe(PROBE, context(planted[0.05], planted[1.0]))
    found = by_id(result)
    assert result.sets["matching_before"][0] == result.sets["matching_after_biased"][0] == "L0H1"
    assert result.sets["strengthened"] == ("L0H1",)
    assert outcome(found["matching_matched"]) == "reproduced"
    assert found["matching_matched"].value == found["picked_after_matched"].value
    of_matched = found["matching_matched"].conclusions
    assert "rose (L0H1" in of_matched["not reproduced"].en
    assert "升高（L0H1" in of_matched["reproduced"].zh
    assert outcome(found["matching_sep"]) == "reproduced"
    assert outcome(found["all_sep"]) == "not reproduced"
    assert not found["picked_after_matched"].primary
    assert set(result.stability) == set(result.sets)
    assert result.stability["strengthened"].overlap == 1
    assert result.stability["matching_before"].sources == ()  # no file held out was given
    assert result.settings["case_head"] == "L0H1"
    assert "L0H1 +" in result.summary.zh and "L0H1 +" in result.summary.en
    heads = {one.head: one.scores for one in result.heads}
    assert heads["L0H1"]["matched_after"] > 0.8 > 0.5 > heads["L0H1"]["matched_before"]
    assert heads["L0H0"]["cosine"] == pytest.approx(1)
    backwards = by_id(run_probe(PROBE, context(planted[1.0], planted[0.05])))
    assert outcome(backwards["matching_matched"]) == "not reproduced"


def test_the_case_parts_what_grew_from_what_shrank(planted: dict[float, Path]) -> None:
    base, model = opened(planted[0.0]), opened(planted[1.0])
    case = case_of(base.encoder, model, Head(0, 1))
    assert case.tokens[:3] == ("[CLS]", "我", "在")
    assert case.tokens.count("[SEP]") == 2
    np.testing.assert_allclose(case.strengthened - case.weakened, case.after - case.before)
    assert (np.minimum(case.strengthened, case.weakened) == 0).all()
    me = [place for place, token in enumerate(case.tokens) if token == "我"]
    assert case.strengthened[me[0], me[1]] == case.strengthened[me[0]].max() > 0.5


@pytest.mark.parametrize(
    ("family", "labels", "layers"), [("bert", 3, 4), ("xlm-roberta", 1, 2), ("electra", 5, 1)]
)
def test_any_model_any_file(
    checkpoint_of: Build,
    context: Callable[..., Context],
    tmp_path: Path,
    family: str,
    labels: int,
    layers: int,
) -> None:
    folders = [checkpoint_of(family, labels=labels, layers=layers, seed=seed) for seed in (1, 2)]
    result = run_probe(PROBE, context(*folders))
    assert {"all_cls", "all_sep"} <= by_id(result).keys()
    assert len(result.heads) == 2 * layers
    assert result.figures[-1].name == "case_weakened"
    for name in ("last_layers_cosine", "last_layers_most"):
        assert (name in by_id(result)) == (layers > 2)
    path = tmp_path / "shift.json"
    result.write(path)
    assert ProbeResult.read(path).summary == result.summary


def test_texts_without_a_match_leave_the_other_claims(
    random_pair: tuple[Path, Path], context: Callable[..., Context], tmp_path: Path
) -> None:
    path = tmp_path / "english.tsv"
    rows = "".join(f"query {i}\tsome title\t{1 + i % 5}\n" for i in range(12))
    path.write_text(f"query\ttitle\tgrade\n{rows}", encoding="utf-8")
    made = context(*random_pair, made=False)
    made.files = PairFiles(pairs=path)
    result = run_probe(PROBE, made)
    found = by_id(result)
    assert result.sets == {"matching_before": (), "matching_after_biased": (), "strengthened": ()}
    assert found["matching_matched"].value is None
    assert outcome(found["matching_matched"]) == "inconclusive"
    assert found["all_cls"].value is not None
    assert result.settings["case_head"] is None


def test_files_held_out_are_asked_for_the_same_matching_heads(
    planted: dict[float, Path], context: Callable[..., Context], pair_file: Path
) -> None:
    held_out = (HeldOutFile(path=pair_file),)
    result = run_probe(PROBE, context(planted[0.05], planted[1.0], held_out_files=held_out))
    for name in ("matching_before", "matching_after_biased"):
        (source,) = result.stability[name].sources
        assert source.source.en == pair_file.name and 0 <= source.overlap <= 1
        assert source.n_queries >= 1
    assert result.stability["strengthened"].sources[0].source.en == "validation"


def test_a_second_seed_stands_beside_the_base(
    planted: dict[float, Path], context: Callable[..., Context]
) -> None:
    result = run_probe(PROBE, context(planted[0.0], planted[1.0], second=planted[0.05]))
    gap = by_id(result)["cosine_below_second_seed"]
    assert not gap.primary and gap.value is not None and gap.value < 0
    assert gap.p is not None and gap.p < 0.05
    changed, alike = ({one.head: one.scores for one in result.heads}[head] for head in HEADS)
    assert changed["cosine"] < changed["cosine_second_seed"] < 0.99
    assert changed["cosine_texts"] < changed["cosine_texts_second_seed"]
    assert changed["js_distance"] > changed["js_second_seed"] > 0.01
    assert alike["cosine_second_seed"] == pytest.approx(1)
    assert result.settings["second_seed"]["name"] == planted[0.05].name
    assert "cosine_second_seed" in {one.name for one in result.figures}
    assert "two seeds" in result.summary.en


def test_without_a_second_seed_the_result_says_so(
    random_pair: tuple[Path, Path], context: Callable[..., Context]
) -> None:
    result = run_probe(PROBE, context(*random_pair))
    assert result.settings["second_seed"].keys() == {"zh", "en"}
    assert "cosine_below_second_seed" not in by_id(result)
    assert not any("second" in name for name in result.heads[0].scores)
    assert "js_distance" in {one.name for one in result.figures}


def test_what_is_no_second_seed_is_refused(
    random_pair: tuple[Path, Path], checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    with pytest.raises(CheckpointError, match="--second"):
        run_probe(PROBE, context(*random_pair, second=random_pair[1]))
    with pytest.raises(CheckpointError, match="number of layers.*--second"):
        run_probe(PROBE, context(*random_pair, second=checkpoint_of(layers=3)))


def test_what_is_no_base_is_refused(checkpoint_of: Build, context: Callable[..., Context]) -> None:
    with pytest.raises(ArgumentError, match="--base"):
        run_probe(PROBE, context(None, checkpoint_of()))
    with pytest.raises(CheckpointError, match="number of layers"):
        run_probe(PROBE, context(checkpoint_of(layers=3), checkpoint_of()))


@pytest.mark.slow
def test_random_models_have_no_strengthened_heads(tmp_path: Path, checkpoint_of: Build) -> None:
    named = 0
    for seed in range(20):
        folders = [
            planted_shift.untrained(checkpoint_of(), tmp_path / f"{seed}-{which}", 2 * seed + which)
            for which in (0, 1)
        ]
        named += bool(strengthened(compared(*folders)).heads())
    assert named <= 2
