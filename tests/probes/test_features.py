"""Attention to kinds: planted heads, a base, a treebank, odd models and inputs; numbers by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import jieba_tagger
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.data.treebank import Sentence, Word
from qt_bert.errors import PairFileError
from qt_bert.figures import Bars
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.features import (
    KINDS,
    MEASURES,
    PLACE,
    KindAttention,
    Labelled,
    LabelledPair,
    added_by_tuning,
    by_tags,
    by_treebank,
    kind_attention,
    named,
    of_tokens,
    rival_of,
    stability_by_lift,
    trends,
)
from qt_bert.results.probe import Measurement
from tests.conftest import pair_of
from tests.probes.made_context import context_of
from tests.probes.planted_kinds import (
    LAST_SEP,
    NOUN_HEAD,
    SEP_HEAD,
    SHAPE,
    opened,
    plant,
    plant_kinds,
    read,
    tag_dogs,
)
from tests.probes.planted_relations import conllu
from tests.probes.probe_results import measured, result_of

WORDS = ("北京", "上海", "高铁", "票价", "手机", "苹果", "电影", "假期", "排骨", "衣服")


@pytest.fixture(scope="module")
def planted(checkpoint_of, tmp_path_factory) -> Path:
    return plant_kinds(checkpoint_of(**SHAPE), tmp_path_factory.mktemp("planted") / "kinds")


@pytest.fixture(scope="module")
def even(checkpoint_of, tmp_path_factory) -> Path:
    return plant(checkpoint_of(**SHAPE), tmp_path_factory.mktemp("planted") / "even", {})


@pytest.fixture
def context(tmp_path) -> Callable[..., Context]:
    return lambda model, pairs, **facts: context_of(
        "features", model, tmp_path, (pairs[::2], pairs[1::2]), **facts
    )


def made_pairs() -> list[Pair]:
    """Forty pairs of as many queries."""
    return [
        pair_of(WORDS[i % 10] + WORDS[i // 10], f"{WORDS[(i + 3) % 10]}，我去", 4, i)
        for i in range(40)
    ]


def low(measurement: Measurement) -> float:
    assert measurement.ci_low is not None
    return measurement.ci_low


def test_the_planted_attention_is_measured(planted, even, context):
    result = result_of("features", context(planted, made_pairs(), base=even))
    found = measured(result)
    assert low(found["sep_late_peak"]) > 0  # two of the last layer's heads attend to [SEP]
    assert low(found["cls_early"]) > 0  # and so give [CLS] nothing
    assert low(found["cls_looks_at_sep"]) > 0
    assert found["heads_over_half"].value == pytest.approx(100 * 2 / 12)
    assert set(result.sets["over_half"]) == {str(SEP_HEAD), str(LAST_SEP)}
    # Nouns lose what [SEP] gains in two heads of twelve; 狗 and 猫 are in no text.
    assert (found["added_peak_pairs"].value or 0) < 0
    assert "added_peak_treebank" not in found
    (kinds,) = (one for one in result.figures if one.name == "kinds_pairs")
    assert isinstance(kinds, Bars) and len(kinds.series) == 2


def test_spellings_of_a_query_are_one(even, context):
    pairs = made_pairs()
    pairs[3] = replace(pairs[3], query=f" {pairs[1].query}")
    facts = result_of("features", context(even, pairs)).facts
    assert (facts["reads"], facts["queries"]) == (20, 19)


def treebank(path: Path, sentences: int) -> Path:
    """Sentences of three words, no two alike: subject, verb, object."""
    listed = []
    for i in range(sentences):
        first, last = WORDS[i % 10], WORDS[(i // 10 + 1) % 10] + "猫" * (i % 3)
        subject, object = (first, "NOUN", 2, "nsubj"), (last, "NOUN", 2, "obj")
        listed.append([subject, ("追", "VERB", 0, "root"), object])
    path.write_text(conllu(listed), encoding="utf-8")
    return path


def test_a_treebank_adds_subjects_and_objects(planted, even, context, tmp_path):
    path = treebank(tmp_path / "made.conllu", 60)
    made = context(planted, made_pairs(), base=even, treebank=[path])
    result = result_of("features", made)
    assert measured(result)["added_peak_treebank"].value is not None
    (kinds,) = (one for one in result.figures if one.name == "kinds_treebank")
    assert isinstance(kinds, Bars)
    assert {"主语", "宾语"} <= {getattr(one, "zh", one) for one in kinds.categories}
    assert {"subject_treebank", "object_treebank"} <= result.sets.keys()


def test_too_small_a_treebank_is_refused(planted, context, tmp_path):
    path = treebank(tmp_path / "small.conllu", 2)
    with pytest.raises(PairFileError, match=r"small\.conllu.*larger treebank"):
        result_of("features", context(planted, made_pairs(), treebank=[path]))


# By hand


def columns(labelled: Labelled, kind: str) -> list[float]:
    return labelled.kinds[:, PLACE[kind]].tolist()


def test_kinds_of_characters_by_jiebas_tags():
    text = "我不想去北京，35"
    found = by_tags(text, jieba_tagger())
    assert columns(found, "pronoun") == [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert columns(found, "negation") == [0, 1, 1, 0, 0, 0, 0, 0, 0]
    assert columns(found, "noun") == [0, 0, 0, 0, 1, 1, 0, 0, 0]
    assert columns(found, "punctuation") == [0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert columns(found, "number") == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert columns(found, "tuned") == [0, 1, 1, 0, 1, 1, 0, 0, 0]
    assert columns(found, "subject") == [0] * 9
    assert (found.kinds.max(axis=1) == 1).all()  # every character is of some kind


def test_kinds_of_a_treebanks_words():
    words = (
        Word("狗", "NOUN", 1, "nsubj:pass"),
        Word("没有", "VERB", -1, "root"),
        Word("猫", "PROPN", 1, "obj"),
        Word("。", "PUNCT", 1, "punct"),
    )
    found = by_treebank(Sentence("s", words))
    assert columns(found, "subject") == [1, 0, 0, 0, 0]
    assert columns(found, "object") == [0, 0, 0, 1, 0]
    assert columns(found, "negation") == [0, 1, 1, 0, 0]
    assert columns(found, "noun") == [1, 0, 0, 1, 0]
    assert columns(found, "tuned") == [1, 1, 1, 1, 0]


def test_without_parts_of_speech_their_kinds_are_unknown():
    words = (Word("狗", None, 1, "nsubj"), Word("叫", None, -1, None))
    found = by_treebank(Sentence("s", words))
    assert columns(found, "subject") == [1, 0]
    assert columns(found, "tuned") == columns(found, "other") == columns(found, "noun") == [0, 0]


@pytest.mark.parametrize("family", ["qwen3", "modernbert"])
def test_the_base_rate_is_that_of_uniform_attention(checkpoint_of, family):
    texts = by_tags("狗追猫", tag_dogs), by_tags("猫", tag_dogs)
    scorer = opened(checkpoint_of(family))
    found = kind_attention(scorer, None, [LabelledPair("q", texts)])
    (encoded,) = scorer.tokenizer.encode([("狗追猫", "猫")])
    kinds = of_tokens(encoded, *texts)
    length = len(encoded)
    for layer in range(2):
        rows = []
        for row in range(length):
            reach = 4 if family == "modernbert" and layer else length
            first = max(0, row - reach)
            last = row + 1 if family == "qwen3" else min(length, row + reach + 1)
            rows.append(kinds[first:last].mean(axis=0))
        want = np.mean(rows, axis=0)
        for kind in ("noun", "cls", "sep"):
            rate = found.rate(kind)[0, layer]
            assert rate == pytest.approx(want[PLACE[kind]]) or (
                np.isnan(rate) and not want[PLACE[kind]]
            )
    assert found.has("sep") == found.has("cls") == (family == "modernbert")


def test_a_token_of_several_words_is_of_each_by_its_characters():
    query = Labelled("abcd", np.zeros((4, len(KINDS))))
    query.kinds[:1, PLACE["noun"]] = 1
    # [CLS] abcd [SEP] 狗 [SEP]
    encoded = EncodedPair(
        [0, 1, 2, 3, 2],
        [0, 0, 0, 1, 1],
        [SPECIAL, QUERY, SPECIAL, TITLE, SPECIAL],
        [(0, 0), (0, 4), (0, 0), (0, 1), (0, 0)],
        False,
        False,
    )
    found = of_tokens(encoded, query, by_tags("狗", tag_dogs))
    assert found[:, PLACE["noun"]].tolist() == [0, 0.25, 0, 1, 0]
    assert found[:, PLACE["cls"]].tolist() == [1, 0, 0, 0, 0]
    assert found[:, PLACE["sep"]].tolist() == [0, 0, 1, 0, 1]
    # In a causal model the last is read; what a template puts first is neither text.
    changed = replace(encoded, side=[SPECIAL, QUERY, SPECIAL, TITLE, SPECIAL], at=4)
    found = of_tokens(changed, query, by_tags("狗", tag_dogs))
    assert found[:, PLACE["cls"]].tolist() == [0, 0, 0, 0, 1]
    assert found[:, PLACE["sep"]].tolist() == [1, 0, 1, 0, 0]


def test_planted_attention_has_its_lift_by_hand(planted):
    # [CLS] 狗 追 猫 [SEP] 猫 [SEP]: three of seven tokens are nouns, two are [SEP].
    found = kind_attention(opened(planted), None, [read("狗追猫", "猫")])
    assert found.rate("noun")[0] == pytest.approx([3 / 7] * 3)
    assert found.rate("sep")[0] == pytest.approx([2 / 7] * 3)
    nouns, seps = found.lift("noun"), found.lift("sep")
    assert nouns[NOUN_HEAD] == pytest.approx(7 / 3, abs=1e-4)
    assert seps[NOUN_HEAD] == pytest.approx(0, abs=1e-4)
    assert seps[SEP_HEAD] == pytest.approx(7 / 2, abs=1e-4)
    assert nouns[0, 0] == pytest.approx(1, abs=1e-5)  # attends evenly
    assert found.of("noun", "peak")[0, 0, 1] == pytest.approx(1 / 3, abs=1e-4)
    assert found.of("sep", "cls_peak")[0, 2, 2] == pytest.approx(1 / 2, abs=1e-4)
    # One of four heads attends only to nouns, the others give every token a seventh.
    assert found.mean("noun", slice(0, 1)).value == pytest.approx((1 / 3 + 3 / 7) / 4, abs=1e-4)


def test_a_missing_kind_is_left_out(planted):
    found = kind_attention(opened(planted), None, [read("狗追猫", "猫"), read("追追", "追")])
    assert np.isnan(found.of("noun")[1]).all() and np.isnan(found.rate("noun")[1]).all()
    assert found.lift("noun")[NOUN_HEAD] == pytest.approx(7 / 3, abs=1e-4)
    assert found.mean("noun").n_queries == 1
    assert not found.has("number") and found.has("verb")


def test_padding_takes_no_part(planted):
    alone = kind_attention(opened(planted), None, [read("狗追猫", "猫")])
    reads = [read("狗追猫", "猫"), read("狗追猫狗追猫狗追", "猫追狗猫追狗")]
    together = kind_attention(opened(planted), None, reads)
    np.testing.assert_allclose(together.after[0], alone.after[0], atol=1e-5)


def test_exactly_the_planted_heads_are_named(planted):
    reads = [
        read(f"{c}狗追{c}{c}", f"猫{d}{d}{d}")
        for c, d in zip("铁票价时刻表", "查询怎么去除", strict=True)
    ]
    found = kind_attention(opened(planted), None, reads)
    heads = named(found, ("noun", "verb", "number"))
    assert heads["noun"].heads() == [NOUN_HEAD]
    assert heads["verb"].heads() == []
    assert "number" not in heads  # not in these texts


def looking(after: np.ndarray, before: np.ndarray | None = None) -> KindAttention:
    """One layer a row, one head; attention to [CLS], [SEP], punctuation and `tuned` by hand."""

    def spread(shares: np.ndarray) -> np.ndarray:
        found = np.full((*shares.shape[:3], len(KINDS), len(MEASURES)), np.nan)
        for place, kind in enumerate(("cls", "sep", "punctuation", "tuned")):
            found[..., PLACE[kind], :] = shares[..., place, None]
        return found

    rates = np.full((len(after), len(KINDS)), 0.25)
    queries = [str(i) for i in range(len(after))]
    return KindAttention(queries, rates, spread(after), None if before is None else spread(before))


def test_what_tuning_adds_is_the_net_change_beside_what_specials_get():
    before, after = np.full((3, 2, 1, 4), 0.25), np.full((3, 2, 1, 4), 0.25)
    assert added_by_tuning(looking(after)) is None
    after[:, 0, 0, 3], after[:, 1, 0, 3] = 0.45, 0.05  # heads that only trade attention
    found = added_by_tuning(looking(after, before))
    assert found is not None and found.value == pytest.approx(0, abs=1e-9)
    after[..., 3] = 0.35  # a tenth more, where [CLS] and [SEP] get a half together
    found = added_by_tuning(looking(after, before))
    assert found is not None and found.value == pytest.approx(20)


def test_trends_from_the_first_third_of_the_layers_to_the_last_by_hand():
    shares = np.zeros((3, 6, 1, 4))
    shares[:, :2, 0, 0], shares[:, 2:4, 0, 0], shares[:, 4:, 0, 1] = 0.3, 9.0, 0.2
    found = trends(looking(shares))
    assert found["cls_early"] is not None and found["cls_early"].value == pytest.approx(30)
    assert found["sep_late_peak"] is not None and found["sep_late_peak"].value == pytest.approx(20)
    assert set(trends(looking(shares[:, :1])).values()) == {None}


def test_heads_come_back_by_their_lift():
    """Where a window makes a layer's base rate another: a share of .3 is 1.2 times .25, one of .2 twice .1."""
    shares = np.full((20, 2, 1, 4), 0.3)
    shares[:, 1] = 0.2
    rates = np.full((20, 2, len(KINDS)), 0.25)
    rates[:, 1] = 0.1
    attention = replace(looking(shares), base_rate=rates)
    found = stability_by_lift("cls", [Head(1, 0)], 2 * [attention], Shape(2, 1), 0)
    assert found is not None and found.overlap == found.sources[0].overlap == 1.0


def test_a_rare_kind_is_no_rival_of():
    shares = np.zeros((20, 1, 1, 4))
    shares[..., 0] = 0.2
    attention = looking(shares)
    attention.after[:1, ..., PLACE["pronoun"], :] = 0.9
    attention.base_rate[1:, PLACE["pronoun"]] = np.nan
    assert rival_of(attention, attention) == "cls"
    attention.base_rate[:, PLACE["pronoun"]] = 0.1
    assert rival_of(attention, attention) == "pronoun"
    other = looking(shares)
    other.base_rate[:, PLACE["pronoun"]] = np.nan  # and validation has none
    assert rival_of(attention, other) == "cls"
