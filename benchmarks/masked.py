"""Masked-character accuracy of pretrained models on unseen text.

    python benchmarks/masked.py MODEL... --data DATA

DATA holds corpus/*.txt.xz and pairs/ (the public corpora). The texts are queries and titles of the
held-out pair files that are not in the corpus; masked, cut and packed as in pretraining, the same for
every model.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from common.command import parser_of

from qt_bert.data.reader import PairReader
from qt_bert.models.loading import open_for_pretraining
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.training.corpus import load_corpus, text_lines
from qt_bert.training.pretrain import BatchShape, PretrainBatch, batches, losses, special_of

HELD_OUT = ("pairs/qbqtc_eval.jsonl", "pairs/kuake_qtr_eval.tsv")
SHORTEST = 8


def main() -> None:
    arguments = parse()
    torch.manual_seed(0)
    files = [arguments.data / name for name in HELD_OUT]
    for path in files:
        if not path.exists():
            print(f"{path} is not there, left out")
    for path, texts in unseen([path for path in files if path.exists()], arguments.data).items():
        print(
            f"\n{path.stem}: {len(texts):,} texts of {SHORTEST} characters or more, none in the corpus"
        )
        for folder in arguments.models:
            loss, accuracy, masked = measured(folder, texts, arguments.batches)
            print(f"  {folder}: loss {loss:.3f}, accuracy {accuracy:.3f} ({masked:,} masked)")


def unseen(files: list[Path], data: Path) -> dict[Path, list[str]]:
    """The distinct queries and titles of each file that are no line of the corpus, in order."""
    texts = {
        path: dict.fromkeys(t for pair in PairReader(path) for t in (pair.query, pair.title))
        for path in files
    }
    for shard in sorted((data / "corpus").glob("*.txt.xz")):
        for line in text_lines(shard):
            for of_file in texts.values():
                of_file.pop(line, None)
    return {path: [t for t in of_file if len(t) >= SHORTEST] for path, of_file in texts.items()}


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
    with tempfile.TemporaryDirectory() as work:
        shard = Path(work) / "text.txt"
        shard.write_text("\n".join(texts), encoding="utf-8")
        corpus = load_corpus(folder, [shard], [], Path(work) / "corpus.npz")
    return batches(corpus, special_of(open_tokenizer(folder), folder), BatchShape(), seed=0)


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--batches", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
