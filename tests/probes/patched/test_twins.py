"""Twins on token ids: as long, nothing shared, the same for the same seed and pair."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from qt_bert.encoder.batches import to_batch
from qt_bert.pairs import Pair, PairTokenizer, segmenter
from qt_bert.probes.patched.classes import TokenClass, places_of
from qt_bert.probes.patched.terms import Donors
from qt_bert.probes.patched.twins import Twin, TwinMaker
from tests.conftest import wordpiece

JIEBA = segmenter("jieba")
QUERIES = ["北京电影", "苹果手机", "上海高铁", "红烧排骨", "衣服油渍"]
C, T, Q, S, R, P = (int(kind) for kind in TokenClass)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PairTokenizer:
    folder = tmp_path_factory.mktemp("wordpiece")
    wordpiece(folder)
    return PairTokenizer(AutoTokenizer.from_pretrained(folder), 64)


def maker(tokenizer: PairTokenizer, seed: int = 0, **counts: int) -> TwinMaker:
    special = frozenset(range(5))
    donors = Donors(tokenizer, JIEBA, QUERIES, special)
    return TwinMaker(tokenizer, JIEBA, Counter(counts), donors, special, seed)


def pair(query: str, title: str) -> Pair:
    return Pair(query, title, (3,), "", 1, "3", {})


def twin(made: TwinMaker, query: str, title: str) -> Twin:
    (one,) = made.make([pair(query, title)]).twins
    return one


def test_the_term_is_replaced_everywhere_in_the_title(tokenizer: PairTokenizer) -> None:
    found = twin(maker(tokenizer), "苹果多少钱", "北京苹果和苹果")
    # [CLS] 苹 果 多 少 钱 [SEP] 北 京 苹 果 和 苹 果 [SEP]
    assert found.given.classes == found.replaced.classes
    assert found.given.classes == [C, T, T, Q, Q, Q, P, R, R, S, S, R, S, S, P]
    given, replaced = np.array(found.given.input_ids), np.array(found.replaced.input_ids)
    slot = [9, 10, 12, 13]
    assert np.flatnonzero(given != replaced).tolist() == slot
    assert len(given) == len(replaced) and replaced[9:11].tolist() == replaced[12:14].tolist()
    assert not set(replaced[slot]) & set(given)
    assert found.replaced.token_type_ids == found.given.token_type_ids


def test_the_rarest_term_is_replaced(tokenizer: PairTokenizer) -> None:
    texts = "北京电影", "电影北京"
    assert twin(maker(tokenizer, 北京=3, 电影=2), *texts).word == "电影"
    assert twin(maker(tokenizer, 北京=1, 电影=2), *texts).word == "北京"
    assert twin(maker(tokenizer), *texts).word == "北京"  # both unseen: the query's first


def test_a_seed_and_a_pair_fix_the_draw(tokenizer: PairTokenizer) -> None:
    texts = "北京天气", "北京电影"
    alone = twin(maker(tokenizer), *texts).replaced.input_ids
    among = maker(tokenizer).make([pair("苹果手机", "苹果"), pair(*texts)])
    assert among.twins[1].replaced.input_ids == alone
    others = {tuple(twin(maker(tokenizer, seed), *texts).replaced.input_ids) for seed in range(30)}
    assert len(others) > 1


def test_pairs_without_a_twin_are_counted(tokenizer: PairTokenizer) -> None:
    every = "苹果手机上海高铁红烧排骨衣服油渍北京电影"
    pairs = [pair("北京", "上海"), pair("北京", every), pair("北京", "北京电影")]
    made = maker(tokenizer).make(pairs)
    assert made.queries == ["北京"]
    assert made.describe() == {
        "pairs": 1,
        "queries": 1,
        "looked_at": 3,
        "no_shared_term": 1,
        "no_replacement": 1,
    }
    assert [len(text) for text in made.texts] == [9, 9]


def test_a_mask_takes_the_term_s_place(tokenizer: PairTokenizer) -> None:
    made = maker(tokenizer).make([pair("苹果多少钱", "北京苹果和苹果")])
    (masked,) = made.masked(4).twins
    ids = np.array(masked.replaced.input_ids)
    assert np.flatnonzero(ids == 4).tolist() == [9, 10, 12, 13]
    assert masked.given is made.twins[0].given and masked.replaced.classes == masked.given.classes


def test_places_follow_the_text_into_any_batch(tokenizer: PairTokenizer) -> None:
    made = maker(tokenizer).make([pair("苹果", "苹果"), pair("苹果多少钱", "北京苹果")])
    long, short = made.texts[2], made.texts[0]
    batch = to_batch(np.array([7, 3]), [long, short], pad=0)
    found = {kind: places_of(kind).of(batch) for kind in TokenClass}
    assert found[TokenClass.SLOT].nonzero().tolist() == [[0, 9], [0, 10], [1, 4], [1, 5]]
    assert torch.equal(torch.stack(list(found.values())).sum(0), batch.real.long())
    assert places_of(TokenClass.SLOT) == places_of(TokenClass.SLOT) != places_of(TokenClass.TERM)


def test_tokens_of_a_folder_are_left_alone(tmp_path: Path, tokenizer: PairTokenizer) -> None:
    (before,) = tokenizer.encode([("苹果", "苹果")])
    twin(maker(tokenizer), "苹果", "苹果")
    (after,) = tokenizer.encode([("苹果", "苹果")])
    assert before == after
