"""Figures to choose a model of grades by: dev, judged dev and one half of the behaviour cases.

    python -m experiments.grades.choose --data DATA MODEL MODEL...

Each change is from the first model, with its 95 % interval over queries. The other half of the cases
(`--other-half`), test and the public files are opened once, for the model that ships (`benchmarks/figures.py`).
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

import qt_bert
from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.data.cases import BETTER, Case, read_cases, titles_then_others
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.probes.behaviour import higher
from qt_bert.scoring.judge import judge_file
from qt_bert.shipped import BEHAVIOURS, DEV, shipped
from qt_bert.stats.comparison import compare
from qt_bert.stats.judgements import Judgements

METRICS = {"dev": ("accuracy", "qwk", "spearman"), "judged dev": ("accuracy", "spearman")}


def half_of_cases(other: bool) -> list[Case]:
    """The cases with a better title whose id has an even last byte of SHA-256, or the `other` half."""
    return [
        case
        for case in read_cases(shipped(BEHAVIOURS)).listed
        if case.relation == BETTER and sha256(case.id.encode()).digest()[-1] % 2 == int(other)
    ]


def better_higher(model: qt_bert.Grader, cases: list[Case]) -> float:
    """The share of cases whose better title has the higher expected grade; a tie counts half."""
    pairs = [(pair.query, pair.title) for pair in titles_then_others(cases)]
    titles, others = np.split(model.score(pairs)["expected_grade"].to_numpy(), 2)
    return float(higher(titles - others).mean())


def main(arguments: list[str] | None = None) -> None:
    """Print a row a model and file; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True, help="the folder of judged/")
    parser.add_argument("--other-half", action="store_true", help="of the behaviour cases")
    options = parser.parse_args(arguments)
    files = {"dev": shipped(DEV), "judged dev": options.data / "judged/dev.tsv"}
    cases = half_of_cases(options.other_half)
    first: dict[str, Judgements] = {}
    with one_line_faults():
        for path in options.models:
            model = qt_bert.load(path)
            if model.scorer.settings.labels.logits == 1:
                raise ArgumentError(f"{path}: it gives one score and no grades")
            for name, file in files.items():
                judged = judge_file(file, ReaderOptions(), model.scorer).judgements
                changes = compare(
                    first.setdefault(name, judged),
                    judged,
                    metrics=METRICS[name],
                    resamples=500,
                    draws=0,
                ).metrics
                row = ", ".join(
                    f"{metric} {change.value_b:.3f} ({change.difference:+.3f} "
                    f"[{change.ci_low:+.3f}, {change.ci_high:+.3f}])"
                    for metric, change in changes.items()
                )
                print(f"{path}: {name}: {row}", flush=True)
            share = better_higher(model, cases)
            print(f"{path}: better title higher {share:.3f} of {len(cases)} cases", flush=True)


if __name__ == "__main__":
    main()
