"""The labelled attention maps and the classifier of patterns: drawn, shown, trained, judged.

    python -m benchmarks.pattern_maps draw --folder FOLDER       # other maps, of the shipped models
    python -m benchmarks.pattern_maps sheets --out PICTURES      # what labels.csv was made from
    python -m benchmarks.pattern_maps train                      # classifier.json, and its figures

`train` reads `labels.csv` and, where it is there, `second.csv` of the folder.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common.readme import markdown_table, rewrite_section
from qt_bert.encoder import open_checkpoint
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.pairs import GradeMap, read_pairs
from qt_bert.probes.common.base_model import open_base, random_like
from qt_bert.probes.map_patterns.classifier import TrainingRecord
from qt_bert.probes.map_patterns.drawing import draw
from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.stored import CELLS, read_maps, save_maps
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import DEV, GRADED, PRETRAINED, STUDENT, shipped

COUNTS = {"pretrained": 150, "graded": 150, "student": 150, "random": 30}
SEED = 8
CARD = "README.md"


def main(arguments: list[str] | None = None) -> None:
    """Run the command asked for; an input's fault is one line and exit status 2."""
    asked = _parse(arguments)
    try:
        COMMANDS[asked.command](asked)
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def draw_maps(asked: argparse.Namespace) -> None:
    """Draw maps of the shipped models on the pairs of dev. Labelled ones are never drawn over."""
    if (asked.folder / CELLS).exists():
        raise ArgumentError(f"{asked.folder}: has maps; give a new folder with --folder")
    graded = open_checkpoint(shipped(GRADED))
    models = {
        "pretrained": open_base(shipped(PRETRAINED), graded),
        "graded": graded,
        "student": open_checkpoint(shipped(STUDENT)),
        "random": random_like(graded, asked.seed),
    }
    pairs = read_pairs(shipped(DEV), grade_map=GradeMap.identity())
    scorers = {name: Scorer(checkpoint) for name, checkpoint in models.items()}
    maps = draw(scorers, COUNTS, pairs, asked.seed)
    hashes = {name: checkpoint.sha256 for name, checkpoint in models.items()}
    save_maps(asked.folder, maps, {**hashes, "pairs": DEV, "seed": str(asked.seed)})
    print(f"{len(maps)} maps in {asked.folder}")


def draw_pictures(asked: argparse.Namespace) -> None:
    """Contact sheets of the stored maps."""
    from benchmarks.patterns.sheets import draw_sheets

    written = draw_sheets(read_maps(asked.folder), asked.out)
    print(f"{len(written)} sheets in {asked.out}")


def train(asked: argparse.Namespace) -> None:
    """Judge both classifiers over folds, train the better one on all maps, print the figures."""
    from benchmarks.patterns.train import train_classifier

    begun = time.perf_counter()
    record = train_classifier(asked.folder, shipped(STUDENT), asked.seed)
    text = _figures(record)
    print(text, f"{time.perf_counter() - begun:.0f} s", sep="\n\n")
    if (asked.folder / CARD).exists():
        rewrite_section(asked.folder / CARD, "figures", text)


def _figures(record: TrainingRecord) -> str:
    """Both classifiers and the two passes as the card shows them."""
    rows = [["", "macro-F1 [95 %]", "over all five", "accuracy", *KINDS]]
    for name, judged in record.judged.items():
        one = judged.macro_f1
        rows.append(
            [
                f"**{name}**" if name == record.chosen else name,
                f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]",
                f"{judged.macro_f1_all:.3f}",
                f"{judged.accuracy:.3f}",
                *("–" if f1 is None else f"{f1:.2f}" for f1 in judged.f1),
            ]
        )
    parts = [markdown_table(rows)]
    parts.append(f"Labels (rows) by answers of {record.chosen}, each given by other heads' maps:")
    parts.append(_crossed(record.judged[record.chosen].confusion, "label"))
    if record.passes is not None:
        one = record.passes.kappa
        parts.append(
            f"Two passes: κ = {one.value:.3f} [{one.low:.3f}, {one.high:.3f}], the same label for "
            f"{record.passes.agreed:.1%} of the maps. First pass (rows) by second:"
        )
        parts.append(_crossed(record.passes.confusion, "first"))
    return "\n\n".join(parts)


def _crossed(counts: tuple[tuple[int, ...], ...], corner: str) -> str:
    rows = [[kind, *map(str, row)] for kind, row in zip(KINDS, counts, strict=True)]
    return markdown_table([[corner, *KINDS], *rows])


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "draw": draw_maps,
    "sheets": draw_pictures,
    "train": train,
}


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--folder", type=Path, default=Path("data/patterns"), help="of the maps")
    parser.add_argument("--out", type=Path, default=Path("pattern_sheets"), help="for pictures")
    parser.add_argument("--seed", type=int, default=SEED)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
