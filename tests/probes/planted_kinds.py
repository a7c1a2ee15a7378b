"""A small BERT with heads that attend only to chosen characters, or to [SEP]; all others are uniform."""

from pathlib import Path

from transformers import AutoTokenizer

from qt_bert.data.segmenters import Tagged
from qt_bert.heads import Head
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.features import LabelledPair, by_tags
from qt_bert.scoring.bulk import Scorer
from tests.conftest import edited

SHAPE = {"layers": 3, "heads": 4, "hidden": 64}
"""What `checkpoint_of` makes for `plant`."""

NOUN_HEAD, SEP_HEAD, LAST_SEP = Head(0, 1), Head(2, 2), Head(2, 3)
"""What `plant_kinds` plants: a head for 狗 and 猫, two of the last layer for [SEP]."""

_STRONG = 40.0


def plant(folder: Path, out: Path, jobs: dict[tuple[int, int], str]) -> Path:
    """The model of `folder`, where head (layer, head) attends only to the tokens named in its job.

    A job is a string of characters, or `[SEP]` or `[CLS]`. Tokens of the first job carry 1 in the
    first dimension, and so on; layers add nothing, so that every layer reads the same vectors.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with edited(folder, out) as model:
        width = model.config.hidden_size // model.config.num_attention_heads
        embeddings = model.bert.embeddings
        for part in (embeddings.position_embeddings, embeddings.token_type_embeddings):
            part.weight.zero_()
        embeddings.word_embeddings.weight.zero_()
        embeddings.word_embeddings.weight[:, -1] = 1.0  # so that no vector is without variance
        for layer in model.bert.encoder.layer:
            own = layer.attention.self
            for part in (layer.attention.output.dense, layer.output.dense, own.query, own.key):
                part.weight.zero_()
                part.bias.zero_()
        for mark, ((layer_number, head), job) in enumerate(jobs.items()):
            named = [job] if job.startswith("[") else list(job)
            ids = tokenizer.convert_tokens_to_ids(named)
            embeddings.word_embeddings.weight[ids, mark] = 2.0
            attention = model.bert.encoder.layer[layer_number].attention.self
            attention.query.bias[head * width] = _STRONG
            attention.key.weight[head * width, mark] = _STRONG
    return out


def opened(folder: Path) -> Scorer:
    """A model folder, ready to score."""
    return Scorer(open_checkpoint(folder))


def plant_kinds(folder: Path, out: Path) -> Path:
    """The model of `folder` with the three heads above."""
    jobs = {tuple(NOUN_HEAD): "狗猫", tuple(SEP_HEAD): "[SEP]", tuple(LAST_SEP): "[SEP]"}
    return plant(folder, out, jobs)


def tag_dogs(text: str) -> list[Tagged]:
    """狗 and 猫 are nouns, 追 is a verb; nothing else has a tag."""
    tags = {"狗": "n", "猫": "n", "追": "v"}
    return [Tagged((i, i + 1), tags.get(c, "x")) for i, c in enumerate(text)]


def read(query: str, title: str) -> LabelledPair:
    """A pair, tagged so."""
    return LabelledPair(query, (by_tags(query, tag_dogs), by_tags(title, tag_dogs)))
