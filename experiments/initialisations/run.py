"""What are pretraining and fine-tuning each worth? Four starts of one encoder, judged alike.

    python -m experiments.initialisations.run --out runs/initialisations

After Kovaleva et al. 2019, "How much difference does fine-tuning make?", which compares pretrained
weights with a classifier on top, random weights fine-tuned, and pretrained weights fine-tuned. The
first is described as a classifier trained over frozen weights, but its figures look like those of
an untrained one; both are run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoModelForSequenceClassification

from benchmarks.common.command import one_line_faults, parser_of
from experiments.losses.run import trained
from experiments.students.run import judged_by, resampled
from qt_bert.cli.terminal import figure, interval, table
from qt_bert.data.pairs import Pair
from qt_bert.errors import CheckpointError, PairFileError
from qt_bert.files import write_json
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.folder import verify_folder, weight_shapes
from qt_bert.models.loading import load_config, without_dropout
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.progress import progress
from qt_bert.scoring.judge import judge_logits
from qt_bert.shipped import DEV, PRETRAINED, TEST, TRAIN, shipped
from qt_bert.stats.estimate import interval_or_reason
from qt_bert.stats.judgements import FIVE_GRADES, Judgements
from qt_bert.stats.metrics import METRICS
from qt_bert.training.finetune import TrainJob, TuneSettings
from qt_bert.training.recipes import PairSource

LABELS = ModelLabels(len(FIVE_GRADES), FIVE_GRADES)
JUDGED = ("dev", "test")
SHOWN = ("accuracy", "qwk", "spearman")
CHOSEN_BY = "qwk"
RATES = (7e-5, 2e-4, 6e-4, 2e-3)
PENALTIES = (0.1, 1.0, 10.0)
"""Inverse strengths of the penalty on a classifier over frozen weights."""


@dataclass(frozen=True)
class Study:
    """One encoder, the files, and the folder that keeps the models.

    `files` are `train`, `dev` (chooses rates and steps) and `test` (gives the figures).
    """

    base: Path
    files: dict[str, Path]
    out: Path
    settings: TuneSettings
    seeds: int = 3
    max_length: int = 128
    runs: list[dict[str, Any]] = field(default_factory=list)
    on_test: list[Judgements] = field(default_factory=list)

    def run(self) -> list[dict[str, Any]]:
        """Every start, as `means` gives them; also in `out`/initialisations.json, with all runs.

        Models that are finished are taken as they are. Raises CheckpointError for a base that was
        fine-tuned, PairFileError where two files share a query, and as `run_tuning` does.
        """
        _, family = verify_folder(self.base)
        if family.classifier in weight_shapes(self.base):
            raise CheckpointError(
                f"{self.base}: it was fine-tuned; the study starts from the model before that"
            )
        pairs = {name: PairSource(path).read(labelled=True) for name, path in self.files.items()}
        _check_apart(pairs)
        self._frozen(pairs)
        for start in ("random", "tuned"):
            tried = {rate: self._tuned(start, rate, 0, pairs) for rate in RATES}
            best = max(tried, key=lambda rate: _merit(tried[rate]))
            final = [tried[best]]
            final += [self._tuned(start, best, seed, pairs) for seed in range(1, self.seeds)]
            for one in final:
                one["final"] = True
        starts = self.means()
        write_json(self.out / "initialisations.json", {"runs": self.runs, "starts": starts})
        return starts

    def means(self) -> list[dict[str, Any]]:
        """Of each start: what was chosen, and of each metric on test the mean over seeds.

        The interval is over queries, which are drawn alike for the models of all seeds.
        """
        found = []
        for start in dict.fromkeys(run["start"] for run in self.runs):
            which = [i for i, run in enumerate(self.runs) if run["start"] == start and run["final"]]
            row: dict[str, Any] = {"start": start, "rate": self.runs[which[0]]["rate"]}
            judged = [self.on_test[i] for i in which]
            for name in SHOWN:
                mean, *samples = resampled(judged, name).mean(axis=0)
                low, high, _ = interval_or_reason(np.array(samples), judged[0].n_queries)
                value = None if np.isnan(mean) else float(mean)
                row[name] = {"value": value, "ci_low": low, "ci_high": high}
            found.append(row)
        return found

    def _frozen(self, pairs: dict[str, list[Pair]]) -> None:
        """A classifier over the encoder's pooled vectors: as drawn, and trained."""
        vectors = {
            name: pooled(self.base, found, self.max_length, name) for name, found in pairs.items()
        }
        config = load_config(self.base)
        for seed in range(self.seeds):
            drawn = np.random.default_rng(seed).normal(
                scale=config.initializer_range, size=(config.hidden_size, LABELS.logits)
            )
            judged = {
                name: judge_logits(vectors[name] @ drawn, pairs[name], LABELS) for name in JUDGED
            }
            self._add("untrained", None, seed, judged)["final"] = True
        exact = [i for i, pair in enumerate(pairs["train"]) if len(pair.grades or ()) == 1]
        truth = [(pairs["train"][i].grades or ())[0] for i in exact]
        tried = []
        for penalty in PENALTIES:
            model = LogisticRegression(C=penalty, max_iter=5000)
            model.fit(vectors["train"][exact], truth)
            judged = {}
            for name in JUDGED:
                logits = np.full((len(pairs[name]), LABELS.logits), -np.inf)
                logits[:, model.classes_ - 1] = model.predict_log_proba(vectors[name])
                judged[name] = judge_logits(logits, pairs[name], LABELS)
            tried.append(self._add("frozen", penalty, 0, judged))
        max(tried, key=_merit)["final"] = True

    def _tuned(
        self, start: str, rate: float, seed: int, pairs: dict[str, list[Pair]]
    ) -> dict[str, Any]:
        """The whole model fine-tuned, from random weights or from the base."""
        base = self.base if start == "tuned" else self._random(seed)
        folder = self.out / f"{start}-{rate:g}-{seed}"
        job = TrainJob(
            base=base,
            sources=(PairSource(self.files["train"]),),
            dev=PairSource(self.files["dev"]),
            max_length=self.max_length,
            stop_on=CHOSEN_BY,
        )
        trained(job, folder, replace(self.settings, lr=rate, seed=seed))
        judged = {name: judged_by(folder, pairs[name]) for name in JUDGED}
        return self._add(start, rate, seed, judged)

    def _random(self, seed: int) -> Path:
        """A model in the shape of the base, with weights as before pretraining."""
        folder = self.out / f"random-weights-{seed}"
        if not folder.exists():
            config = without_dropout(load_config(self.base))
            config.num_labels = LABELS.logits
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                model = AutoModelForSequenceClassification.from_config(config)
            card = ModelSettings(LABELS, self.max_length)
            tokenizer = open_tokenizer(self.base)
            save_checkpoint(folder, model.float(), tokenizer, settings=card, dtype=torch.float32)
        return folder

    def _add(
        self, start: str, rate: float | None, seed: int, judged: dict[str, Judgements]
    ) -> dict[str, Any]:
        figures = {
            split: {name: METRICS[name].value(found) for name in SHOWN}
            for split, found in judged.items()
        }
        one = {"start": start, "rate": rate, "seed": seed, "final": False, **figures}
        self.runs.append(one)
        self.on_test.append(judged["test"])
        return one


@torch.inference_mode()
def pooled(base: Path, pairs: Sequence[Pair], max_length: int, name: str) -> np.ndarray:
    """Pooled first-token vectors [n, hidden] of an encoder that is left as it is."""
    model = AutoModel.from_pretrained(base).float().eval()
    tokenizer = open_tokenizer(base)
    found = []
    with progress(len(pairs), f"frozen encoder, {name}", "pairs") as shown:
        for start in range(0, len(pairs), 64):
            part = pairs[start : start + 64]
            read = tokenizer(
                [pair.query for pair in part],
                [pair.title for pair in part],
                truncation=True,
                max_length=max_length,
                padding=True,
                return_tensors="pt",
            )
            found.append(model(**read).pooler_output.numpy())
            shown.advance(len(part))
    return np.concatenate(found).astype(np.float64)


def _check_apart(pairs: dict[str, list[Pair]]) -> None:
    queries = {name: {pair.query for pair in found} for name, found in pairs.items()}
    for one, other in combinations(queries, 2):
        if shared := queries[one] & queries[other]:
            raise PairFileError(
                f"--{other}: {len(shared)} of its queries also stand in --{one}; the starts are "
                "judged on queries they never saw, so leave them out of one"
            )


def _merit(one: dict[str, Any]) -> float:
    value = one["dev"][CHOSEN_BY]
    return -np.inf if value is None else float(value)


def rows_of(starts: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A row a start: what was chosen on dev; on test the mean over seeds [95 % over queries]."""
    rows: list[tuple[str, ...]] = [("start", "chosen", "accuracy", "QWK", "ρ")]
    for one in starts:
        rate = "" if one["rate"] is None else f"{one['rate']:g}"
        cells = [f"{figure(one[name]['value'])} {interval(one[name])}" for name in SHOWN]
        rows.append((one["start"], rate, *cells))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of figures and models")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--base", type=Path, default=shipped(PRETRAINED), help="encoder, not tuned")
    parser.add_argument("--train", type=Path, default=shipped(TRAIN), help="graded file")
    parser.add_argument("--dev", type=Path, default=shipped(DEV), help="chooses rates and steps")
    parser.add_argument("--test", type=Path, default=shipped(TEST), help="gives the figures")
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args(arguments)
    study = Study(
        options.base,
        {name: getattr(options, name) for name in ("train", "dev", "test")},
        options.out,
        TuneSettings(epochs=options.epochs, patience=0, compile=not options.no_compile),
        seeds=options.seeds,
        max_length=options.max_length,
    )
    with one_line_faults():
        starts = study.run()
    print(table(rows_of(starts), left=1))


if __name__ == "__main__":
    main()
