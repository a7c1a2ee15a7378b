"""The probe of links: planted arcs, what it does without, odd models; its parts by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qt_bert.data.segmenters import Segmenter
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.data.treebank import Sentence, Word
from qt_bert.errors import PairFileError
from qt_bert.heads import Head
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes import relations_links
from qt_bert.probes.relations import (
    ARCS,
    BEST,
    HEADS,
    OFFSET,
    RIGHT,
    WORDS,
    Pointer,
    attachments,
    excess_of,
    named_heads,
    pointers_of,
    word_pairs,
)
from qt_bert.probes.relations_links import (
    ALIGNED,
    UNLINKED,
    Aligned,
    Link,
    Links,
    SpanAttention,
    aligned_links,
    frequent_relations,
    links_of,
    read_sentences,
    sentence_links,
    sentences_of,
    span_attention,
)
from qt_bert.probes.tuning_maps import maps_of
from qt_bert.scoring.bulk import Scorer
from tests.conftest import pair_of
from tests.probes.planted_relations import PLANTED, plant_links, write_treebank
from tests.probes.probe_results import measured, result_of


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    return plant_links(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> Path:
    return write_treebank(tmp_path_factory.mktemp("bank") / "bank.conllu", 240)


@pytest.fixture
def tokenizer(checkpoint_of) -> PairTokenizer:
    return Scorer(open_checkpoint(checkpoint_of())).tokenizer


def test_planted_arcs_are_found_and_chance_ones_are_not(context_of, planted, treebank):
    result = result_of("relations", context_of(planted, treebank=[treebank], base=planted))
    assert result.sets == {"relations": (str(PLANTED),), "relations_words": (str(PLANTED),)}
    assert [one.head for one in result.heads if one.selected] == [str(PLANTED)]
    scores = next(one.scores for one in result.heads if one.head == str(PLANTED))
    times, obj, nmod = (scores[name] or 0.0 for name in ("times_obj", "q_obj", "q_nmod"))
    assert times > 3 and obj < 0.05 < nmod
    found: Any = measured(result)
    words = found["relations_words"]
    assert words.ci_low is not None and words.ci_low > 0
    # The chain has all words right but two of seven; the heads hardly more than the partners.
    assert -72 < found["relations_tree_right"].value < -40
    # The head predicts the arcs of obj; the usual offset is right for both one time in six.
    by_head, by_offset = (found[f"relations_arcs_{way}"].value for way in ("best_head", "offset"))
    assert by_head > 2 * by_offset
    assert found["relations_left_out"].n_queries > 0
    assert result.facts["looked_at"] == "base" and result.facts["costliest"] == str(PLANTED)
    assert {one.name for one in result.figures} == {"relations_best", "relations_heads"}


def test_a_broken_treebank_and_an_empty_half_are_errors(context_of, checkpoint_of, tmp_path):
    path = tmp_path / "broken.conllu"
    path.write_text("1\t走\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="line 1: 2 columns"):
        result_of("relations", context_of(checkpoint_of(), treebank=[path]))
    path.write_text("1\t走\t_\tVERB\t_\t_\t0\troot\t_\t_\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="half of the sentences is empty"):
        sentences_of([path])


# Links by hand


def _link(relation: str, stratum: tuple[int, ...]) -> Link:
    return Link(0, 0, (1, 2), (3, 4), relation, stratum)


def test_strata_without_an_unlinked_pair_are_left_out_and_many_are_drawn():
    found = [_link("obj", (0, 2)), _link("obj", (0, 3)), _link("?", (0, 3))]
    found += [_link(UNLINKED, (0, 3)) for _ in range(9)] + [_link(UNLINKED, (0, 4))]
    links = links_of([("a", "b")], 1, found, relations=["obj"], most=2, seed=0)
    assert links.counts == {"obj": 1}
    assert len(links) == 3 and links.of("obj").tolist() == [0, 1, 2]


def _sentence(heads: list[int], labels: list[str] | None = None, form: str = "") -> Sentence:
    forms = form or "天地玄黄宇宙洪荒日月"[: len(heads)]
    names = labels or ["dep"] * len(heads)
    return Sentence("x", tuple(map(Word, forms, ["NOUN"] * len(heads), heads, names)))


def test_words_of_a_distance_and_length_are_compared(tokenizer, monkeypatch):
    one = _sentence([2, 0, -1, 0, 2], ["obj", "dep", "root", "obj", "nsubj"])
    other = _sentence([-1, 0, 1], form="北京北")
    read = read_sentences(tokenizer, [one, other], 99, 0)
    assert len(read) == 2
    monkeypatch.setattr(relations_links, "LEAST_LINKS", 2)
    assert frequent_relations([read, read]) == ("obj",)
    monkeypatch.setattr(relations_links, "LEAST_LINKS", 1)
    assert frequent_relations([read, read]) == ("obj", "nsubj")
    # Distance 4 has but one pair of words: a link that nothing can be compared with.
    far = _sentence([4, 0, 1, 2, -1], ["nsubj", "dep", "dep", "dep", "root"])
    assert frequent_relations([read_sentences(tokenizer, [far], 99, 0)]) == ()
    links = sentence_links(read, ["obj", "nsubj"], most=9, seed=0)
    # Distance 2: 0-2 obj, 2-4 nsubj, 1-3 free; distance 3: 0-3 obj (3 depends on 0), 1-4 free.
    assert links.counts == {"obj": 2, "nsubj": 1} and len(links) == 5
    side = read.where[read.sentences.index(one)][1]
    begin = 1 if side == 0 else 1 + 3 + 1
    first = {tuple(row) for row in np.hstack([links.first, links.second])[links.linked].tolist()}
    spans = [(begin + place, begin + place + 1) for place in range(5)]
    assert first == {spans[0] + spans[2], spans[4] + spans[2], spans[3] + spans[0]}


def test_sentences_that_do_not_fit_and_punctuation_take_no_part(tokenizer):
    long = _sentence([-1, *[0] * 69], form="北京" * 35)
    short = _sentence([-1, 0, 0, 0], form="我，在家")
    read = read_sentences(tokenizer, [long, short], 99, 0)
    assert [one.text for one in read.sentences] == ["我，在家"]
    assert [word is None for word in read.words[0]] == [False, True, False, False]
    alone = read_sentences(tokenizer, [short], 99, 0)
    assert len(alone) == 1 and alone.pairs == [("我，在家", "我，在家")]


TEXTS = "北京小哥手机", "上海假期苹果"
TWOS = Segmenter("twos", lambda text: [(at, at + 2) for at in range(0, len(text), 2)])


def test_aligned_spans_beside_spans_as_long(tokenizer, monkeypatch):
    # The third begins inside a word, and would be compared with spans that do not.
    known = {TEXTS: (Aligned(0, 2, 0, 2), Aligned(2, 4, 2, 4), Aligned(3, 5, 4, 6))}
    monkeypatch.setattr(relations_links, "alignments", lambda: known)
    pairs = [pair_of(*TEXTS), pair_of("北京", "上海")]
    links = aligned_links(tokenizer, pairs, TWOS, most=9, seed=0)
    assert links.pairs == [TEXTS] and links.counts == {ALIGNED: 2}
    assert len(links) == 3 * 3 - 2  # every span with every span but those that meet the third
    found = np.hstack([links.first, links.second])[links.linked].tolist()
    assert found == [[1, 3, 8, 10], [3, 5, 10, 12]]


def test_a_token_of_two_linked_spans_is_no_unlinked_one(tokenizer, monkeypatch):
    known = {TEXTS: (Aligned(0, 2, 0, 2), Aligned(2, 4, 2, 4))}
    monkeypatch.setattr(relations_links, "alignments", lambda: known)
    encode, pairs = tokenizer.encode, [pair_of(*TEXTS)]
    assert len(aligned_links(tokenizer, pairs, TWOS, most=9, seed=0)) == 9

    def over_an_edge(texts, **options):
        (one,) = encode(texts, **options)
        one.spans[3] = (1, 3)  # of both linked spans of the query
        return [one]

    monkeypatch.setattr(tokenizer, "encode", over_an_edge)
    assert len(aligned_links(tokenizer, pairs, TWOS, most=9, seed=0)) == 9 - 2


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_the_largest_weight_between_two_spans(checkpoint_of, family):
    scorer = Scorer(open_checkpoint(checkpoint_of(family)))
    texts = [("北京小哥", "上海"), ("苹果手机多少钱", "上海假期电影")]
    pair = np.array([0, 0, 1, 1])
    first = np.array([(1, 3), (2, 3), (1, 2), (2, 5)])
    second = np.array([(3, 5), (5, 6), (4, 7), (3, 4)])
    heads = [Head(1, 0), Head(0, 1)]
    seen = span_attention(scorer, texts, (pair, first, second), heads)
    (batch,) = scorer.fresh().batches(texts, 1000)
    maps = maps_of(scorer.encoder, batch).numpy()
    for number in range(4):
        row = batch.rows.tolist().index(pair[number])
        looking, looked_at = slice(*first[number]), slice(*second[number])
        of_heads = [maps[row, head.layer, head.head] for head in heads]
        up = np.array([one[looking, looked_at].max() for one in of_heads])
        down = np.array([one[looked_at, looking].max() for one in of_heads])
        assert seen.up[number] == pytest.approx(up, abs=1e-6)
        assert seen.down[number] == pytest.approx(down, abs=1e-6)
        assert seen.either[number] == pytest.approx(np.maximum(up, down), abs=1e-6)
    assert ((seen.on_text > 0) & (seen.on_text < 1)).all()


def test_in_a_causal_model_the_later_span_attends(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of("qwen3")))
    (encoded,) = scorer.tokenizer.encode([("xz", "qx")])
    spans = np.array([0, 0]), np.array([(0, 1), (2, 3)]), np.array([(2, 4), (1, 2)])
    seen = span_attention(scorer, [("xz", "qx")], spans, [Head(0, 0)])
    ids = torch.tensor([encoded.input_ids])
    with torch.inference_mode():
        one = scorer.checkpoint.model(input_ids=ids, output_attentions=True).attentions[0][0, 0]
    want = [one[2:4, 0].max().item(), one[2, 1].item()]
    assert seen.up[:, 0] == pytest.approx(want, abs=1e-6)
    assert seen.down[:, 0] == pytest.approx(want, abs=1e-6)


# Heads by hand


def _made(units: int, planted: int, seed: int = 0) -> tuple[Links, SpanAttention]:
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
    return links, SpanAttention(heads, up, np.float32(0.5) * up, np.ones(6))


def test_a_planted_head_is_named_and_its_excess_is_that_by_hand():
    links, seen = _made(60, planted=4)
    one = excess_of(links, seen, "obj")
    named, q = named_heads({"obj": one}, seen.on_text, seen.heads)
    assert named == {"obj": Head(0, 4)} and (np.delete(q["obj"], 4) > 0.05).all()
    # Every unit is one stratum with a link and two unlinked pairs.
    values = seen.either.astype(float)
    by_hand = values[links.linked].mean(0) - values[~links.linked].mean(0)
    np.testing.assert_allclose(one.value, by_hand, atol=1e-6)
    np.testing.assert_allclose(one.sums.sum(0) / one.counts.sum(), by_hand, atol=1e-6)
    assert one.counts.sum() == 60 and one.upward[4] > 0


# The tree by hand


def test_the_tree_of_a_sentence_beside_its_chain(tokenizer):
    labels = ["obj", "nmod", "root", "obj", "nmod"]
    read = read_sentences(tokenizer, [_sentence([1, 2, -1, 2, 2], labels)], 99, 0)
    pairs = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    assert len(word_pairs(read)[0]) == len(pairs)
    up = np.zeros((len(pairs), 2), np.float32)
    down = np.zeros_like(up)
    # Head 0 attends from words to heads: 0 → 1, 3 → 2. Head 1 from a head to its dependents: 2 → 1, 4.
    up[pairs.index((0, 1)), 0] = down[pairs.index((2, 3)), 0] = 0.5
    down[pairs.index((1, 2)), 1] = up[pairs.index((2, 4)), 1] = 0.1
    heads = [Head(0, 0), Head(1, 1)]
    pointers = {"obj": Pointer(heads[0], True, 0.5, 1), "nmod": Pointer(heads[1], False, 0.1, -2)}
    found = attachments(read, SpanAttention(heads, up, down, np.ones(2)), pointers)
    counted = {name: one.tolist() for name, one in found.items()}
    assert counted == {WORDS: [4], HEADS: [4], RIGHT: [1], ARCS: [4], BEST: [4], OFFSET: [2]}


def test_the_usual_offset_is_that_of_most_arcs(tokenizer):
    labels = ["obj", "obj", "root", "obj", "obj"]
    read = read_sentences(tokenizer, [_sentence([1, 2, -1, 2, 2], labels)], 99, 0)
    links, seen = _made(8, planted=3)
    pointers = pointers_of({"obj": excess_of(links, seen, "obj")}, seen.heads, read)
    assert pointers["obj"].head == Head(0, 3) and pointers["obj"].upward
    assert pointers["obj"].offset == 1  # of +1, +1, −1 and −2
