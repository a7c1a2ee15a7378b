"""The labelled attention maps and the classifier of patterns: drawn, shown, trained, judged.

    python -m experiments.pattern_maps.run draw --folder FOLDER    # other maps, of the shipped models
    python -m experiments.pattern_maps.run sheets --out PICTURES   # what labels.csv was made from
    python -m experiments.pattern_maps.run train                   # classifier.json, and its figures

`train` reads `labels.csv` and, where it is there, `second.csv` of the folder.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.common.command import one_line_faults, parser_of
from benchmarks.common.readme import markdown_table, rewrite_section
from experiments.pattern_maps.drawing import draw, draw_sheets
from experiments.pattern_maps.fitting import train_classifier
from experiments.pattern_maps.stored import CELLS, DrawnMap, read_maps, save_maps
from qt_bert.data.pairs import GradeMap
from qt_bert.data.reader import read_pairs
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.base_model import open_base, random_like
from qt_bert.probes.pattern_maps import (
    ANSWERS,
    FIRST,
    KINDS,
    RANDOM,
    RULES_SECOND,
    SECOND,
    Evaluation,
    Score,
    TrainingRecord,
)
from qt_bert.results.kept import KeptFile
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import DEV, GRADED, PRETRAINED, STUDENT, shipped

COUNTS = {"pretrained": 150, "graded": 150, "student": 150, RANDOM: 30}
SEED = 8
CARD = "README.md"


def main(arguments: list[str] | None = None) -> None:
    """Run the requested command; an input's fault is one line and exit status 2."""
    options = _parse(arguments)
    with one_line_faults():
        COMMANDS[options.command](options)


def draw_maps(options: argparse.Namespace) -> None:
    """Draw maps of the shipped models on the pairs of dev. Labelled ones are never drawn over."""
    if (options.folder / CELLS).exists():
        raise ArgumentError(f"{options.folder}: has maps; give a new folder with --folder")
    graded = open_checkpoint(shipped(GRADED))
    models = {
        "pretrained": open_base(shipped(PRETRAINED), graded),
        "graded": graded,
        "student": open_checkpoint(shipped(STUDENT)),
        RANDOM: random_like(graded, options.seed),
    }
    pairs = read_pairs(shipped(DEV), grade_map=GradeMap.identity())
    scorers = {name: Scorer(checkpoint) for name, checkpoint in models.items()}
    kept = KeptFile.read(shipped(STUDENT))
    maps = with_teachers(draw(scorers, COUNTS, pairs, options.seed), kept.names if kept else {})
    hashes = {name: checkpoint.sha256 for name, checkpoint in models.items()}
    save_maps(options.folder, maps, {**hashes, "pairs": DEV, "seed": str(options.seed)})
    print(f"{len(maps)} maps in {options.folder}")


def with_teachers(maps: Iterable[DrawnMap], names: Mapping[str, str]) -> list[DrawnMap]:
    """The maps; those of the student with the teacher's head that each head started as."""
    return [
        replace(one, teacher=Head.parse(names[str(Head(one.layer, one.head))]))
        if one.model == "student" and names
        else one
        for one in maps
    ]


def draw_pictures(options: argparse.Namespace) -> None:
    """Contact sheets of the stored maps."""
    written = draw_sheets(read_maps(options.folder), options.out)
    print(f"{len(written)} sheets in {options.out}")


def train(options: argparse.Namespace) -> None:
    """Judge the rules over folds, fit them on all maps, print the figures."""
    begun = time.perf_counter()
    record = train_classifier(options.folder, options.seed)
    text = card_figures(options.folder, record)
    print(text, f"{time.perf_counter() - begun:.0f} s", sep="\n\n")
    if (options.folder / CARD).exists():
        rewrite_section(options.folder / CARD, "figures", text)


def card_figures(folder: Path, record: TrainingRecord) -> str:
    """The figures of the card: the rules, the two passes, and the labels of every model."""
    return "\n\n".join(_figures(folder, record))


def _figures(folder: Path, record: TrainingRecord) -> Iterator[str]:
    heads = ["macro-F1 [95 %]", "without random weights", "over all five", "accuracy"]
    rows = [["", *heads, *KINDS]]
    for name, judged in record.judged.items():
        rows.append([f"**{name}**" if name == record.chosen else name, *_judged(judged)])
    if record.judged_second is not None:
        rows.append(["rules of the second pass, by its labels", *_judged(record.judged_second)])
    yield markdown_table(rows)
    rules = [["threshold", *asdict(record.rules)]]
    for name, one in (("rules", record.rules), ("of the second pass", record.rules_second)):
        if one is not None:
            rules.append([name, *(f"{value:g}" for value in asdict(one).values())])
    yield markdown_table(rules)
    yield f"Labels (rows) by answers of {record.chosen}, each given by other heads' maps:"
    yield _crossed(record.judged[record.chosen].confusion, "label")
    if record.passes is not None:
        passes = record.passes
        yield (
            f"Two passes: κ = {_with_ends(passes.kappa)}, without random weights "
            f"{_with_ends(passes.kappa_trained)}; the same label for {passes.agreed:.1%} of the maps. "
            "First pass (rows) by second:"
        )
        yield _crossed(passes.confusion, "first")
    yield "Labels of the maps of each model, and answers for them:"
    yield markdown_table(_by_model(folder, record.chosen))


def _judged(judged: Evaluation) -> list[str]:
    return [
        _with_ends(judged.macro_f1),
        _with_ends(judged.macro_f1_trained),
        f"{judged.macro_f1_all:.3f}",
        f"{judged.accuracy:.3f}",
        *("–" if f1 is None else f"{f1:.2f}" for f1 in judged.f1),
    ]


def _with_ends(one: Score) -> str:
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def _by_model(folder: Path, chosen: str) -> list[list[str]]:
    """Counts of the kinds, by model and column of the answers."""
    with (folder / ANSWERS).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    answers = {
        FIRST: "first pass",
        chosen: chosen,
        SECOND: "second pass",
        RULES_SECOND: "its rules",
    }
    table = [["model", "by", *KINDS]]
    for model in dict.fromkeys(sorted(row["model"] for row in rows)):
        for column, name in answers.items():
            if column in rows[0]:
                counts = Counter(row[column] for row in rows if row["model"] == model)
                table.append([model, name, *(str(counts[kind]) for kind in KINDS)])
    return table


def _crossed(counts: tuple[tuple[int, ...], ...], corner: str) -> str:
    rows = [[kind, *map(str, row)] for kind, row in zip(KINDS, counts, strict=True)]
    return markdown_table([[corner, *KINDS], *rows])


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "draw": draw_maps,
    "sheets": draw_pictures,
    "train": train,
}


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--folder", type=Path, default=Path("data/patterns"), help="of the maps")
    parser.add_argument("--out", type=Path, default=Path("pattern_sheets"), help="for pictures")
    parser.add_argument("--seed", type=int, default=SEED)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
