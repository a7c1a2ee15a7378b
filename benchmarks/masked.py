"""Masked-character accuracy of pretrained models on text that none of them has seen.

    python benchmarks/masked.py MODEL... --data DATA

DATA holds corpus/*.txt.xz and pairs/ (the public corpora). The text is queries and titles of the
held-out pair files, without those that stand in the corpus; masked, cut and packed as in pretraining,
the same for every model.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from qt_bert.data.reader import PairReader
from qt_bert.models.checkpoint import open_tokenizer
from qt_bert.models.loading import open_for_pretraining
from qt_bert.training.corpus import load_corpus, text_lines
from qt_bert.training.pretrain import BatchShape, PretrainBatch, Special, batches, losses

HELD_OUT = {
    "qbqtc_eval": ("pairs/qbqtc_eval.jsonl", {"grade": "label"}),
    "kuake_qtr_eval": ("pairs/kuake_qtr_eval.tsv", {"grade": "label_0_3"}),
}
SHORTEST = 8


def main() -> None:
    arguments = parse()
    torch.manual_seed(0)
    for name, (file, columns) in HELD_OUT.items():
        path = arguments.data / file
        if not path.exists():
            print(f"{name}: {path} is not there, left out")
            continue
        texts = unseen(path, columns, arguments.data)
        print(
            f"\n{name}: {len(texts):,} texts of {SHORTEST} characters or more, none in the corpus"
        )
        for folder in arguments.models:
            loss, accuracy, masked = measured(folder, texts, arguments.batches)
            print(f"  {folder}: loss {loss:.3f}, accuracy {accuracy:.3f} ({masked:,} masked)")


def unseen(path: Path, columns: dict[str, str], data: Path) -> list[str]:
    """The different queries and titles of a file that are no line of the corpus, in their order."""
    pairs = list(PairReader(path, columns=columns))
    texts = dict.fromkeys(t for pair in pairs for t in (pair.query, pair.title))
    for shard in sorted((data / "corpus").glob("*.txt.xz")):
        for line in text_lines(shard):
            texts.pop(line, None)
    return [text for text in texts if len(text) >= SHORTEST]


def measured(folder: Path, texts: list[str], number: int) -> tuple[float, float, int]:
    """Loss, accuracy and the number of masked characters in `number` batches of the texts."""
    model = open_for_pretraining(folder).float().eval()
    total = torch.zeros(2, dtype=torch.float64)  # on the CPU
    masked = 0.0
    with torch.inference_mode():
        for batch in islice(_batches(folder, texts), number):
            weight = float(batch.tensors["masked_weight"].sum())
            total += losses(model, batch.tensors)[[0, 2]].double() * weight
            masked += weight
    return (*(total / masked).tolist(), int(masked))


def _batches(folder: Path, texts: list[str]) -> Iterator[PretrainBatch]:
    tokenizer = open_tokenizer(folder)
    with tempfile.TemporaryDirectory() as work:
        shard = Path(work) / "text.txt"
        shard.write_text("\n".join(texts), encoding="utf-8")
        corpus = load_corpus(folder, [shard], [], Path(work) / "corpus.npz")
    ids = (getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad", "mask"))
    return batches(corpus, Special(*ids, len(tokenizer)), BatchShape(), seed=0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batches", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
