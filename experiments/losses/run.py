"""What does each loss give? One base, as many steps, several seeds.

python -m experiments.losses.run --out runs/losses
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.command import one_line_faults, parser_of
from experiments.students.run import judged_by, paired_differences
from qt_bert.cli.terminal import table
from qt_bert.codec import encode
from qt_bert.errors import ArgumentError
from qt_bert.files import write_json
from qt_bert.shipped import DEV, PRETRAINED, TEST, TRAIN, shipped
from qt_bert.stats.calibration import apply_cutoffs, fit_cutoffs
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics import METRICS
from qt_bert.training.finetune import TrainJob, TuneSettings, run_tuning
from qt_bert.training.losses import LossWeights
from qt_bert.training.recipes import PairSource
from qt_bert.training.state import workspace_of

LOSSES = ("nll", "ordinal", "margin", "listwise", "nll,margin", "nll,listwise")
"""The first is what the others are held against."""

SHOWN = ("qwk", "spearman", "ndcg_at_10")
CUT = "qwk_with_cutoffs"


def run_losses(
    out: Path,
    *,
    losses: Sequence[str] = LOSSES,
    seeds: int = 3,
    settings: TuneSettings,
    base: Path,
    train: Path,
    dev: Path,
    test: Path,
    max_length: int = 128,
) -> dict[str, Any]:
    """Train every loss with every seed under `out` and judge it on `test`; writes `out/losses.json`.

    Runs that are finished are taken as they are. Raises as `run_tuning` does.
    """
    read = {
        name: PairSource(path).read(labelled=True) for name, path in (("dev", dev), ("test", test))
    }
    runs: list[dict[str, Any]] = []
    judged: dict[str, dict[int, Judgements]] = {loss: {} for loss in losses}
    weights = {loss: LossWeights.read(loss, {}, LossWeights(), "--loss") for loss in losses}
    for seed in range(seeds):  # seed by seed: a work that is stopped has losses to compare
        for loss in losses:
            folder = out / f"{loss.replace(',', '+')}-{seed}"
            job = TrainJob(
                base=base,
                sources=(PairSource(train),),
                dev=PairSource(dev),
                max_length=max_length,
                stop_on="spearman",
                loss=weights[loss],
            )
            own = replace(settings, seed=seed, patience=0)
            facts = trained(job, folder, own)
            found = {name: judged_by(folder, pairs) for name, pairs in read.items()}
            judged[loss][seed] = found["test"]
            runs.append(
                {
                    "loss": loss,
                    "seed": seed,
                    "steps": facts["steps"],
                    "best_step": facts["best_step"],
                    "pairs_seen": facts["pairs_seen"],
                    "metrics": {name: METRICS[name].value(found["test"]) for name in SHOWN}
                    | {CUT: _with_cutoffs(found["dev"], found["test"])},
                }
            )
    first, *others = losses
    differences = [
        one
        for loss in others
        for one in paired_differences(
            judged[loss], judged[first], name=loss, on="test", metrics=SHOWN
        )
    ]
    result = {"against": first, "runs": runs, "differences": encode(differences)}
    write_json(out / "losses.json", result)
    return result


def trained(job: TrainJob, folder: Path, settings: TuneSettings) -> dict[str, Any]:
    """Train into `folder`, or take what is finished there; only the model stays."""
    facts = run_tuning(job, folder, settings, resume=True)
    shutil.rmtree(workspace_of(folder), ignore_errors=True)
    return facts


def _with_cutoffs(dev: Judgements, test: Judgements) -> float | None:
    """QWK on test by cut-offs of the expected grade that were fitted on dev."""
    if dev.truth is None or dev.expected is None or test.expected is None:
        raise ArgumentError("cut-offs are fitted on exact grades: give --dev and --test such")
    cutoffs = fit_cutoffs(dev.expected, dev.truth, n_levels=len(dev.levels))
    return METRICS["qwk"].value(test.with_predicted(apply_cutoffs(test.expected, cutoffs)))


def mean_of(values: Sequence[float | None]) -> str:
    """The mean over seeds ± their standard deviation, of the values that are defined."""
    there = [value for value in values if value is not None]
    spread = f" ± {np.std(there, ddof=1):.3f}" if len(there) > 1 else ""
    return f"{np.mean(there):.3f}{spread}" if there else "not defined"


def rows_of(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row a loss: means over seeds ± their standard deviation, and the difference of ρ."""
    rows: list[tuple[str, ...]] = [
        (
            "loss",
            "QWK",
            "QWK, cut-offs",
            "ρ",
            "NDCG@10",
            f"ρ − that of {result['against']}",
            "pairs a step",
        )
    ]
    for loss in dict.fromkeys(run["loss"] for run in result["runs"]):
        own = [run for run in result["runs"] if run["loss"] == loss]
        names = ("qwk", CUT, "spearman", "ndcg_at_10")
        cells = [mean_of([run["metrics"][name] for run in own]) for name in names]
        differ = ""
        for one in result["differences"]:
            if one["rival"] == loss and one["metric"] == "spearman" and one["ci_low"] is not None:
                differ = f"{one['difference']:+.3f} [{one['ci_low']:+.3f}, {one['ci_high']:+.3f}]"
        pairs = np.mean([run["pairs_seen"] / run["steps"] for run in own])
        rows.append((loss, *cells, differ, f"{pairs:.0f}"))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--loss", action="append", help="as of `qt-bert train`; repeatable")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--base", type=Path, default=shipped(PRETRAINED), help="encoder")
    parser.add_argument("--train", type=Path, default=shipped(TRAIN), help="graded file")
    parser.add_argument("--dev", type=Path, default=shipped(DEV), help="chooses steps and cut-offs")
    parser.add_argument("--test", type=Path, default=shipped(TEST), help="gives the figures")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args(arguments)
    with one_line_faults():
        result = run_losses(
            options.out,
            losses=options.loss or LOSSES,
            seeds=options.seeds,
            settings=TuneSettings(max_steps=options.steps, compile=not options.no_compile),
            base=options.base,
            train=options.train,
            dev=options.dev,
            test=options.test,
            max_length=options.max_length,
        )
    print(table(rows_of(result), left=1))


if __name__ == "__main__":
    main()
