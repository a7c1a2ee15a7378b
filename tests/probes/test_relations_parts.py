"""Parts of the study of links, against numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import SpanSegmenter
from qt_bert.data.treebank import Sentence, Word
from qt_bert.errors import PairFileError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes.matching_cells import Aligned
from qt_bert.probes.relations import aligned
from qt_bert.probes.relations.aligned import ALIGNED, aligned_links
from qt_bert.probes.relations.exchange import exchanged, label_weights, largest_of, p_against
from qt_bert.probes.relations.heads import excess_of, scores_of
from qt_bert.probes.relations.leaving_out import LeftOut, Loss
from qt_bert.probes.relations.links import UNLINKED, Link, Links, links_of
from qt_bert.probes.relations.sentences import enough, read_sentences, sentence_links, sentences_of
from qt_bert.probes.relations.tree import HEADS, LEFT, RIGHT, Pointer, attach, rightly, tree_of
from qt_bert.probes.relations.weights import Weights, link_weights
from qt_bert.probes.shift.compare import maps_of
from qt_bert.scoring.bulk import Scorer

LINKED = np.array([True, False, True, False])
STRATUM = np.array([0, 0, 1, 1])
VALUES = np.array([[0.4], [0.1], [0.6], [0.2]], np.float32)


# Exchange


def test_four_pairs_of_two_strata_exchanged_by_hand() -> None:
    weights = label_weights(LINKED, STRATUM)
    assert weights.tolist() == [0.5, -0.5, 0.5, -0.5]
    assert (weights @ VALUES)[0] == pytest.approx((0.3 + 0.4) / 2)
    null = np.concatenate(list(exchanged(VALUES, LINKED, STRATUM, draws=999, seed=0)))
    signs = {round(float(one), 4) for one in null[:, 0]}
    assert signs == {0.35, 0.05, -0.05, -0.35}
    p = p_against(np.array([0.35 - 1e-6]), null[:, 0])
    assert p[0] == pytest.approx(0.25, abs=0.05)


def test_of_one_linked_and_two_unlinked_each_is_linked_a_third_of_the_time() -> None:
    linked, stratum = np.array([False, True, False]), np.zeros(3, np.int64)
    values = np.array([[0.0], [3.0], [0.0]], np.float32)
    null = np.concatenate(list(exchanged(values, linked, stratum, draws=3000, seed=1)))[:, 0]
    assert set(null.round(5)) == {3.0, -1.5}
    assert (null > 0).mean() == pytest.approx(1 / 3, abs=0.03)


def test_strata_keep_their_labels_and_the_largest_head_counts() -> None:
    linked = np.array([True, False, True, False])
    both = np.hstack([VALUES, 2 * VALUES])
    null = largest_of(both, linked, STRATUM, draws=200, seed=0)
    one = np.concatenate(list(exchanged(both, linked, STRATUM, draws=200, seed=0)))
    np.testing.assert_allclose(null, one.max(axis=1))
    assert p_against(np.array([10.0, -10.0]), null).tolist() == [1 / 201, 1.0]


def test_draws_that_give_the_very_same_links_count_as_large() -> None:
    """Three strata of one link and one unlinked pair: one draw in eight changes nothing."""
    linked, stratum = np.tile([True, False], 3), np.repeat(np.arange(3), 2)
    for seed in range(40):
        values = np.random.default_rng(seed).uniform(0, 0.3, (6, 1)).astype(np.float32)
        values[linked] += 0.5
        observed = label_weights(linked, stratum) @ values.astype(np.float64)
        null = largest_of(values, linked, stratum, draws=199, seed=seed)
        assert p_against(observed, null)[0] > 0.05


# Links


def _link(relation: str, stratum: tuple[int, ...], unit: int = 0) -> Link:
    return Link(0, unit, (1, 2), (3, 4), relation, stratum)


def test_strata_without_an_unlinked_pair_are_left_out_and_many_are_drawn() -> None:
    found = [_link("obj", (0, 2)), _link("obj", (0, 3)), _link("?", (0, 3))]
    found += [_link(UNLINKED, (0, 3)) for _ in range(9)] + [_link(UNLINKED, (0, 4))]
    links = links_of([("a", "b")], 1, found, relations=["obj"], most=2, seed=0)
    assert links.counts == {"obj": 1} and links.unmatched == {"obj": 1}
    assert len(links) == 3 and links.of("obj").tolist() == [0, 1, 2]


def _sentence(heads: list[int], labels: list[str] | None = None, form: str = "") -> Sentence:
    forms = form or "天地玄黄宇宙洪荒日月"[: len(heads)]
    names = labels or ["dep"] * len(heads)
    return Sentence("x", tuple(map(Word, forms, ["NOUN"] * len(heads), heads, names)))


def test_words_of_a_distance_and_length_are_compared(checkpoint_of: Callable[..., Path]) -> None:
    tokenizer = Scorer(open_checkpoint(checkpoint_of())).tokenizer
    one = _sentence([2, 0, -1, 0, 2], ["obj", "dep", "root", "obj", "nsubj"])
    other = _sentence([-1, 0, 1], form="北京北")
    read = read_sentences(tokenizer, [one, other], None, 0)
    assert len(read) == 2 and read.left_out == 0
    assert enough([read, read], least=1) == ("obj", "nsubj")
    assert enough([read, read], least=2) == ("obj",)
    # Distance 4 has but one pair of words: a link that nothing can be compared with.
    far = _sentence([4, 0, 1, 2, -1], ["nsubj", "dep", "dep", "dep", "root"])
    assert enough([read_sentences(tokenizer, [far], None, 0)], least=1) == ()
    links = sentence_links(read, ["obj", "nsubj"], most=9, seed=0)
    # Distance 2: 0-2 obj, 2-4 nsubj, 1-3 free; distance 3: 0-3 obj (3 depends on 0), 1-4 free.
    assert links.counts == {"obj": 2, "nsubj": 1} and len(links) == 5
    side = read.where[read.sentences.index(one)][1]
    begin = 1 if side == 0 else 1 + 3 + 1
    first = {tuple(row) for row in np.hstack([links.first, links.second])[links.linked].tolist()}
    spans = [(begin + place, begin + place + 1) for place in range(5)]
    assert first == {spans[0] + spans[2], spans[4] + spans[2], spans[3] + spans[0]}


def test_sentences_that_do_not_fit_and_punctuation_take_no_part(
    checkpoint_of: Callable[..., Path],
) -> None:
    tokenizer = Scorer(open_checkpoint(checkpoint_of())).tokenizer
    long = _sentence([-1, *[0] * 69], form="北京" * 35)
    short = _sentence([-1, 0, 0, 0], form="我，在家")
    read = read_sentences(tokenizer, [long, short], None, 0)
    assert [one.text for one in read.sentences] == ["我，在家"] and read.left_out == 1
    assert [word is None for word in read.words[0]] == [False, True, False, False]
    alone = read_sentences(tokenizer, [short], None, 0)
    assert len(alone) == 1 and alone.pairs == [("我，在家", "我，在家")]


def test_a_half_without_sentences_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.conllu"
    path.write_text("1\t走\t_\tVERB\t_\t_\t0\troot\t_\t_\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="half of the sentences is empty"):
        sentences_of([path])


def test_aligned_spans_beside_spans_as_long(
    checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    query, title = "北京小哥手机", "上海假期苹果"
    # The third begins inside a word, and would be compared with spans that do not.
    known = {(query, title): (Aligned(0, 2, 0, 2), Aligned(2, 4, 2, 4), Aligned(3, 5, 4, 6))}
    monkeypatch.setattr(aligned, "alignments", lambda: known)
    pairs = [
        Pair(query, title, None, "1", 1, None, {}),
        Pair("北京", "上海", None, "2", 2, None, {}),
    ]
    words = SpanSegmenter("twos", lambda text: [(at, at + 2) for at in range(0, len(text), 2)])
    tokenizer = Scorer(open_checkpoint(checkpoint_of())).tokenizer
    links = aligned_links(tokenizer, pairs, words, most=9, seed=0)
    assert links.pairs == [(query, title)] and links.counts == {ALIGNED: 2}
    assert len(links) == 3 * 3 - 2  # every span with every span but those that meet the third
    found = np.hstack([links.first, links.second])[links.linked].tolist()
    assert found == [[1, 3, 8, 10], [3, 5, 10, 12]]


# Weights


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_the_largest_weight_between_two_spans(
    checkpoint_of: Callable[..., Path], family: str
) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of(family)))
    texts = [("北京小哥", "上海"), ("苹果手机多少钱", "上海假期电影")]
    found = [
        Link(0, 0, (1, 3), (3, 5), "r", (0,)),
        Link(0, 0, (2, 3), (5, 6), UNLINKED, (0,)),
        Link(1, 1, (1, 2), (4, 7), "r", (1,)),
        Link(1, 1, (2, 5), (3, 4), UNLINKED, (1,)),
    ]
    links = links_of(texts, 2, found, relations=["r"], most=9, seed=0)
    heads = [Head(1, 0), Head(0, 1)]
    weights = link_weights(scorer, links, heads)
    (batch,) = scorer.fresh().batches(texts, 1000)
    maps = maps_of(scorer.encoder, batch).numpy()
    for number in range(len(links)):
        row = batch.rows.tolist().index(links.pair[number])
        looking, looked_at = slice(*links.first[number]), slice(*links.second[number])
        for column, head in enumerate(heads):
            one = maps[row, head.layer, head.head]
            up, down = one[looking, looked_at].max(), one[looked_at, looking].max()
            assert weights.up[number, column] == pytest.approx(up, abs=1e-6)
            assert weights.down[number, column] == pytest.approx(down, abs=1e-6)
            assert weights.either[number, column] == pytest.approx(max(up, down), abs=1e-6)
    assert ((weights.own > 0) & (weights.own < 1)).all()


# Heads


def _made(units: int, planted: int, seed: int = 0) -> tuple[Links, Weights]:
    """A link and two unlinked pairs a unit; head `planted` gives links 0.3 more."""
    rng = np.random.default_rng(seed)
    found = [
        Link(unit, unit, (1, 2), (3, 4), relation, (unit,))
        for unit in range(units)
        for relation in ("obj", UNLINKED, UNLINKED)
    ]
    links = links_of([("a", "b")] * units, units, found, relations=["obj"], most=2, seed=0)
    up = rng.uniform(0, 0.3, (len(links), 6)).astype(np.float32)
    if planted >= 0:
        up[links.linked, planted] += 0.3
    heads = [Head(0, number) for number in range(6)]
    return links, Weights(heads, up, up / 2, np.ones(6))


def test_planted_arcs_are_found_with_their_head() -> None:
    made = _made(60, planted=4)
    scores = scores_of(list(made[1].heads), [made], draws=999)
    assert scores.named == {"obj": Head(0, 4)} and scores.passing == {"obj": 1}
    one = scores.excesses["obj"]
    assert one.value[4] == pytest.approx(0.3, abs=0.05) and one.p[4] == 1 / 1000
    assert (np.delete(one.p, 4) > 0.05).all() and one.upward[4] > 0


def test_permuted_labels_give_nothing() -> None:
    made = _made(60, planted=-1)
    scores = scores_of(list(made[1].heads), [made], draws=999)
    assert scores.named == {} and scores.excesses["obj"].p.min() > 0.05


def test_a_unit_adds_up_to_the_whole_and_one_head_is_tested_alone() -> None:
    links, weights = _made(30, planted=2)
    one = excess_of(links, weights, "obj", draws=99, column=2)
    np.testing.assert_allclose(one.sums.sum(0) / one.counts.sum(), one.value, atol=1e-6)
    assert one.n == 30 and np.isfinite(one.p).tolist() == [False, False, True, False, False, False]
    values = weights.either.astype(float)
    # Every unit is one stratum with a link and two unlinked pairs.
    by_hand = values[links.linked, 2].mean() - values[~links.linked, 2].mean()
    assert one.value[2] == pytest.approx(by_hand, abs=1e-6)


# Tree


def test_five_words_attached_by_hand() -> None:
    points = np.zeros((5, 5))
    for word, head in enumerate([1, 2, 4, 2, 3]):
        points[word, head] = 1.0
    points[1, 1] = 9.0  # a word is not its own head
    said = attach(points)
    assert said.tolist() == [1, 2, 4, 2, 3]
    assert rightly(said, [1, 2, -1, 2, 2]) == 3  # the root is not asked about, and 4 is wrong


def test_the_tree_of_a_sentence_beside_its_chains(checkpoint_of: Callable[..., Path]) -> None:
    tokenizer = Scorer(open_checkpoint(checkpoint_of())).tokenizer
    read = read_sentences(tokenizer, [_sentence([1, 2, -1, 2, 2])], None, 0)
    pairs = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    up = np.zeros((len(pairs), 2), np.float32)
    down = np.zeros_like(up)
    # Head 0 looks from words to heads: 0 → 1, 3 → 2. Head 1 from a head to its dependents: 2 → 1, 4.
    up[pairs.index((0, 1)), 0] = down[pairs.index((2, 3)), 0] = 0.5
    down[pairs.index((1, 2)), 1] = up[pairs.index((2, 4)), 1] = 0.1
    heads = [Head(0, 0), Head(1, 1)]
    pointers = [Pointer(heads[0], True, 0.5), Pointer(heads[1], False, 0.1)]
    tree = tree_of(read, Weights(heads, up, down, np.ones(2)), pointers, resamples=20, seed=0)
    assert tree.words.tolist() == [4]
    assert tree.score(HEADS) == 1.0
    assert tree.score(RIGHT) == 1 / 4 and tree.score(LEFT) == 2 / 4
    assert set(tree.samples(HEADS)) == {1.0}


# Heads left out


def test_one_loss_refutes_the_claim_and_all_must_bear_it_out() -> None:
    def left_out(*ends: tuple[float, float]) -> LeftOut:
        losses = [Loss(Head(0, n), sum(e) / 2, e, (e[0] - 1, e[1] + 1)) for n, e in enumerate(ends)]
        return LeftOut(tuple(losses), "accuracy", [], 10)

    assert left_out((-1.0, 0.5), (-0.5, 1.5)).of_all(2.0) == (-1.0, 1.5)
    assert left_out((-9.0, -5.0), (-0.5, 1.5)).of_all(2.0) == (-10.0, -4.0)
    assert left_out((-9.0, -2.5), (-0.5, 1.5)).of_all(2.0) == (-9.0, 1.5)
