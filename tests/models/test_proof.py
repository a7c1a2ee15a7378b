"""The proof on opening: what it compares, and that planted faults do not pass it."""

from dataclasses import replace

import numpy as np
import pytest
from transformers import AutoTokenizer

from qt_bert.data import tokenise
from qt_bert.errors import CheckpointError
from qt_bert.models import batches, families
from qt_bert.models.forward import Encoder, Layer
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.proof import Proof
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FAMILIES
from tests.models.other_types import TYPES, other_checkpoint
from tests.models.reference import folder_logits

TEXTS = [("北京到上海高铁票价", "上海高铁票价时刻表查询"), ("狗", "猫"), ("苹果", "苹果手机 15")]


@pytest.mark.parametrize("model_type", sorted({*TYPES, *FAMILIES}))
def test_raw_text_gives_the_logits_of_transformers(checkpoint_of, tmp_path, model_type):
    if model_type in FAMILIES:
        folder = checkpoint_of(model_type, labels=1)
    else:
        folder = other_checkpoint(tmp_path / "model", model_type)
    logits = Scorer(open_checkpoint(folder)).logits(TEXTS)
    for padded in (False, True):
        expected = folder_logits(folder, TEXTS, padded=padded)
        bound = 2e-5 * np.maximum(1, np.abs(expected))
        np.testing.assert_array_less(np.abs(logits - expected), bound)


# Faults that are planted, each by one change of what stands between a text and its logits.


def _tokens(change):
    """A change of the tokens that a tokenizer of ours gives each pair."""

    def plant(patch):
        encodings = tokenise.PairTokenizer._encodings
        patch.setattr(
            tokenise.PairTokenizer,
            "_encodings",
            lambda self, *more: [change(tokens) for tokens in encodings(self, *more)],
        )

    return plant


def _spec(old: str, new: str):
    """A change of our copy of the tokenizer, in its JSON."""

    def plant(patch):
        from tokenizers import Tokenizer

        copied = tokenise._private_copy

        def changed(tokenizer):
            text = copied(tokenizer).to_str()
            assert old in text
            return Tokenizer.from_str(text.replace(old, new))

        patch.setattr(tokenise, "_private_copy", changed)

    return plant


def _padding_in_front(patch):
    padded = tokenise.padded

    def turned(encoded, pad):
        ids, types, real = padded(encoded, pad)
        for row, pair in enumerate(encoded):
            ids[row], types[row] = np.roll(ids[row], -len(pair)), np.roll(types[row], -len(pair))
        return tokenise.Padded(ids, types, real)

    patch.setattr(batches, "padded", turned)


def _padding_is_seen(patch):
    to_batch = batches.to_batch
    patch.setattr(batches, "to_batch", lambda *a, **k: replace(to_batch(*a, **k), mask=None))


def _rows_out_of_order(patch):
    to_batch = batches.to_batch

    def shifted(*rows, **options):
        batch = to_batch(*rows, **options)
        return replace(batch, rows=np.roll(batch.rows, 1))

    patch.setattr(batches, "to_batch", shifted)


def _outputs_in_another_order(patch):
    bert = families.FAMILIES["bert"]
    other = replace(bert, head=lambda model, read: bert.head(model, read).flip(-1))
    patch.setitem(families.FAMILIES, "bert", other)


def _a_layer_is_forgotten(patch):
    init = Encoder.__init__

    def shorter(self, *arguments, **options):
        init(self, *arguments, **options)
        self.layers = self.layers[:-1]

    patch.setattr(Encoder, "__init__", shorter)


def _scores_are_scaled_otherwise(patch):
    attention = Layer.attention
    patch.setattr(Layer, "attention", lambda self, q, *more: attention(self, 1.1 * q, *more))


def _maps_are_no_attention(patch):
    attention = Layer.attention
    patch.setattr(Layer, "attention", lambda self, *more: 1.2 * attention(self, *more))


REFUSED = {
    "types left out": _tokens(lambda pair: pair._replace(types=[0] * len(pair.ids))),
    "types the other way": _tokens(lambda pair: pair._replace(types=[1 - t for t in pair.types])),
    "no last separator": _tokens(lambda pair: type(pair)(*(part[:-1] for part in pair))),
    "swapped vocabulary": _spec('"京":', '"京京":'),
    "letters keep their case": _spec('"lowercase":true', '"lowercase":false'),
}
PLAIN = {
    "padding in front": _padding_in_front,
    "padding is seen": _padding_is_seen,
    "rows out of order": _rows_out_of_order,
    "outputs in another order": _outputs_in_another_order,
    "a layer is forgotten": _a_layer_is_forgotten,
    "scores scaled otherwise": _scores_are_scaled_otherwise,
    "maps that are no attention": _maps_are_no_attention,
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_planted_fault_of_the_tokens_is_refused(checkpoint_of, monkeypatch, fault):
    folder = checkpoint_of("bert", labels=3)
    REFUSED[fault](monkeypatch)
    with pytest.raises(CheckpointError, match="by transformers' BertTokenizer"):
        open_checkpoint(folder)


@pytest.mark.parametrize("fault", PLAIN)
def test_a_planted_fault_of_the_forward_is_found(checkpoint_of, monkeypatch, fault):
    """No such model is opened on the fast engine."""
    opened = open_checkpoint(checkpoint_of("bert", labels=3))
    assert Proof(opened).fast_fault() == ""
    PLAIN[fault](monkeypatch)
    again = replace(opened, family=families.FAMILIES["bert"])
    fault = Proof(again).fast_fault()
    assert "differ from transformers'" in fault


@pytest.mark.parametrize("model_type", ["convbert", "fnet", "yoso"])
def test_a_model_whose_padding_leaks_gets_batches_of_one_length(tmp_path, model_type, capsys):
    TYPES.setdefault(model_type, {"embedding_size": 16} if model_type == "convbert" else {})
    folder = other_checkpoint(tmp_path / "model", model_type)
    opened = open_checkpoint(folder)
    assert opened.padding_leaks and "padding reaches" in capsys.readouterr().err
    scorer = Scorer(opened)
    assert all(batch.mask is None for batch in scorer.batches(TEXTS, 1000))
    together, alone = scorer.logits(TEXTS), [scorer.logits([pair])[0] for pair in TEXTS]
    np.testing.assert_allclose(together, np.stack(alone), atol=1e-5)
    if model_type != "yoso":  # whose hashes are drawn
        np.testing.assert_allclose(together, folder_logits(folder, TEXTS), atol=1e-5)


def test_padding_on_the_left_changes_nothing(fresh_checkpoint):
    folder = fresh_checkpoint("bert")
    AutoTokenizer.from_pretrained(folder, padding_side="left").save_pretrained(folder)
    logits = Scorer(open_checkpoint(folder)).logits(TEXTS)
    np.testing.assert_allclose(logits, folder_logits(folder, TEXTS), atol=2e-5)


def test_a_type_that_needs_more_than_two_texts_is_named_in_a_line(tmp_path):
    TYPES.setdefault("xmod", {"type_vocab_size": 2})
    with pytest.raises(CheckpointError, match="cannot run this xmod .* language unknown"):
        open_checkpoint(other_checkpoint(tmp_path / "model", "xmod"))
