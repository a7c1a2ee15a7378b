"""`qt-bert sweep`: what the model does without some of its heads, variant by variant."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.opening import figure, interval, table
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.run.inputs import discovery_of, pairs_or_test

if TYPE_CHECKING:
    from qt_bert.ablation.folder import SweepFolder
    from qt_bert.ablation.interventions import MeanZ
    from qt_bert.data.pairs import Pair
    from qt_bert.scoring.bulk import Scorer

SHOWN = 10
MAIN: tuple[str, ...] = ("accuracy", "pairwise_accuracy", "kl", "expected_grade")
"""Of these the first that is measured is shown: what is tested, or without labels a distance."""


@app.command(rich_help_panel=options.STUDY)
def sweep(
    out: Annotated[Path, typer.Option(help="Folder of the sweep.")],
    model: options.Model = None,
    pairs: Annotated[
        Path | None,
        typer.Option(help="File of pairs, graded or not. [default: the test split that ships]"),
    ] = None,
    masks: Annotated[
        list[str] | None,
        typer.Option(
            help="What is left out at a time: single, layers, halves, random, a file in the form of "
            "variants.csv, or heads, 'L2H1 L3H7' (repeatable). [default: single]"
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="What a head is replaced by: zero, uniform, mean; or block: in it query and title "
            "cannot see each other."
        ),
    ] = "zero",
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Pairs to take mean head outputs from, in the columns of --pairs. [default: the dev "
            "split that ships, or the discovery half of --pairs]"
        ),
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws a step of halves and random.")] = 20,
    limit: Annotated[
        int | None, typer.Option(help="Take about so many pairs, whole queries drawn by --seed.")
    ] = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    rejects: options.Rejects = None,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of queries.")] = 2000,
    seed: options.Seed = 0,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Run the model with heads left out: logits, effects with intervals, and checks, in a
    folder."""
    path = pairs_or_test(pairs)
    asked = ReaderOptions(columns, no_header, grades, max_rejects)
    asked.open(path)
    from qt_bert.ablation.request import interventions_with, variants_asked
    from qt_bert.ablation.sweep import check_flags, run_sweep
    from qt_bert.files import sha256_file
    from qt_bert.results.probe import PairsRef

    check_flags(out, resume=resume, overwrite=overwrite)
    scorer = opening.open_scorer(
        model, dtype=dtype, max_length=max_length, model_grades=model_grades, by_head=True
    )
    taken = _pairs(path, asked, scorer, rejects, limit, seed)
    means = _Means(path, reference, asked)
    variants = variants_asked(
        masks or ["single"],
        scorer.checkpoint.shape,
        mode,
        interventions_with(lambda: means.of(scorer)),
        draws=draws,
        seed=seed,
    )
    means.check_used()
    with opening.resumable(out):
        folder = run_sweep(
            scorer,
            taken,
            variants,
            out,
            pairs_ref=PairsRef(name=path.name, sha256=sha256_file(path)),
            arguments={
                "masks": masks or ["single"],
                "mode": mode,
                "reference": means.taken,
                "draws": draws,
                "limit": limit,
                "reader": asdict(asked),
            },
            resamples=resamples,
            seed=seed,
            resume=resume,
            overwrite=overwrite,
        )
    opening.tell_truncation(scorer)
    typer.echo(_as_json(folder) if as_json else _as_text(folder))


def _pairs(
    path: Path,
    asked: ReaderOptions,
    scorer: Scorer,
    rejects: Path | None,
    limit: int | None,
    seed: int,
) -> list[Pair]:
    from qt_bert.ablation.request import load_pairs_for_sweep
    from qt_bert.data.splits import sample_queries

    labels = scorer.checkpoint.settings.labels
    found, rejected = load_pairs_for_sweep(path, asked, labels, rejects_path=rejects)
    opening.tell_rejects(rejected, rejects)
    return found if limit is None else sample_queries(found, limit, seed)


@dataclass
class _Means:
    """Where mean head outputs come from: --reference, else the discovery pairs that belong to
    --pairs."""

    pairs: Path
    reference: Path | None
    reader: ReaderOptions
    taken: dict[str, str] | None = None

    def of(self, scorer: Scorer) -> MeanZ:
        """The mean head outputs; `taken` then names the file."""
        from qt_bert.ablation.request import discovery_pairs, reference_means
        from qt_bert.files import sha256_file

        own = self.reference or discovery_of(self.pairs)
        path = own or self.pairs
        self.taken = {"name": path.name, "sha256": sha256_file(path)}
        if own is None:
            self.taken["half"] = "discovery"
            return reference_means(scorer, discovery_pairs(path, self.reader))
        reader = self.reader if self.reference is not None else ReaderOptions()
        return reference_means(scorer, list(reader.open(path)))

    def check_used(self) -> None:
        """ArgumentError for a reference that no variant asked for."""
        if self.reference is not None and self.taken is None:
            raise ArgumentError("--reference goes with --mode mean, which no variant has")


def _as_json(folder: SweepFolder) -> str:
    from qt_bert.codec import encode

    effects: list[dict[str, Any]] = [row._asdict() for row in folder.effects]
    return json.dumps(
        {"out": str(folder.path), **encode(folder.record), "effects": effects}, ensure_ascii=False
    )


def _as_text(folder: SweepFolder) -> str:
    """The variants that change the main metric most."""
    measured = {row.metric for row in folder.effects}
    metric = next(name for name in MAIN if name in measured)
    changes = [row for row in folder.effects if row.metric == metric]
    changes.sort(key=lambda row: -abs(row.absolute or 0))
    rows = [("variant", metric, "change", "95 % interval", "q")]
    for row in changes[:SHOWN]:
        values = (figure(row.value), figure(row.absolute))
        rows.append((row.name, *values, interval(row._asdict()), figure(row.q)))
    variants, pairs, _ = folder.record.shape
    return "\n".join(
        [
            f"{folder.record.model['name']} on {folder.record.pairs.name}: {pairs:,} pairs, "
            f"{variants - 1:,} variants; unmasked {metric} {figure(changes[0].base)}",
            "",
            table(rows),
            "",
            f"logits, effects, equivalence checks: {folder.path}",
        ]
    )
