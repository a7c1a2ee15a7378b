"""What several models say of the training pairs in the mean, as a teacher for `qt-bert train`.

python -m experiments.grades.ensemble --data DATA --out DATA/taught.tsv MODEL MODEL...

Of this project's own pairs and of the judged ones, or of `--pairs`; the pairs that follow a rule or a
contrast, or that models still get wrong, are left to their labels. Columns as of `qt-bert score`: p_1 … p_5 of grades, p_0 … of levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import softmax

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.data.reader import PairReader, one_line
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write
from qt_bert.models.opening import open_checkpoint
from qt_bert.progress import progress
from qt_bert.scoring.bulk import Scorer

SOURCES = ("own/train.tsv", "own/train_hard.tsv", "own/train_middle.tsv", "judged/train.tsv")


def mean_probabilities(
    models: Sequence[Path], texts: Sequence[tuple[str, str]]
) -> tuple[list[str], np.ndarray]:
    """The names of the grades or levels, and the probability of each [text, K], the mean over the models.

    A folder that is named twice counts twice. Raises CheckpointError for a folder that cannot be read,
    ArgumentError for models of other outputs.
    """
    opened = {path: open_checkpoint(path, dtype="bfloat16") for path in models}
    common = opened[models[0]].settings.labels
    for path, model in opened.items():
        labels = model.settings.labels
        if labels.logits < 2 or labels != common:
            raise ArgumentError(
                f"{path}: {labels.logits} logits; all models need the same labels, two or more"
            )
    parts = {}
    for path, model in opened.items():
        with progress(len(texts), model.name, "pairs") as shown:
            parts[path] = softmax(Scorer(model).logits(texts, shown), axis=1)
    return common.names, np.mean([parts[path] for path in models], axis=0)


def write_taught(data: Path, models: Sequence[Path], sources: Sequence[str], out: Path) -> int:
    """Write the mean of each pair of the `sources` in `data`, once, to `out`; returns how many."""
    pairs = (pair for name in sources for pair in PairReader(data / name))
    texts = list(dict.fromkeys((pair.query, pair.title) for pair in pairs))
    names, probabilities = mean_probabilities(models, texts)
    lines = ["\t".join(("query", "title", *(f"p_{name}" for name in names)))]
    for one, row in zip(texts, probabilities, strict=True):
        lines.append("\t".join((*map(one_line, one), *(f"{value:.5f}" for value in row))))
    with atomic_write(out) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(texts)


def main(arguments: list[str] | None = None) -> None:
    """Write the file; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True, help="the folder of own/ and judged/")
    parser.add_argument(
        "--pairs", nargs="+", default=SOURCES, metavar="FILE", help="in that folder"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    with one_line_faults():
        count = write_taught(options.data, options.models, options.pairs, options.out)
    print(f"{count:,} pairs taught by {len(options.models)} models: {options.out}")


if __name__ == "__main__":
    main()
