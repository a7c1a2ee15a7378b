"""Attention before and after tuning: a planted head, a second seed; measures of maps against libraries."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine, jensenshannon

from qt_bert.data.segmenters import segmenter
from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.heads import Head, Shape
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.streams import Shared, characters_of, shared_terms
from qt_bert.probes.tuning import _last_layers, strengthened
from qt_bert.probes.tuning_maps import SIMILARITIES, WEIGHTS, Comparison, links
from qt_bert.results.kept import KeptLayer
from tests.probes import planted_tuning
from tests.probes.planted_kinds import opened
from tests.probes.planted_tuning import compared
from tests.probes.probe_results import claim, result_of, values

JIEBA = segmenter("jieba")
PAIRS = [replace(one, grades=(1 + row % 5,)) for row, one in enumerate(planted_tuning.pairs())]
HALVES = PAIRS[:15], PAIRS[15:]


@pytest.fixture(scope="module")
def planted(checkpoint_of, tmp_path_factory) -> dict[float, Path]:
    """Models whose L0H1 matches tokens not at all, a little, and strongly."""
    folder = checkpoint_of(**planted_tuning.SHAPE)
    out = tmp_path_factory.mktemp("planted")
    return {
        strength: planted_tuning.plant(folder, out / f"strength-{strength}", strength)
        for strength in (0.0, 0.05, 1.0)
    }


@pytest.fixture(scope="module")
def random_pair(checkpoint_of) -> tuple[Path, Path]:
    return checkpoint_of(seed=1), checkpoint_of(seed=2)


def test_exactly_the_planted_head_changes(planted):
    found = compared(planted[0.0], planted[1.0])
    similarity = found.similarity.mean(0)
    others = np.ones((2, 4), bool)
    others[0, 1] = False
    np.testing.assert_allclose(similarity[others][:, 0], 1, atol=1e-6)
    np.testing.assert_allclose(similarity[others][:, 1], 0, atol=1e-3)
    assert similarity[0, 1, 0] < 0.9 and similarity[0, 1, 1] > 0.3
    assert found.after[:, 0, 1, 0].min() > 0.8
    assert strengthened(found).heads() == [Head(0, 1)]
    assert strengthened(compared(planted[1.0], planted[0.0])).heads() == []


def test_the_change_of_the_planted_head_is_measured(planted, context_of):
    result = result_of("tuning", context_of(planted[1.0], HALVES, base=planted[0.05]))
    named = ("matching_before", "matching_after", "strengthened")
    assert result.sets == dict.fromkeys(named, ("L0H1",))
    assert (result.facts["rose"], result.facts["direction"]) == (1, "rises")
    rise, found = claim(result), values(result)
    assert rise.id == "tuning.matched" and rise.value is not None and rise.value > 30
    assert found["matched_after"] - found["matched_before"] == pytest.approx(rise.value)
    assert found["strengthened_again"] == found["beyond_others"] == pytest.approx(rise.value)
    assert found["separators"] < 0 and abs(found["all_separators"]) < abs(found["separators"])
    assert found["last_layers"] is None  # of two layers
    assert result.stability["strengthened"].overlap == 1
    heads = {one.head: one.scores for one in result.heads}
    assert heads["L0H1"]["matched_after"] > 0.8 > 0.5 > heads["L0H1"]["matched_before"]
    assert heads["L0H0"]["cosine"] == pytest.approx(1)


def test_heads_named_after_tuning_alone_count(planted, context_of, tmp_path):
    """The base attends evenly, so that no head of it is named; the reverse falls."""
    result = result_of("tuning", context_of(planted[1.0], HALVES, base=planted[0.0]))
    assert (result.sets["matching_before"], result.sets["matching_after"]) == ((), ("L0H1",))
    assert claim(result).value > 30
    back = context_of(planted[0.0], HALVES, base=planted[1.0], work=tmp_path / "back")
    result = result_of("tuning", back)
    assert (result.facts["fell"], result.facts["direction"]) == (1, "falls")


def test_of_a_pruned_model_its_own_heads_are_measured(planted, context_of, tmp_path):
    """The head that matches before tuning is gone, all others are as they were."""
    kept = tuple(KeptLayer(layer=number, heads=(0, 2, 3)) for number in range(2))
    whole = open_checkpoint(planted[1.0])
    small = save_smaller(tmp_path / "small", smaller_checkpoint(whole, kept))
    result = result_of("tuning", context_of(small, HALVES, base=planted[1.0]))
    assert set(result.sets.values()) == {()} and claim(result).reason == "unnamed"
    assert values(result)["cosine"] == pytest.approx(1) and not result.tables


def test_the_last_layers_by_hand():
    """Cosines of four layers; a head that is gone does not count."""
    similarity = np.ones((3, 4, 2, len(SIMILARITIES)))
    similarity[:, :, :, 0] = np.array([0.9, 0.8, 0.5, 0.3])[:, None]
    similarity[:, 3, 1, 0] = 0.0
    weights = np.zeros((3, 4, 2, len(WEIGHTS)))
    seen = Comparison(PAIRS[:3], 3, weights, weights, similarity)
    absent = Shape(4, 2, frozenset({(3, 1)}))
    assert _last_layers(seen, absent).value == pytest.approx(0.4 - 0.85)
    assert _last_layers(seen, Shape(4, 2)).value == pytest.approx((0.5 + 0.15) / 2 - 0.85)


def test_a_second_seed_stands_beside_the_base(planted, context_of):
    base, second = planted[0.0], planted[0.05]
    result = result_of("tuning", context_of(planted[1.0], HALVES, base=base, second=second))
    found = values(result)
    assert found["cosine"] < found["cosine_second_seed"] < 1
    scores = {one.head: one.scores for one in result.heads}
    changed, similarity_of = scores["L0H1"], scores["L0H0"]
    assert changed["cosine"] < changed["cosine_second_seed"] < 0.99
    assert changed["js_distance"] > changed["js_distance_second_seed"] > 0.01
    assert similarity_of["cosine_second_seed"] == pytest.approx(1)
    assert result.settings["second"]["name"] == second.name


def test_a_wrong_base_or_second_seed_is_refused(random_pair, checkpoint_of, context_of):
    base, model = random_pair
    with pytest.raises(ArgumentError, match="--base"):
        result_of("tuning", context_of(model))
    with pytest.raises(ArgumentError, match="do not fit the model's"):
        result_of("tuning", context_of(model, base=checkpoint_of(hidden=32)))
    with pytest.raises(CheckpointError, match="number of layers"):
        result_of("tuning", context_of(model, base=checkpoint_of(layers=3)))
    with pytest.raises(CheckpointError, match="--second"):
        result_of("tuning", context_of(model, base=base, second=model))


# Measures of maps, against libraries.


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_links_join_the_tokens_of_a_term(checkpoint_of, family):
    texts = "北京票价", "高铁北京"
    (encoded,) = opened(checkpoint_of(family)).tokenizer.encode([texts])
    joined = np.argwhere(links(encoded, [Shared([(0, 2)], [(2, 4)])])).tolist()
    query, title = (
        [one.token for one in characters_of(encoded, *texts, side) if one.text in "北京"]
        for side in (QUERY, TITLE)
    )
    assert {*map(tuple, joined)} == {*product(query, title), *product(title, query)}


def test_a_causal_models_links_go_from_the_title(checkpoint_of):
    scorer = opened(checkpoint_of("qwen3"))
    (encoded,) = scorer.tokenizer.encode([("xz", "zx")])
    shared = [Shared([(0, 1)], [(1, 2)])]
    assert np.argwhere(links(encoded, shared, causal=True)).tolist() == [[3, 0]]
    assert np.argwhere(links(encoded, shared)).tolist() == [[0, 3], [3, 0]]


def test_without_special_tokens_they_have_no_weight(checkpoint_of):
    """And what title tokens give their terms in the query is that of Hugging Face's maps."""
    folders = [checkpoint_of("qwen3", seed=seed) for seed in (1, 2)]
    found = compared(*folders)
    for name in ("sep", "cls"):
        assert np.isnan(found.weight("after", name)).all()
    pair = planted_tuning.pairs()[0]
    (encoded,) = opened(folders[1]).tokenizer.encode([(pair.query, pair.title)])
    linked = links(encoded, shared_terms(pair.query, pair.title, JIEBA).values(), causal=True)
    assert linked.any()
    maps = reference_maps(folders[1], pair.query, pair.title)
    want = (maps * linked).sum(-1)[..., linked.any(-1)].mean(-1)
    assert found.after[0, ..., WEIGHTS.index("matched")] == pytest.approx(want, abs=1e-5)


def reference_maps(folder: Path, query: str, title: str) -> np.ndarray:
    """Hugging Face's own attention [layers, heads, L, L]."""
    checkpoint = open_checkpoint(folder)
    tokens = checkpoint.tokenizer(query, title, return_tensors="pt")
    with torch.inference_mode():
        found = checkpoint.model(**tokens, output_attentions=True).attentions
    return torch.cat(found).numpy()


def test_measures_agree_with_libraries_on_the_reference_maps(random_pair):
    found = compared(*random_pair)
    for row, pair in enumerate(PAIRS[:4]):
        before, after = (reference_maps(one, pair.query, pair.title) for one in random_pair)
        (encoded,) = opened(random_pair[0]).tokenizer.encode([(pair.query, pair.title)])
        text = np.array(encoded.side) >= 0
        linked = links(encoded, shared_terms(pair.query, pair.title, JIEBA).values())
        for maps, got in ((before, found.before), (after, found.after)):
            matched = (maps * linked).sum(-1)[..., linked.any(-1)].mean(-1)
            own = np.diagonal(maps, axis1=-2, axis2=-1)[..., text].mean(-1)
            sep = maps[..., encoded.separators].sum(-1)[..., text].mean(-1)
            first = maps[..., 0][..., text].mean(-1)
            np.testing.assert_allclose(
                got[row], np.stack([matched, own, sep, first], -1), atol=1e-5
            )
        for layer, head in np.ndindex(2, 2):
            one, other = before[layer, head], after[layer, head]
            want = [
                1 - cosine(one.ravel(), other.ravel()),
                np.mean([jensenshannon(p, q, base=2) for p, q in zip(one, other, strict=True)]),
            ]
            np.testing.assert_allclose(found.similarity[row, layer, head], want, atol=1e-4)
