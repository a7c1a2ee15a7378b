"""Tuning taken back: a model in which one head learned all, both ends, odd models, bad bases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.weights import RevertedLayers
from qt_bert.data.segmenters import Segmenter
from qt_bert.data.tokenise import EncodedPair
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.models.batches import to_batch
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes import revert
from qt_bert.probes.base import Context, Split, probe_named, run_probe
from qt_bert.probes.revert import (
    QUANTITIES,
    Cells,
    PairWords,
    base_weights,
    check_ends,
)
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import ProbeResult
from tests.probes import planted_shift
from tests.probes.made_context import context_of
from tests.probes.matching_found import matching_found
from tests.probes.planted_shift import opened
from tests.probes.probe_results import values

PAIRS = planted_shift.pairs()


@pytest.fixture(scope="module")
def planted(checkpoint_of, tmp_path_factory) -> tuple[Path, Path]:
    """A base whose heads all attend evenly, and a model whose L0H1 learned to match."""
    folder, out = checkpoint_of(**planted_shift.SHAPE), tmp_path_factory.mktemp("planted")
    return (
        planted_shift.plant(folder, out / "base", 0.0),
        planted_shift.plant(folder, out / "model", 1.0),
    )


@pytest.fixture
def context(tmp_path) -> Callable[..., Context]:
    def build(base, model, pairs=PAIRS, **facts):
        fit = [replace(one, grades=(1 + at % 5,)) for at, one in enumerate(pairs)]
        find = matching_found(open_checkpoint(model).shape, ("L0H1",), ("L0H1",))
        halves, more = (fit[:10], fit[10:]), {"base": base, "result_of": find} | facts
        return context_of("revert", model, tmp_path, halves, **more)

    return build


def matching_heads(context: Context) -> ProbeResult:
    return run_probe(probe_named("revert"), context)


def as_the_model_grades(model: Path) -> Callable[[ModelLabels], Split]:
    """Pairs whose labels are the model's own order, in five steps."""
    scores = opened(model).logits([(pair.query, pair.title) for pair in PAIRS])
    chances = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    ranks = (chances @ np.arange(1, 6)).argsort().argsort()
    graded = [
        replace(one, grades=(1 + int(rank) // 6,)) for one, rank in zip(PAIRS, ranks, strict=True)
    ]
    return lambda labels: Split(graded[:3], graded, 0)


def test_what_one_head_learned_is_lost_with_it(planted, context):
    result = matching_heads(context(*planted, read_pairs=as_the_model_grades(planted[1])))
    found = values(result)
    loss = found["set_loss"]
    assert loss is not None and loss > 0.05
    assert result.facts["sets"] == 7 and result.facts["more"] == 0  # its own layer's and the next's
    for name in ("all_heads_loss", "everything_loss", "beyond_others"):
        assert found[name] == pytest.approx(loss, abs=1e-3)
    assert found["kept_loss"] == pytest.approx(0, abs=1e-3)
    assert result.facts["status"] == "named" and not result.claims
    guards = result.settings["guards"]["ends"]
    assert max(guards["nothing"], guards["everything"]) <= guards["bound"]
    scores = {one.head: one.scores for one in result.heads}
    assert scores["L0H1"]["across_after"] > 0.5 > scores["L0H1"]["across_before"]
    assert scores["L0H0"]["same_after"] == pytest.approx(scores["L0H0"]["same_before"])


def test_attention_is_that_of_one_head_named_before_tuning(planted, context, tmp_path):
    forwards = matching_heads(context(*planted))
    backwards = matching_heads(context(*reversed(planted), work=tmp_path / "backwards"))
    scores = {one.head: one.scores for one in forwards.heads}
    own = scores[str(forwards.facts["head"])]
    change = 100 * (own["across_after"] - own["across_before"])
    assert values(forwards)["across"] == pytest.approx(change)
    assert backwards.facts["head"] == "L0H1"  # the base of this one is the model that learned
    assert values(backwards)["across"] < -30 and values(backwards)["same"] < 0
    parts = [values(forwards)[name] for name in ("itself", "near", "far")]
    assert values(forwards)["same"] == pytest.approx(sum(parts)) and values(forwards)["same"] > 0


def test_both_ends_are_proved(planted, monkeypatch):
    scorer = opened(planted[1])
    figures = check_ends(scorer, planted[0], PAIRS)
    assert max(figures["nothing"], figures["everything"]) <= figures["bound"] < 1e-3

    def half(earlier):
        return Variant("everything", (RevertedLayers((1,), earlier, embeddings=True),), "revert")

    monkeypatch.setattr(revert, "everything", half)
    with pytest.raises(EquivalenceError, match="with everything reset"):
        check_ends(scorer, planted[0], PAIRS)


def test_a_pruned_model_is_not_measured(checkpoint_of, context, tmp_path):
    kept = tuple(KeptLayer(layer=number, heads=(0, 2)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4, seed=3)), kept)
    folder = save_smaller(tmp_path / "small", small)
    result = matching_heads(context(checkpoint_of(heads=4), folder))
    assert not result.measurements and result.settings.get("guards") is None


@pytest.mark.parametrize("family", ["modernbert", "qwen3", "deberta-v2"])
def test_heads_that_share_weights_cannot_be_set_back(checkpoint_of, context, family):
    model, base = checkpoint_of(family, seed=3), checkpoint_of(family)
    result = matching_heads(context(base, model))
    assert not result.measurements and "share weights" in result.summary.en
    with pytest.raises(ArgumentError, match="cannot be set back: its heads share weights"):
        base_weights(base, opened(model))


def test_heads_under_rotary_positions_are_set_back(checkpoint_of, context):
    """The ends are proved: nothing, and everything but pooler and classifier."""
    result = matching_heads(context(checkpoint_of("gte"), checkpoint_of("gte", seed=3)))
    ends = result.settings["guards"]["ends"]
    assert max(ends["nothing"], ends["everything"]) <= ends["bound"]
    assert abs(values(result)["all_heads_loss"]) > 1e-3


def test_a_base_of_another_model_is_refused(checkpoint_of, context):
    with pytest.raises(ArgumentError, match="--base"):
        matching_heads(context(None, checkpoint_of()))
    with pytest.raises(CheckpointError, match="number of layers"):
        matching_heads(context(checkpoint_of(layers=3), checkpoint_of()))
    with pytest.raises(ArgumentError, match="do not fit the model's"):
        matching_heads(context(checkpoint_of(hidden=32), checkpoint_of()))
    with pytest.raises(ArgumentError, match="no head L7H0"):
        matching_heads(context(checkpoint_of(), checkpoint_of(), heads="L7H0"))


# Attention to the same term and the same word, against a plain count over a made map.


BY_TWO = Segmenter("two", lambda text: [(i, i + 2) for i in range(0, len(text) - 1, 2)])
"""Words of two characters each; the last of an odd number is of none."""
QUERY, TITLE = "北京上海", "上海电影，，北京北京"


@pytest.fixture(scope="module")
def made(checkpoint_of) -> tuple[np.ndarray, Cells, list[str], list[int]]:
    """Random maps of the pair [heads, L, L] in a batch with a longer one; its tokens and sides."""
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer()
    texts = [(QUERY, TITLE), ("苹果手机多少钱一斤", "红烧排骨的家常做法查询")]
    encoded = tokenizer.encode(texts)
    batch = to_batch(np.arange(2), encoded, pad=0)
    cells = Cells.of(batch, [PairWords(*text, BY_TWO) for text in texts])
    length = batch.input_ids.shape[1]
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(2, 3, length, length, generator=generator)
    maps[0, :, :, len(encoded[0]) :] = 0
    texts = ["", *QUERY, "", *TITLE, ""]
    return (maps / maps.sum(-1, keepdim=True), cells, texts, encoded[0].side)


def word_of(texts: list[str], side: list[int]) -> list[str | None]:
    """The word that each token of the first pair lies in."""
    words: list[str | None] = [None] * len(texts)
    for text in (0, 1):
        places = [at for at, one in enumerate(side) if one == text]
        for first, second in zip(places[::2], places[1::2], strict=True):
            word = texts[first] + texts[second]
            words[first] = words[second] = None if word == "，，" else word
    return words


def test_a_token_over_the_edge_of_a_word_is_of_none():
    spans = [(0, 0), (0, 1), (1, 3), (3, 4), (0, 0), (0, 2), (0, 0)]
    one = EncodedPair([0] * 7, [0] * 7, [-1, 0, 0, 0, -1, 1, -1], spans, False, False)
    same_word = PairWords("高铁票价", "票价", BY_TWO).same_word(one)
    assert np.argwhere(same_word).tolist() == [[1, 1], [3, 3], [3, 5], [5, 3], [5, 5]]


def test_every_quantity_is_a_plain_count(made):
    maps, cells, texts, side = made
    words = word_of(texts, side)
    everywhere = range(len(texts))
    shared = {"北京", "上海"}
    got = cells.weights(maps)[0].numpy()
    for head in range(3):
        one = maps[0, head].numpy()
        rows: dict[str, list[float]] = {name: [] for name in QUANTITIES}
        for i in everywhere:
            if words[i] is None:
                continue
            like = [j for j in everywhere if words[j] == words[i]]
            own = [j for j in like if side[j] == side[i]]
            far = [j for j in like if side[j] != side[i]]
            rows["same"].append(sum(one[i, j] for j in like))
            rows["itself"].append(one[i, i])
            rows["near"].append(sum(one[i, j] for j in own if j != i))
            rows["far"].append(sum(one[i, j] for j in far))
            if words[i] in shared:
                texts = sum(one[i, j] for j in everywhere if side[j] >= 0 and j != i)
                rows["across"].append(rows["far"][-1] / texts)
        want = [np.mean(rows[name]) for name in QUANTITIES]
        np.testing.assert_allclose(got[head], want, rtol=1e-5)


def test_a_pair_without_a_common_term_has_no_match_but_words(made):
    maps, cells, *_ = made
    other = dict(zip(QUANTITIES, cells.weights(maps)[1, 0].tolist(), strict=True))
    assert np.isnan(other["across"])
    assert other["same"] == pytest.approx(other["itself"] + other["near"])
    assert other["far"] == 0


def test_more_weight_on_a_separator_leaves_the_match_across(made):
    maps, cells, _, side = made
    moved = maps.clone() / 2
    moved[..., side.index(-1)] += 0.5
    before, after = (cells.weights(one)[0, :, QUANTITIES.index("across")] for one in (maps, moved))
    torch.testing.assert_close(before, after)
    both = cells.of_both(maps, moved)
    assert both.shape == (2, 3, 2 * len(QUANTITIES))
    torch.testing.assert_close(both[0, :, len(QUANTITIES)], after)
