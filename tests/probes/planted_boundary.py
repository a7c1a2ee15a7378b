"""A BERT with one head that knows word ends: from a character of a made table to [SEP], else onward."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

HEADS, WIDTH, PLACES = 4, 48, 40
END, SEPARATOR = PLACES, PLACES + 1
PLANTED = "L1H2"


def plant_word_ends(folder: Path, tokenizer_of: Path, ends: set[str]) -> Path:
    """Save a classifier of 2 layers × 4 heads; all heads but L1H2 attend to everything alike.

    Embeddings hold the place one-hot, whether the character ends words (±1), and whether it is
    [SEP]. L1H2 compares places with a shift of one, and the second with the third.
    """
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_of)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=HEADS * WIDTH,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        intermediate_size=8,
        max_position_embeddings=PLACES,
        num_labels=5,
    )
    torch.manual_seed(0)
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        _embed(model.bert.embeddings, tokenizer, ends)
        for layer in model.bert.encoder.layer:
            layer.attention.self.query.weight.zero_()
            layer.attention.self.key.weight.zero_()
        _attend(model.bert.encoder.layer[1].attention.self)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _embed(embeddings, tokenizer, ends: set[str]) -> None:
    words, places = embeddings.word_embeddings.weight, embeddings.position_embeddings.weight
    for table in (words, places, embeddings.token_type_embeddings.weight):
        table.zero_()
    places[:, :PLACES] = 4 * torch.eye(PLACES)
    for token, number in tokenizer.get_vocab().items():
        words[number, END] = 4.0 if token in ends else -4.0
    words[tokenizer.sep_token_id, END] = 0.0
    words[tokenizer.sep_token_id, SEPARATOR] = 4.0


def _attend(attention) -> None:
    first = WIDTH * int(PLANTED[-1])
    for place in range(1, PLACES):
        attention.query.weight[first + place, place - 1] = 1.3
        attention.key.weight[first + place, place] = 1.3
    attention.query.weight[first, END] = 2.0
    attention.key.weight[first, SEPARATOR] = 2.0
