"""Attention to kinds of tokens: planted heads, and numbers by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qt_bert.data.segmenters import jieba_tagger
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.data.treebank import Sentence, Word
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.features import measures
from qt_bert.probes.features.added import added
from qt_bert.probes.features.claims import rival
from qt_bert.probes.features.kinds import KINDS, Labelled, by_people, by_tags, of_tokens, place_of
from qt_bert.probes.features.looking import Looking, look
from qt_bert.probes.features.study import Part, Study, by_lift, named
from qt_bert.results.probe import Finding
from tests.probes.planted_kinds import (
    NOUN_HEAD,
    SEP_HEAD,
    SHAPE,
    opened,
    plant_kinds,
    read,
    tag_dogs,
)

Build = Callable[..., Path]


def columns(labelled: Labelled, kind: str) -> list[float]:
    return labelled.kinds[:, place_of(kind)].tolist()


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant_kinds(checkpoint_of(**SHAPE), tmp_path_factory.mktemp("planted") / "kinds")


def test_kinds_of_characters_by_jiebas_tags() -> None:
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


def test_kinds_of_a_treebanks_words() -> None:
    words = (
        Word("狗", "NOUN", 1, "nsubj:pass"),
        Word("没有", "VERB", -1, "root"),
        Word("猫", "PROPN", 1, "obj"),
        Word("。", "PUNCT", 1, "punct"),
    )
    found = by_people(Sentence("s", words))
    assert columns(found, "subject") == [1, 0, 0, 0, 0]
    assert columns(found, "object") == [0, 0, 0, 1, 0]
    assert columns(found, "negation") == [0, 1, 1, 0, 0]
    assert columns(found, "noun") == [1, 0, 0, 1, 0]
    assert columns(found, "tuned") == [1, 1, 1, 1, 0]


def test_without_parts_of_speech_what_needs_them_is_not_known() -> None:
    words = (Word("狗", None, 1, "nsubj"), Word("叫", None, -1, None))
    found = by_people(Sentence("s", words))
    assert columns(found, "subject") == [1, 0]
    assert columns(found, "tuned") == columns(found, "other") == columns(found, "noun") == [0, 0]


def test_a_token_of_several_words_is_of_each_by_its_characters() -> None:
    query = Labelled("abcd", np.zeros((4, len(KINDS))))
    query.kinds[:1, place_of("noun")] = 1
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
    assert found[:, place_of("noun")].tolist() == [0, 0.25, 0, 1, 0]
    assert found[:, place_of("cls")].tolist() == [1, 0, 0, 0, 0]
    assert found[:, place_of("sep")].tolist() == [0, 0, 1, 0, 1]


def test_planted_attention_has_its_lift_by_hand(planted: Path) -> None:
    # [CLS] 狗 追 猫 [SEP] 猫 [SEP]: three of seven tokens are nouns, two are [SEP].
    found = look(opened(planted), None, [read("狗追猫", "猫")])
    assert found.rate("noun")[0] == pytest.approx(3 / 7)
    assert found.rate("sep")[0] == pytest.approx(2 / 7)
    nouns, seps = found.lift("noun"), found.lift("sep")
    assert nouns[NOUN_HEAD] == pytest.approx(7 / 3, abs=1e-4)
    assert seps[NOUN_HEAD] == pytest.approx(0, abs=1e-4)
    assert seps[SEP_HEAD] == pytest.approx(7 / 2, abs=1e-4)
    assert nouns[0, 0] == pytest.approx(1, abs=1e-5)  # attends evenly
    assert found.of("noun", measure="peak")[0, 0, 1] == pytest.approx(1 / 3, abs=1e-4)
    assert found.of("sep", measure="cls_peak")[0, 2, 2] == pytest.approx(1 / 2, abs=1e-4)
    assert found.of("noun", measure="cls_share")[0, 0, 1] == pytest.approx(1, abs=1e-4)


def test_a_kind_that_is_not_there_is_left_out(planted: Path) -> None:
    reads = [read("狗追猫", "猫"), read("追追", "追")]
    found = look(opened(planted), None, reads)
    assert np.isnan(found.of("noun")[1]).all() and np.isnan(found.rate("noun")[1])
    assert found.lift("noun")[NOUN_HEAD] == pytest.approx(7 / 3, abs=1e-4)
    assert not found.has("number") and found.has("verb")


def test_padding_takes_no_part(planted: Path) -> None:
    alone = look(opened(planted), None, [read("狗追猫", "猫")])
    reads = [read("狗追猫", "猫"), read("狗追猫狗追猫狗追", "猫追狗猫追狗")]
    together = look(opened(planted), None, reads)
    np.testing.assert_allclose(together.after[0], alone.after[0], atol=1e-5)


def test_exactly_the_planted_heads_are_named(planted: Path) -> None:
    reads = [
        read(f"{c}狗追{c}{c}", f"猫{d}{d}{d}")
        for c, d in zip("铁票价时刻表", "查询怎么去除", strict=True)
    ]
    found = look(opened(planted), None, reads)
    heads = named(found, ("noun", "verb", "number"))
    assert heads["noun"].heads() == [NOUN_HEAD]
    assert heads["verb"].heads() == []
    assert "number" not in heads  # not in these texts
    lifts = by_lift(found, "noun")(np.ones((1, 6)))[0]
    assert np.unravel_index(lifts.argmax(), lifts.shape) == NOUN_HEAD


def looking(after: np.ndarray, before: np.ndarray | None = None) -> Looking:
    """One layer a row, one head; shares of [CLS], [SEP] and punctuation by hand."""

    def spread(shares: np.ndarray) -> np.ndarray:
        found = np.full((*shares.shape[:3], len(KINDS), 4), np.nan)
        for place, kind in enumerate(("cls", "sep", "punctuation", "tuned")):
            found[..., place_of(kind), :] = shares[..., place, None]
        return found

    reads = len(after)
    rates = np.full((reads, len(KINDS)), 0.25)
    queries = [str(i) for i in range(reads)]
    return Looking(queries, rates, spread(after), None if before is None else spread(before))


def test_heads_over_half_by_hand() -> None:
    shares = np.zeros((4, 2, 1, 4))
    shares[:, 0, 0, :3] = 0.3, 0.2, 0.1
    shares[:, 1, 0, :3] = 0.1, 0.2, 0.1
    seen = looking(shares)
    value, samples = measures.empty_share(seen, Shape(2, 1), 20, 0)
    assert value == 0.5 and set(samples) == {0.5}
    assert measures.empty_heads(seen, Shape(2, 1)) == [Head(0, 0)]


def test_what_tuning_added_counts_the_heads_that_gained() -> None:
    before, after = np.zeros((3, 2, 1, 4)), np.zeros((3, 2, 1, 4))
    after[:, 0, 0, 3], after[:, 1, 0, 3] = 0.2, -0.1
    seen = looking(after, before)
    heads = measures.gaining(seen, "tuned", Shape(2, 1))
    assert heads.tolist() == [[True], [False]]
    np.testing.assert_allclose(measures.gained(seen, "tuned", heads), 0.1)


def test_heads_that_only_trade_attention_add_nothing() -> None:
    before, after = np.full((3, 2, 1, 4), 0.25), np.full((3, 2, 1, 4), 0.25)
    after[:, 0, 0, 3], after[:, 1, 0, 3] = 0.45, 0.05
    found = added_by(after, before)
    # [CLS] and [SEP] hold 0.5, a tenth of which is 5 points; head 0 alone gained 20, spread over two.
    assert found["added_is_little_pairs"].value == pytest.approx(-5)
    assert found["added_share_pairs"].value == pytest.approx(0, abs=1e-9)
    assert found["added_gains_pairs"].value == pytest.approx(20)


def test_what_all_heads_gain_is_added() -> None:
    before, after = np.full((3, 2, 1, 4), 0.25), np.full((3, 2, 1, 4), 0.25)
    after[..., 3] = 0.35
    found = added_by(after, before)
    assert found["added_is_little_pairs"].value == pytest.approx(5)
    assert found["added_share_pairs"].value == pytest.approx(20)
    assert found["added_peak_pairs"].value == pytest.approx(20)
    assert [one.id for one in found.values() if one.primary] == ["added_is_little_pairs"]


def added_by(after: np.ndarray, before: np.ndarray) -> dict[str, Finding]:
    part = Part(looking(after, before), looking(after, before), {})
    study = Study(Shape(2, 1), None, part, None)
    context: Any = SimpleNamespace(resamples=20, seed=0)
    return {one.id: one for one in added("pairs", part, study, context)}


def test_the_rival_is_the_kind_that_leads_besides_sep(planted: Path) -> None:
    found = look(opened(planted), None, [read("狗追猫", "猫")])
    # The last layer looks at all but [SEP] alike; the first kind stands.
    assert rival(found, found) == "cls"


def test_a_rare_kind_is_no_rival() -> None:
    shares = np.zeros((20, 1, 1, 4))
    shares[..., 0] = 0.2
    seen = looking(shares)
    seen.after[:1, ..., place_of("pronoun"), :] = 0.9
    seen.base_rate[1:, place_of("pronoun")] = np.nan
    assert rival(seen, seen) == "cls"
    seen.base_rate[:, place_of("pronoun")] = 0.1
    assert rival(seen, seen) == "pronoun"
    other = looking(shares)
    other.base_rate[:, place_of("pronoun")] = np.nan  # and validation has none
    assert rival(seen, other) == "cls"


@pytest.mark.parametrize(
    ("layers", "first", "last"), [(2, [0], [1]), (4, [0], [3]), (6, [0, 1], [4, 5])]
)
def test_thirds_of_the_layers(layers: int, first: list[int], last: list[int]) -> None:
    ends = measures.thirds(layers)
    assert ends is not None
    assert [list(range(layers))[one] for one in ends] == [first, last]


def test_one_layer_has_no_order() -> None:
    assert measures.thirds(1) is None
