"""What heads look at, as a probe: what was planted, a base, a treebank, odd models and inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import CheckpointError, PairFileError
from qt_bert.figures import Bars, HeatMap
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.features.probe import PROBE
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Finding, ProbeResult
from tests.probes.judged import outcome
from tests.probes.planted_kinds import LAST_SEP, SEP_HEAD, SHAPE, opened, plant, plant_kinds

Build = Callable[..., Path]
WORDS = ("北京", "上海", "高铁", "票价", "手机", "苹果", "电影", "假期", "排骨", "衣服")


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant_kinds(checkpoint_of(**SHAPE), tmp_path_factory.mktemp("planted") / "kinds")


@pytest.fixture(scope="module")
def even(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(checkpoint_of(**SHAPE), tmp_path_factory.mktemp("planted") / "even", {})


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., Context]:
    def build(model: Path, pairs: list[Pair] | None = None, **facts: Any) -> Context:
        split = Split(pairs[::2], pairs[1::2], 0) if pairs else None
        return Context(
            label="features",
            files=PairFiles(pairs=pair_file),
            read_pairs=(lambda labels: split) if split else None,
            work=tmp_path / "sweeps" / "features",
            open_model=lambda: opened(model),
            **{"resamples": 200, **facts},
        )

    return build


def made_pairs() -> list[Pair]:
    """Forty pairs of as many queries."""
    return [
        Pair(
            f"{WORDS[i % 10]}{WORDS[i // 10]}",
            f"{WORDS[(i + 3) % 10]}，我去",
            (4,),
            str(i),
            i,
            "4",
            {},
        )
        for i in range(40)
    ]


def by_id(result: ProbeResult) -> dict[str, Finding]:
    return {finding.id: finding for finding in result.findings}


def test_the_probe_tells_what_was_planted(
    planted: Path, even: Path, context: Callable[..., Context]
) -> None:
    result = run_probe(PROBE, context(planted, made_pairs(), base=even))
    found = by_id(result)
    assert outcome(found["sep_late"]) == "reproduced"  # two of the last layer's heads look at [SEP]
    assert outcome(found["cls_early"]) == "reproduced"  # and so give [CLS] nothing
    assert outcome(found["cls_looks_at_sep"]) == "reproduced"
    assert found["heads_over_half"].value == pytest.approx(100 * 2 / 12)
    assert outcome(found["heads_over_half"]) == "not reproduced"
    assert set(result.sets["over_half"]) == {str(SEP_HEAD), str(LAST_SEP)}
    assert outcome(found["added_is_little_pairs"]) == "reproduced"
    assert not found["sep_late_before"].primary
    assert found["sep_late_before"].value == pytest.approx(0, abs=1e-3)
    assert result.settings["treebank"]["en"].startswith("No treebank")
    assert not [name for name in found if "treebank" in name]
    shares = next(f for f in result.figures if f.name == "shares_pairs")
    assert isinstance(shares, Bars) and len(shares.series) == 3


def test_without_a_base_nothing_is_said_of_tuning(
    planted: Path, context: Callable[..., Context]
) -> None:
    result = run_probe(PROBE, context(planted, made_pairs()))
    assert not [one for one in by_id(result) if "added" in one or "before" in one]
    assert "--base" in result.summary.en
    assert not [figure for figure in result.figures if figure.name.startswith("change")]


def treebank(path: Path, sentences: int) -> Path:
    """Sentences of three words, no two alike: subject, verb, object."""
    rows = []
    for i in range(sentences):
        first, last = WORDS[i % 10], WORDS[(i // 10 + 1) % 10] + "猫" * (i % 3)
        cells = [(first, "NOUN", 2, "nsubj"), ("追", "VERB", 0, "root"), (last, "NOUN", 2, "obj")]
        rows += [
            f"{k}\t{form}\t_\t{upos}\t_\t_\t{head}\t{label}\t_\t_"
            for k, (form, upos, head, label) in enumerate(cells, start=1)
        ]
        rows.append("")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_a_treebank_adds_subjects_and_objects(
    planted: Path, even: Path, context: Callable[..., Context], tmp_path: Path
) -> None:
    path = treebank(tmp_path / "made.conllu", 60)
    result = run_probe(PROBE, context(planted, made_pairs(), base=even, treebanks=(path,)))
    assert by_id(result)["added_is_little_treebank"].primary
    assert result.settings["treebank"] == ["made.conllu"]
    lift = next(f for f in result.figures if f.name == "lift_treebank")
    assert isinstance(lift, HeatMap)
    assert {"主语", "宾语"} <= {getattr(c, "zh", c) for c in lift.columns}
    stored = ProbeResult.read(_written(result, tmp_path))
    assert stored.sets == result.sets


def _written(result: ProbeResult, folder: Path) -> Path:
    result.write(folder / "features.json")
    return folder / "features.json"


def test_too_small_a_treebank_is_refused(
    planted: Path, context: Callable[..., Context], tmp_path: Path
) -> None:
    path = treebank(tmp_path / "small.conllu", 2)
    with pytest.raises(PairFileError, match=r"small\.conllu.*larger treebank"):
        run_probe(PROBE, context(planted, made_pairs(), treebanks=(path,)))


def test_a_base_of_another_shape_is_refused(
    planted: Path, checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    with pytest.raises(CheckpointError, match="--base"):
        run_probe(PROBE, context(planted, made_pairs(), base=checkpoint_of(layers=1)))


def pruned(checkpoint_of: Build, out: Path, *kept: tuple[int, ...]) -> tuple[Path, Path]:
    """A model of three layers with only the heads `kept`, and the one it was pruned from."""
    whole = checkpoint_of(layers=3, heads=4, hidden=32)
    layers = tuple(KeptLayer(layer=n, heads=heads) for n, heads in enumerate(kept))
    return save_smaller(out, smaller_checkpoint(open_checkpoint(whole), layers)), whole


def test_pruned_heads_take_no_part(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    folder, whole = pruned(checkpoint_of, tmp_path / "small", (1, 3), (), (0,))
    result = run_probe(PROBE, context(folder, made_pairs(), base=whole))
    assert [one.head for one in result.heads] == ["L0H1", "L0H3", "L2H0"]
    (drawn,) = (one for one in result.figures if one.name == "heads_sep")
    assert isinstance(drawn, HeatMap) and drawn.values[1] == (None,) * 4
    (layers,) = (one for one in result.figures if one.name == "lift_pairs")
    assert isinstance(layers, HeatMap) and set(layers.values[1]) == {None}
    (change,) = (one for one in result.figures if one.name == "change_pairs")
    assert isinstance(change, HeatMap) and set(change.values[1]) == {None}
    # The lowest layer reads the same embeddings; above, what was pruned makes a difference too.
    assert change.values[0] == pytest.approx((0,) * len(change.columns), abs=0.02)


def test_of_a_last_layer_without_heads_nothing_is_said(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    folder, _ = pruned(checkpoint_of, tmp_path / "small", (1, 3), (0,), ())
    result = run_probe(PROBE, context(folder, made_pairs()))
    assert by_id(result).keys() & {"sep_late", "cls_early", "cls_looks_at_sep"} == set()
    assert "cls_row" not in {figure.name for figure in result.figures}
    assert "nan" not in result.summary.en + result.summary.zh
    assert ProbeResult.read(_written(result, tmp_path)).summary == result.summary


@pytest.mark.parametrize(
    ("family", "labels", "layers"), [("bert", 3, 1), ("xlm-roberta", 1, 2), ("electra", 5, 2)]
)
def test_any_model_any_file(
    checkpoint_of: Build,
    context: Callable[..., Context],
    tmp_path: Path,
    family: str,
    labels: int,
    layers: int,
) -> None:
    result = run_probe(PROBE, context(checkpoint_of(family, labels=labels, layers=layers)))
    found = by_id(result)
    assert ("sep_late" in found) == (layers > 1)
    assert {"heads_over_half", "cls_looks_at_sep"} <= found.keys()
    assert ProbeResult.read(_written(result, tmp_path)).summary == result.summary
