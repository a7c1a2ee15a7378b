"""A small GTE to tune and to distil, for forecasts of another teacher: six layers of width 128, random but for
the embeddings, which are the largest principal components of those of an encoder.

    python -m experiments.students.tiny_gte --base data/checkpoints/pretrained --out runs/tiny_gte
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForSequenceClassification

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.errors import ArgumentError
from qt_bert.models.tokenizer import open_tokenizer


def make(base: Path, out: Path, *, layers: int = 6, heads: int = 4, width: int = 128) -> None:
    """Write the folder `out`, with the tokenizer of `base`; `width` is at most that of `base`."""
    tokenizer = open_tokenizer(base)
    weights = load_file(base / "model.safetensors")
    table = next(
        (w for name, w in weights.items() if name.endswith("word_embeddings.weight")), None
    )
    if table is None or table.shape[1] < width:
        raise ArgumentError(f"{base}: no word embeddings of {width} dimensions or more")
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "gte",
        vocab_size=len(table),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * width,
        max_position_embeddings=128,
        type_vocab_size=1,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=5,
    )
    model = AutoModelForSequenceClassification.from_config(config)
    centred = table.float() - table.float().mean(0)
    _, _, directions = torch.pca_lowrank(centred, q=width, center=False)
    components = centred @ directions
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(0.05 * components / components.std())  # as BERT's
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("--base", type=Path, default=Path("data/checkpoints/pretrained"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    with one_line_faults():
        make(options.base, options.out)


if __name__ == "__main__":
    main()
