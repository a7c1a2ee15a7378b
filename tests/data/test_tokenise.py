from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from qt_bert.data.tokenise import EncodedPair, PairTokenizer, length_batches, padded
from qt_bert.errors import ArgumentError, CheckpointError
from tests.probes.pieces import byte_level, metaspace

PAIRS = [
    ("北京到上海高铁票价", "北京到上海高铁时刻表查询_百度知道"),
    ("Café ＡＢＣ", "iPhone１３ 价格😀👨‍👩‍👧 e\u0301te\u0301"),
    ("a", "b " * 60),
    ("长" * 9, "短" * 40),
    ("ﬁne ǅ İstanbul", "№ ㍿ ½ \u200b零宽 \ufeff x"),
    ("[SEP]", "x [CLS] y </s>"),
]


def bert() -> Any:
    words = [
        *"北京到上海高铁票价时刻表查询百度知道长短零宽",
        *"abcdefghijklmnopqrstuvwxyz",
        "iphone",
    ]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *(f"##{c}" for c in "abcdefint0123")]
    backend = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return _fast(backend, ["input_ids", "token_type_ids"], cls_token="[CLS]", sep_token="[SEP]")


def xlm_roberta() -> Any:
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [(text, -3.0 - i / 10) for i, text in enumerate(["北京", "上海", "高铁", "▁a", "ne"])]
    pieces += [(c, -6.0) for c in "到票价时刻表查询百度知道长短零宽abcdefghijklmnopqrstuvwxyz"]
    backend = Tokenizer(models.Unigram(pieces, unk_id=3))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return _fast(backend, ["input_ids"], cls_token="<s>", sep_token="</s>")


def _fast(backend: Tokenizer, names: list[str], **special: str) -> Any:
    fast: Any = PreTrainedTokenizerFast
    return fast(tokenizer_object=backend, model_input_names=names, pad_token="[PAD]", **special)


FAMILIES = pytest.mark.parametrize("family", [bert, xlm_roberta])


def reference(tokenizer: Any, pair: tuple[str, str], max_length: int) -> dict[str, Any]:
    encoded = tokenizer(
        *pair,
        truncation="only_second",
        max_length=max_length,
        return_offsets_mapping=True,
        return_token_type_ids=True,
    )
    sides = [-1 if side is None else side for side in encoded.sequence_ids()]
    return {**encoded, "side": sides}


@FAMILIES
@pytest.mark.parametrize("max_length", [24, 30, 512])
@pytest.mark.parametrize("pair", PAIRS)
def test_agrees_with_transformers(family, max_length, pair):
    tokenizer = PairTokenizer(family(), max_length)
    (encoded,) = tokenizer.encode([pair])
    (bare,) = tokenizer.encode([pair], offsets=False)
    assert replace(encoded, spans=[]) == bare
    expected = reference(family(), pair, max_length)
    assert encoded.input_ids == expected["input_ids"]
    assert encoded.token_type_ids == expected["token_type_ids"]
    assert encoded.side == expected["side"]
    pieces = family().convert_ids_to_tokens(encoded.input_ids)
    for piece, side, span, (start, end) in zip(
        pieces, encoded.side, encoded.spans, expected["offset_mapping"], strict=True
    ):
        covers = side >= 0 and piece != "▁"
        places = [at for at in range(start, end) if covers and not pair[side][at].isspace()]
        assert list(range(*span)) == places
    whole = reference(family(), pair, 10_000)
    assert encoded.title_truncated == (len(whole["input_ids"]) > max_length)
    assert not encoded.query_truncated


def test_spans_of_tokens_that_are_not_characters():
    """Both tokens of a cut character have the whole of it, and white space is of none."""
    cut = byte_level(("北京", 6), ("站", 3), ("驿", 2), (" 上", 4))
    (pair,) = PairTokenizer(cut, 64).encode([("北京驿站", " 上站")])
    assert pair.spans[1:5] == [(0, 2), (2, 3), (2, 3), (3, 4)]
    assert pair.spans[6:8] == [(1, 2), (2, 3)]
    glued = metaspace("▁上", "海铁", "去")
    (pair,) = PairTokenizer(glued, 64).encode([("上海铁", "去 上")])
    assert pair.spans == [*((0, 0), (0, 1), (1, 3)), *((0, 0), (0, 0), (0, 1), (2, 3), (0, 0))]


def test_spans_name_the_characters_of_the_original_text():
    (encoded,) = PairTokenizer(bert(), 64).encode([("Café", "ＡＢ上e\u0301😀")])
    assert encoded.side == [-1, 0, 0, 0, 0, -1, 1, 1, 1, -1]
    query = [(0, 1), (1, 2), (2, 3), (3, 4)]
    title = [(0, 2), (2, 3), (3, 6)]
    assert encoded.spans == [(0, 0), *query, (0, 0), *title, (0, 0)]


@pytest.mark.parametrize(("family", "separators"), [(bert, [2, 4]), (xlm_roberta, [2, 3, 5])])
def test_special_tokens_have_names(family, separators):
    (encoded,) = PairTokenizer(family(), 32).encode([("a", "a")])
    assert (encoded.cls, encoded.separators) == (0, separators)


@FAMILIES
@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("a", "短" * 100_000),
        ("长" * 100_000, "a"),
        ("a", "z" * 100_000),
        ("a", " " * 100_000 + "短"),
        (" " * 100_000 + "长", "b" * 100_000),
        ("长", "a " * 50_000),
        ("长" * 20, "短" * 20),
    ],
    ids=["title", "query", "word", "late title", "late query", "words", "both"],
)
def test_a_very_long_text_gives_the_tokens_of_the_whole(family, query, title):
    (encoded,) = PairTokenizer(family(), 16).encode([(query, title)])
    whole = family()(query, title, return_token_type_ids=True)
    sides = [side for side in whole.sequence_ids() if side is not None]
    specials = len(whole["input_ids"]) - len(sides)
    budget = 16 - specials
    n_query = min(sides.count(0), budget)
    n_title = min(sides.count(1), budget - n_query)
    assert [encoded.side.count(0), encoded.side.count(1)] == [n_query, n_title]

    def of_side(side, ids, sides):
        return [i for i, s in zip(ids, sides, strict=True) if s == side]

    whole_ids = [of_side(side, whole["input_ids"], whole.sequence_ids()) for side in (0, 1)]
    kept = [of_side(side, encoded.input_ids, encoded.side) for side in (0, 1)]
    assert kept == [whole_ids[0][:n_query], whole_ids[1][:n_title]]
    assert encoded.query_truncated == (sides.count(0) > n_query)
    assert encoded.title_truncated == (sides.count(1) > n_title)


def test_threads_with_different_lengths_agree_with_one_thread():
    shared = bert()
    tokenizers = {length: PairTokenizer(shared, length) for length in (12, 20)}
    pairs = [(f"北京{'到' * (i % 7)}", "上海高铁" * (i % 9 + 1)) for i in range(200)]
    alone = {length: tokenizer.encode(pairs) for length, tokenizer in tokenizers.items()}

    def encode(job):
        length = (12, 20)[job % 2]
        shared("北京", "上海" * 20, truncation="only_second", max_length=9 + job % 5)
        return length, tokenizers[length].encode(pairs)

    with ThreadPoolExecutor(4) as pool:
        for length, encoded in pool.map(encode, range(24)):
            assert encoded == alone[length]


def test_the_tokenizer_passed_in_is_left_unchanged():
    tokenizer = bert()
    tokenizer.backend_tokenizer.enable_truncation(7)
    tokenizer.backend_tokenizer.enable_padding(length=40)
    (encoded,) = PairTokenizer(tokenizer, 64).encode([("北京到上海", "北京到上海高铁")])
    assert len(encoded) == 15
    assert tokenizer.backend_tokenizer.truncation["max_length"] == 7
    assert tokenizer.backend_tokenizer.padding["length"] == 40


@pytest.mark.parametrize(("family", "least"), [(bert, 5), (xlm_roberta, 6)])
def test_a_length_without_room_is_refused(family, least):
    PairTokenizer(family(), least)
    with pytest.raises(ArgumentError, match=f"{least} at least"):
        PairTokenizer(family(), least - 1)


def test_a_slow_tokenizer_is_refused():
    with pytest.raises(CheckpointError, match="not a fast tokenizer"):
        PairTokenizer(object(), 64)


@pytest.mark.parametrize("pair", [("a\ud800", "b"), ("a", "\udc80")])
def test_a_lone_surrogate_is_refused(pair):
    with pytest.raises(ArgumentError, match="lone surrogate"):
        PairTokenizer(bert(), 64).encode([("a", "b"), pair])


def test_shorter_rows_are_filled_with_the_padding_token_of_type_0():
    rows = [EncodedPair([5, 6], [0, 1], [0, 1], [], False, False)]
    rows.append(EncodedPair([7, 8, 9], [0, 1, 1], [0, 1, 1], [], False, False))
    ids, types, real = padded(rows, pad=3)
    assert ids.tolist() == [[5, 6, 3], [7, 8, 9]] and ids.dtype == np.int64
    assert types.tolist() == [[0, 1, 0], [0, 1, 1]] and types.dtype == np.int64
    assert real.tolist() == [[True, True, False], [True, True, True]]


def test_batches_hold_every_row_once_within_the_budget():
    lengths = [9, 3, 5, 5, 40, 5, 3, 9, 9, 2]
    batches = list(length_batches(lengths, 20))
    assert sorted(np.concatenate(batches)) == list(range(10))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * max(lengths[i] for i in rows) <= 20


@pytest.mark.parametrize(
    ("lengths", "budget", "batches"),
    [([5, 5, 5, 4], 20, [[0, 1, 2], [3]]), ([5, 4, 3], 40, [[0, 1, 2]])],
)
def test_a_batch_ends_where_the_length_changes_if_it_is_full_enough(lengths, budget, batches):
    assert [list(b) for b in length_batches(lengths, budget)] == batches
