"""Patching: corrupted pairs, shares by hand, identities, a planted chain of two heads, odd models."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from qt_bert.data.segmenters import segmenter
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes import patch
from qt_bert.probes.base import Context
from qt_bert.results.kept import KeptLayer
from qt_bert.stats.estimate import over_queries
from tests.conftest import edited, pair_of, sentencepiece, wordpiece, write_pairs
from tests.probes import planted_focus as planted
from tests.probes.pieces import byte_level
from tests.probes.probe_results import claim, result_of, values

Build = Callable[..., Context]
JIEBA = segmenter("jieba")
QUERIES = ["北京电影", "苹果手机", "上海高铁", "红烧排骨", "衣服油渍"]
CHAIN = f"{planted.MATCHER} L1H0 {planted.READER}"
"""Both planted heads and one that does nothing: there are 27 other sets of one head in each layer."""


# Corrupted pairs.


@pytest.fixture(scope="module")
def backend(tmp_path_factory) -> AutoTokenizer:
    folder = tmp_path_factory.mktemp("wordpiece")
    wordpiece(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizer(backend) -> PairTokenizer:
    return PairTokenizer(backend, 64)


def encoded(tokenizer: PairTokenizer, query: str, title: str) -> EncodedPair:
    (one,) = tokenizer.encode([(query, title)])
    return one


def words(tokenizer: PairTokenizer, query: str, title: str, special: set[int] = frozenset()):
    one = encoded(tokenizer, query, title)
    return [term.word for term in patch.usable_terms(one, query, title, JIEBA, special)]


def corruption(tokenizer: PairTokenizer, seed: int = 0, **counts: int) -> patch.Corruption:
    special = frozenset(range(5))
    pool = patch.ReplacementWords(tokenizer, JIEBA, QUERIES, special)
    return patch.Corruption(tokenizer, JIEBA, Counter(counts), pool, special, seed)


def corrupted(made: patch.Corruption, query: str, title: str) -> patch.CorruptedPair:
    (one,), _ = made.corrupt([pair_of(query, title)])
    return one


def test_a_term_has_its_tokens_wherever_it_stands(tokenizer):
    # [CLS] 苹 果 多 少 钱 [SEP] 北 京 苹 果 和 苹 果 [SEP]
    query, title = "苹果多少钱", "北京苹果和苹果"
    one = encoded(tokenizer, query, title)
    (term,) = patch.usable_terms(one, query, title, JIEBA, set())
    assert (term.word, term.length, term.title) == ("苹果", 2, (9, 10, 12, 13))
    assert patch.occurrences("苹果手机苹果汁", [(0, 2)]) == [(0, 2), (4, 6)]
    assert patch.occurrences("Apple apples", [(0, 5)]) == [(0, 5), (6, 11)]
    assert patch.occurrences("a.b axb", [(0, 3)]) == [(0, 3)]


def test_words_that_are_no_terms(tokenizer, backend):
    assert words(tokenizer, "北京电影", "上海高铁") == []
    assert words(tokenizer, "去北京", "去上海") == []  # a single character of a longer query
    assert words(tokenizer, "吃", "能吃") == ["吃"]
    # 鹦鹉 is not in the vocabulary: what is unknown may be anything, and is not matched.
    unknown = {int(backend.unk_token_id)}
    assert words(tokenizer, "鹦鹉北京", "北京鹦鹉") == ["鹦鹉", "北京"]
    assert words(tokenizer, "鹦鹉北京", "北京鹦鹉", unknown) == ["北京"]
    short = PairTokenizer(backend, 8)  # [CLS] 北 京 [SEP] 电 影 北 [SEP]
    assert words(short, "北京", "电影北京") == []


def test_only_whole_tokens_spell_a_term(tokenizer, tmp_path):
    # WordPiece parts the word into a ##b ##c: `ab` ends within it, but where a token ends.
    one = encoded(tokenizer, "abc", "北京")
    assert patch.whole_tokens(one, QUERY, (0, 2)) == (1, 2)
    assert patch.whole_tokens(one, QUERY, (0, 4)) == ()
    assert patch.whole_tokens(one, TITLE, (0, 1)) == (5,)
    sentencepiece(tmp_path)
    other = PairTokenizer(AutoTokenizer.from_pretrained(tmp_path), 64)
    # <s> ▁ 北 京 </s> </s> ▁ 北 京 电 影 </s>: the mark of a word's start stays
    marked = encoded(other, "北京", "北京电影")
    (term,) = patch.usable_terms(marked, "北京", "北京电影", JIEBA, set())
    assert term.title == (7, 8)


def test_tokens_that_reach_over_a_term_do_not_spell_it():
    """站|到 share a token, and both tokens of the cut 驿 spell it."""
    other = PairTokenizer(byte_level(("站到", 6), ("驿", 2)), 64)
    one = encoded(other, "驿站", "驿站到")
    # [CLS] 驿 驿 站 [SEP] 驿 驿 站到 [SEP]
    assert patch.whole_tokens(one, QUERY, (0, 2)) == (1, 2, 3)
    assert patch.whole_tokens(one, TITLE, (0, 1)) == (5, 6)
    assert patch.whole_tokens(one, TITLE, (0, 2)) == ()


def test_the_token_that_is_read_is_not_replaced(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of("qwen3"))
    causal = checkpoint.pair_tokenizer()
    assert words(causal, "票价", "票价查") == ["票价"]
    assert words(causal, "票价", "查票价") == []  # the title's last token is read
    bert = open_checkpoint(checkpoint_of()).pair_tokenizer()
    assert words(bert, "票价", "查票价") == ["票价"]


def test_replacements_share_no_token_and_are_as_long(tokenizer):
    pool = patch.ReplacementWords(tokenizer, JIEBA, ["北京电影", "京东手机", "苹果"], set())
    ids = {word: tuple(encoded(tokenizer, word, "").input_ids[1:3]) for word in ("苹果", "手机")}
    rng = np.random.default_rng(0)
    taken = set(encoded(tokenizer, "北京电影", "东").input_ids)
    drawn = {pool.draw(2, taken, ("北京电影", "东"), rng) for _ in range(40)}
    assert drawn == set(ids.values())
    assert pool.draw(2, taken | set(ids["苹果"]), ("",), rng) == ids["手机"]
    assert pool.draw(2, set(), ("苹果手机北京电影京东",), rng) is None
    assert pool.draw(3, set(), ("",), rng) is None
    without = patch.ReplacementWords(tokenizer, JIEBA, ["苹果"], set(ids["苹果"]))
    assert without.draw(2, set(), (), rng) is None


def test_the_term_is_replaced_everywhere_in_the_title(tokenizer):
    before = encoded(tokenizer, "苹果多少钱", "北京苹果和苹果")
    found = corrupted(corruption(tokenizer), "苹果多少钱", "北京苹果和苹果")
    clean, changed = np.array(found.clean.input_ids), np.array(found.corrupted.input_ids)
    assert np.flatnonzero(clean != changed).tolist() == [9, 10, 12, 13]
    assert changed[9:11].tolist() == changed[12:14].tolist()
    assert not set(changed[[9, 10]]) & set(clean) and len(clean) == len(changed)
    assert found.corrupted.token_type_ids == found.clean.token_type_ids
    assert encoded(tokenizer, "苹果多少钱", "北京苹果和苹果") == before


def test_the_rarest_term_is_replaced(tokenizer):
    texts = "北京电影", "电影北京"
    assert corrupted(corruption(tokenizer, 北京=3, 电影=2), *texts).word == "电影"
    assert corrupted(corruption(tokenizer, 北京=1, 电影=2), *texts).word == "北京"
    assert corrupted(corruption(tokenizer), *texts).word == "北京"  # both unseen: the query's first
    counted = [pair_of("北京电影", title) for title in ("北京北京", "Apple", "北京电影")]
    found = patch.document_frequency(counted, JIEBA)
    assert (found["北京"], found["电影"], found["apple"], found["上海"]) == (2, 1, 1, 0)


def test_a_seed_and_a_pair_fix_the_draw(tokenizer):
    texts = "北京天气", "北京电影"
    alone = corrupted(corruption(tokenizer), *texts).corrupted.input_ids
    every = "苹果手机上海高铁红烧排骨衣服油渍北京电影"
    listed = [
        pair_of("苹果手机", "苹果"),
        pair_of("北京", "上海"),
        pair_of("北京", every),
        pair_of(*texts),
    ]
    among, missing = corruption(tokenizer).corrupt(listed)
    assert [one.pair for one in among] == [listed[0], listed[3]]
    assert missing == {"no_shared_term": 1, "no_replacement": 1}
    assert among[1].corrupted.input_ids == alone
    others = {
        tuple(corrupted(corruption(tokenizer, seed), *texts).corrupted.input_ids)
        for seed in range(30)
    }
    assert len(others) > 1


# Shares.


def test_a_share_is_a_ratio_of_sums_over_queries():
    # The mean of the ratios 0.5, 0.5 and 40 would be 13.7: one pair without a gap would own it.
    queries = ["a", "b", "c"]
    gap = over_queries([2.0, 1.99, 0.01], queries)
    moved = np.array([[1.0, 0.995, 0.4], [2.0, 1.99, 0.01], [0.0, 0.0, 0.0]])
    shares = patch.shares_of(moved, gap, queries)
    assert [one.value for one in shares] == pytest.approx([2.395 / 4, 1, 0])
    # Without a: 1.395 / 2, so that a's pseudo-value is 3 × 2.395/4 − 2 × 1.395/2.
    assert shares[0].values[0] == pytest.approx(3 * 2.395 / 4 - 1.395)
    np.testing.assert_allclose(shares[1].values, 1)


# The probe on planted heads.


@pytest.fixture
def context(context_of, more_pairs) -> Build:
    """A context around a model folder; the eight pairs, and to choose on their copies, unless others are given."""

    def build(model, **changes):
        return context_of(model, **{"discovery": more_pairs, "heads": "L0H0"} | changes)

    return build


@pytest.fixture(scope="module")
def planted_model(tmp_path_factory) -> Path:
    return planted.plant(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def planted_context(context, planted_model, tmp_path) -> Build:
    def build(model=planted_model, **changes):
        files = {}
        for seed, half in ((1, "pairs"), (2, "discovery")):
            rows = [(pair.query, pair.title, pair.label) for pair in planted.pairs(60, seed)]
            files[half] = write_pairs(tmp_path / f"{seed}.tsv", rows)
        return context(model, **files | {"heads": CHAIN} | changes)

    return build


def test_two_heads_carry_the_match_and_no_other(planted_context):
    made = planted_context()
    result = result_of("patch", made)
    restored = {one.head: one.scores["restoring"] for one in result.heads}
    assert restored.pop(planted.MATCHER) == pytest.approx(1, abs=0.02)
    assert restored.pop(planted.READER) == pytest.approx(1, abs=0.02)
    assert list(restored.values()) == pytest.approx([0] * 14, abs=0.02)
    judged = claim(result)
    assert judged.verdict == "reproduced" and judged.p == pytest.approx(1 / 28)
    assert judged.value == pytest.approx(1, abs=0.02) and judged.margin == 0.1
    found = values(result)
    gap = found.pop("gap")
    assert gap is not None and gap > 1
    assert found == pytest.approx(
        {"restored": 1, "restored_matched": 0, "best_alone": 1, "noised": 1}, abs=0.02
    )
    checked = made.guards["patch"]
    assert max(checked["identities"].values()) <= checked["bound"]


def test_a_score_that_falls_with_the_match_has_no_gap(planted_context, planted_model, tmp_path):
    with edited(planted_model, tmp_path / "reversed") as model:
        model.classifier.weight[4, 0] *= -1
    result = result_of("patch", planted_context(tmp_path / "reversed"))
    assert (claim(result).verdict, claim(result).reason) == ("not testable", "precondition:gap")
    assert list(values(result)) == ["gap"] and result.figures == () and result.heads == ()


# Any model, any pairs.


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_identities_hold_for_every_family(context, checkpoint_of, family):
    made = context(checkpoint_of(family, layers=3))
    pairs, _ = patch.Corruption.of(made).corrupt(made.validation)
    assert len(pairs) > 3
    shape, scorer = made.model.checkpoint.shape, made.model
    texts = [text for one in pairs for text in (one.clean, one.corrupted)]
    found = patch.identities(scorer.encoder, shape, texts, scorer.pad)
    assert len(found) == 2 and max(found.values()) < 1e-5
    # The same through the runs of the probe: all heads make a corrupted score the clean one.
    every = patch.Variant("all", (patch.z_patch(shape.all_heads),))
    clean, broken = patch.patched_scores(made, pairs, [every], noising=True)
    unpatched, restored = patch.patched_scores(made, pairs, [every])
    assert restored == pytest.approx(clean, abs=1e-4)
    assert broken == pytest.approx(unpatched, abs=1e-4)
    assert np.abs(clean - unpatched).max() > 1e-3


def test_a_broken_identity_stops_the_run(context, checkpoint_of, monkeypatch):
    monkeypatch.setattr(patch, "identities", lambda *_: {"a run patched with itself": 0.5})
    with pytest.raises(
        EquivalenceError, match=r"a run patched with itself: the logits are off by 0\.5"
    ):
        result_of("patch", context(checkpoint_of()))


def test_pruned_heads_take_no_part(planted_context, planted_model, tmp_path):
    kept = tuple(KeptLayer(layer=n, heads=h) for n, h in enumerate([(1, 2), (), (1,), (0,)]))
    whole = open_checkpoint(planted_model)
    folder = save_smaller(tmp_path / "small", smaller_checkpoint(whole, kept))
    result = result_of(
        "patch", planted_context(folder, heads=f"{planted.MATCHER} {planted.READER}")
    )
    assert {one.head for one in result.heads} == {"L0H1", "L0H2", "L2H1", "L3H0"}
    assert values(result)["restored"] == pytest.approx(1, abs=0.02)
    assert claim(result).reason == "few_sets"  # the reader is alone in its layer
    with pytest.raises(ArgumentError, match="pruned"):
        result_of("patch", planted_context(folder, heads="L1H0"))
