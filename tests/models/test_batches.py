"""Pairs as batches: which rows, which padding, and which token belongs to which text."""

import numpy as np
import pytest
import torch

from qt_bert.data.tokenise import SPECIAL, EncodedPair
from qt_bert.models.batches import (
    CLS,
    PADDING,
    PROMPT,
    QUERY,
    REMOVED,
    TITLE,
    batches_of,
    removed_attention,
    to_batch,
)
from qt_bert.models.opening import open_checkpoint

TEXTS = [("狗", "猫追狗"), ("京东小哥", "小"), ("狗追", "猫追")]


@pytest.fixture
def encoded_of(checkpoint_of):
    def encode(family):
        checkpoint = open_checkpoint(checkpoint_of(family))
        return checkpoint.pair_tokenizer().encode(TEXTS, offsets=False)

    return encode


def test_groups_of_bert_are_cls_query_sep_title_sep(encoded_of):
    encoded = encoded_of("bert")
    batch = to_batch(np.array([4, 7]), encoded[:2], pad=0)
    assert batch.groups.tolist() == [
        [CLS, QUERY, QUERY, TITLE, TITLE, TITLE, TITLE, PADDING],
        [CLS, QUERY, QUERY, QUERY, QUERY, QUERY, TITLE, TITLE],
    ]
    assert batch.rows.tolist() == [4, 7] and len(batch) == 2


def test_the_second_separator_of_xlm_roberta_belongs_to_the_title(encoded_of):
    (row,) = encoded_of("xlm-roberta")[:1]
    (groups,) = to_batch(np.array([0]), [row], pad=1).groups.tolist()
    # <s> ▁ 狗 </s> | </s> ▁ 猫 追 狗 </s>
    assert groups == [CLS] + [QUERY] * 3 + [TITLE] * 6


def test_a_causal_models_prompt_is_of_neither_text():
    """prompt prompt 狗 between 猫 end read: `end` stands behind the title, `read` is read."""
    side = [SPECIAL, SPECIAL, 0, SPECIAL, 1, SPECIAL, SPECIAL]
    row = EncodedPair([5] * 7, [0] * 7, side, [], False, False, at=6)
    (groups,) = to_batch(np.array([0]), [row], pad=0).groups.tolist()
    assert groups == [PROMPT, PROMPT, QUERY, QUERY, TITLE, TITLE, CLS]
    seen = removed_attention("all", torch.tensor([groups]))[0]
    assert not seen[:, :2].any() and not seen[:2].any()
    bare = EncodedPair([5] * 3, [0] * 3, [0, 1, 1], [], False, False, at=2)
    assert to_batch(np.array([0]), [bare], pad=0).groups.tolist() == [[QUERY, TITLE, CLS]]


@pytest.mark.parametrize(("family", "pad"), [("bert", 0), ("xlm-roberta", 1)])
def test_padding_is_the_models_own_token_and_masked(encoded_of, family, pad):
    encoded = encoded_of(family)
    batch = to_batch(np.arange(3), encoded, pad=pad)
    lengths = [len(row) for row in encoded]
    assert batch.mask is not None and batch.mask.sum(1).tolist() == lengths
    assert torch.equal(batch.real, batch.mask.bool())
    for i, row in enumerate(encoded):
        assert batch.input_ids[i].tolist() == row.input_ids + [pad] * (max(lengths) - len(row))
        assert batch.token_type_ids[i, : len(row)].tolist() == row.token_type_ids


def test_rows_of_one_length_have_no_mask(encoded_of):
    (batch,) = batches_of([encoded_of("bert")[0]] * 3, 100, pad=0)
    assert batch.mask is None and batch.real.all()


def test_batches_keep_each_pair_beside_its_row(encoded_of):
    encoded = encoded_of("bert") * 3
    batches = list(batches_of(encoded, 20, pad=0))
    assert sorted(np.concatenate([b.rows for b in batches])) == list(range(len(encoded)))
    assert all(b.encoded == tuple(encoded[i] for i in b.rows) for b in batches)


def test_what_each_direction_takes():
    groups = torch.tensor([[CLS, QUERY, TITLE, PADDING]])
    cut = {each: removed_attention(each, groups)[0].int().tolist() for each in REMOVED}
    assert cut["C<T"] == [[0, 0, 1, 0], [0] * 4, [0] * 4, [0] * 4]
    assert cut["T<Q"] == [[0] * 4, [0] * 4, [1, 1, 0, 0], [0] * 4]
    assert cut["Q<T"] == [[0] * 4, [1, 0, 1, 0], [0] * 4, [0] * 4]
    assert cut["all"] == [[0, 0, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0] * 4]
    assert cut["<C"] == [[0] * 4, [1, 0, 0, 0], [1, 0, 0, 0], [0] * 4]
