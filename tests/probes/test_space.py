"""Words and pairs in space: planted clusters, silhouettes against scikit-learn, the whole probe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import silhouette_samples

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Tagged, jieba_tagger
from qt_bert.figures import Curve, Scatter
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.space.items import WORDS_A_PAIR, items_of
from qt_bert.probes.space.planes import pca, tsne
from qt_bert.probes.space.probe import PROBE
from qt_bert.probes.space.scores import score, silhouettes
from qt_bert.probes.space.study import drawn_layers
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.planted_kinds import SHAPE, plant

Build = Callable[..., Path]


def clusters(apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Three classes of twenty points around centres so far apart."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    return rng.normal(size=(60, 8)) + apart * np.eye(8)[labels], labels


def test_silhouettes_are_scikit_learns() -> None:
    vectors, labels = clusters(2.0)
    labels[0] = 3  # one alone
    other = np.random.default_rng(1).permutation(labels)
    distances = squareform(pdist(vectors))
    found = silhouettes(distances, np.stack([labels, other]))
    for own, row in zip((labels, other), found, strict=True):
        np.testing.assert_allclose(row, silhouette_samples(vectors, own), atol=1e-9)


def test_equal_vectors_score_nothing() -> None:
    assert silhouettes(np.zeros((4, 4)), np.array([[0, 0, 1, 1]])).tolist() == [[0.0] * 4]


def test_planted_clusters_score_high_and_shuffled_ones_low() -> None:
    vectors, labels = clusters(20.0)
    queries = np.arange(60) // 2
    planted = score(vectors, labels, queries, draws=19, resamples=50, seed=0)
    assert planted.found.value > 0.7 and planted.found.n_queries == 30
    assert planted.above_chance > 0.7 and planted.p == pytest.approx(1 / 20)
    shuffled = np.random.default_rng(1).permutation(labels)
    control = score(vectors, shuffled, queries, draws=19, resamples=50, seed=0)
    assert abs(control.above_chance) < 0.1 and control.p is not None and control.p > 0.05


def test_the_same_seed_gives_the_same_score() -> None:
    vectors, labels = clusters(1.0)
    one, other = (
        score(vectors, labels, np.arange(60), draws=5, resamples=20, seed=3) for _ in range(2)
    )
    assert (one.permuted == other.permuted).all() and (
        one.found.samples == other.found.samples
    ).all()


def test_components_follow_the_greatest_spread() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 5)) * [0.1, 30, 0.1, 10, 0.1]
    plane = pca(vectors)
    assert abs(np.corrcoef(plane.at[:, 0], vectors[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(plane.at[:, 1], vectors[:, 3])[0, 1]) > 0.98
    assert "% of variance" in plane.axes[0].en


def test_tsne_keeps_planted_clusters_apart_and_is_repeatable() -> None:
    vectors, labels = clusters(20.0)
    plane = tsne(vectors, 0)
    assert silhouette_samples(plane.at, labels).mean() > 0.5
    np.testing.assert_array_equal(tsne(vectors, 0).at, plane.at)


@pytest.mark.parametrize(
    ("layers", "drawn"), [(1, [1]), (2, [1, 2]), (4, [1, 2, 4]), (12, [1, 6, 12])]
)
def test_first_middle_and_last_layer_are_drawn(layers: int, drawn: list[int]) -> None:
    assert drawn_layers(layers) == drawn


def tag(text: str) -> list[Tagged]:
    """Words of two characters; 北京 and 上海 are nouns, the others verbs."""
    words = [(i, min(i + 2, len(text))) for i in range(0, len(text), 2)]
    return [Tagged(w, "n" if text[slice(*w)] in ("北京", "上海") else "v") for w in words]


def pair(query: str, title: str, grade: int = 3) -> Pair:
    return Pair(query, title, (grade,), query, 1, str(grade), {})


def test_words_are_drawn_once_with_their_tokens(checkpoint_of: Build) -> None:
    tokenizer = Scorer(open_checkpoint(checkpoint_of())).tokenizer
    pairs = [pair("北京高铁", "上海高铁票价衣服", g) for g in (1, 2)] * 3
    items = items_of(pairs, tokenizer, tag, 0)
    assert len(items.places) <= 6 * (1 + WORDS_A_PAIR)
    words = [row for row in range(len(items.places)) if items.places.spans[row, 0, 0] > 0]
    spans = items.places.spans[words, 0]
    assert (spans[:, 1] - spans[:, 0] == 2).all()
    assert len(words) == 5  # 北京 高铁 上海 票价 衣服, each once
    grade = items.labellings["grade"]
    assert grade.classes == ("1", "2") and len(grade.rows) == 6
    assert set(grade.texts) == {"北京高铁"}
    assert "speech" not in items.labellings  # two nouns are too few for a class


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., Context]:
    def build(model: Path, pairs: list[Pair] | None = None, **facts: Any) -> Context:
        split = Split(pairs[::2], pairs[1::2], 0) if pairs else None
        return Context(
            label="space",
            files=PairFiles(pairs=pair_file),
            read_pairs=(lambda labels: split) if split else None,
            work=tmp_path / "sweeps" / "space",
            open_model=lambda: Scorer(open_checkpoint(model)),
            **{"resamples": 50, **facts},
        )

    return build


PLACES = "北京上海高铁票价手机苹果电影假期排骨衣服"


def made_pairs() -> list[Pair]:
    words = [PLACES[i : i + 2] for i in range(0, 20, 2)]
    return [
        pair(
            f"{words[i % 10]}{words[(i * 3 + 1) % 10]}",
            f"我想去{words[(i + 5) % 10]}看看",
            1 + i % 5,
        )
        for i in range(40)
    ]


@pytest.mark.parametrize(
    ("family", "labels", "layers", "full"),
    [("bert", 5, 3, True), ("xlm-roberta", 1, 2, False), ("electra", 3, 1, False)],
)
def test_the_probe_on_any_model(
    checkpoint_of: Build,
    context: Callable[..., Context],
    tmp_path: Path,
    family: str,
    labels: int,
    layers: int,
    full: bool,
) -> None:
    model = checkpoint_of(family, labels=labels, layers=layers)
    result = run_probe(PROBE, context(model, made_pairs(), full=full))
    curve = result.figures[0]
    assert isinstance(curve, Curve)
    assert len(curve.series[0].points) == layers + 1
    scatters = [figure for figure in result.figures if isinstance(figure, Scatter)]
    drawn = len(drawn_layers(layers)) * len(curve.series) // 2
    assert len(scatters) == drawn * (2 if full else 1)
    assert all(not finding.primary for finding in result.findings)
    path = tmp_path / "space.json"
    result.write(path)
    assert ProbeResult.read(path).figures == result.figures


def test_r0_of_cls_is_one_point(checkpoint_of: Build, context: Callable[..., Context]) -> None:
    result = run_probe(PROBE, context(checkpoint_of(), made_pairs()))
    curve = result.figures[0]
    assert isinstance(curve, Curve)
    (grades,) = [line for line in curve.series if "[CLS]" in str(line.name) and not line.dashed]
    assert grades.points[0].y == pytest.approx(0, abs=1e-6)


def test_of_equal_vectors_there_is_no_picture(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    even = plant(checkpoint_of(**SHAPE), tmp_path / "even", {})  # every [CLS] stays what it was
    result = run_probe(PROBE, context(even, made_pairs(), full=True))
    names = [figure.name for figure in result.figures]
    assert not [name for name in names if "grade" in name]
    assert "tsne_side_r1" in names


def test_pairs_without_two_classes_are_told(
    checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    pairs = [pair(word, "？") for word in "abcd"]
    result = run_probe(PROBE, context(checkpoint_of(), pairs))
    assert "too few" in result.summary.en
    assert not result.figures and not result.findings
    assert set(result.settings["left_out"]) == {"speech", "side", "grade"}


def test_the_tagger_is_jiebas() -> None:
    assert jieba_tagger()("北京")[0].tag == "ns"
