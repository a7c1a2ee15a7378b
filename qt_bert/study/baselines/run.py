"""`qt-bert baselines`: train what is not there, judge all side by side, write the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.files import sha256_file
from qt_bert.pairs import Pair
from qt_bert.probes.common.base_model import open_base, random_like
from qt_bert.probes.split import Split, reference
from qt_bert.results.baselines import (
    CHARACTERS,
    LEXICAL,
    MODELS,
    RANDOM,
    Baselines,
    BaselinesRecord,
    TableRow,
    digest_of,
    labels_of,
)
from qt_bert.scoring.bulk import Scorer
from qt_bert.sources import installed_versions
from qt_bert.study.baselines.checks import check_job
from qt_bert.study.baselines.folder import Arrays, BaselinesFolder
from qt_bert.study.baselines.heads import (
    boundary,
    boundary_outputs,
    head_read,
    matching,
    matching_outputs,
)
from qt_bert.study.baselines.job import ENTRIES, HALVES, STARTS, BaselinesJob
from qt_bert.study.baselines.judging import (
    Grader,
    fit_lexical,
    graded,
    grader,
    pairs_per_second,
    spearman,
    texts_of,
)
from qt_bert.study.baselines.pretraining import Said, pretrain_all
from qt_bert.study.baselines.tuning import Tuned, Tuning


def run_baselines(
    job: BaselinesJob,
    out: Path,
    *,
    said: Said,
    resume: bool = False,
    overwrite: bool = False,
) -> Baselines:
    """Make the table in `out`, or under `resume` go on with it.

    Raises as `check_job` does, RunFolderError where the flags do not fit what lies there, and what
    training and scoring raise.
    """
    check_job(job)
    folder = BaselinesFolder.open(out, _asked(job), resume=resume, overwrite=overwrite)
    pretraining = pretrain_all(job, folder, said)
    tuned = Tuning(job, folder, said).rows()
    halves = job.halves
    said("judging")
    rows, probabilities = _table(job, folder, tuned, halves)
    said("reading heads")
    heads = {kind: _heads(folder, halves, kind) for kind in (boundary, matching)}
    found = Baselines(
        BaselinesRecord(
            versions=installed_versions(),
            recipe=Path(job.recipe.where).name,
            pairs=reference(job.files.pairs, halves.validation),
            digest=digest_of(texts_of(halves.validation)),
            discovery=reference(job.files.discovery or job.files.pairs, halves.discovery),
            pretraining=tuple(pretraining),
            rows=tuple(rows),
            boundary=tuple(head_read(name, one) for name, one in heads[boundary].items()),
            matching=tuple(head_read(name, one) for name, one in heads[matching].items()),
            settings=_settings(job),
        ),
        probabilities,
        labels_of(pair.grades for pair in halves.validation),
        _queries(halves.validation),
        {name: boundary_outputs(one) for name, one in heads[boundary].items() if one},
        {name: matching_outputs(one) for name, one in heads[matching].items() if one},
    )
    found.write(out)
    return found


def _table(
    job: BaselinesJob,
    folder: BaselinesFolder,
    tuned: Mapping[str, Tuned],
    halves: Split,
) -> tuple[list[TableRow], np.ndarray]:
    """The rows, and the probabilities of each on validation [rows, pairs, 5]."""
    scorers = {entry.name: Scorer(open_checkpoint(folder.model(entry.name))) for entry in ENTRIES}
    lexical = fit_lexical(job)
    graders: dict[str, Grader] = {name: grader(one) for name, one in scorers.items()}
    graders[LEXICAL] = lexical.grade
    pairs = {name: digest_of(texts_of(getattr(halves, name))) for name in HALVES}
    of_half = {name: getattr(halves, name) for name in pairs}
    said = {
        name: graded(
            name, {"weights": _stands_for(name, job, scorers), **pairs}, folder, one, of_half
        )
        for name, one in graders.items()
    }
    speed = pairs_per_second(graders, texts_of(halves.validation))
    rows = [
        TableRow(
            name=name,
            pairs_per_second=speed[name],
            discovery=spearman(said[name]["discovery"].astype(float), halves.discovery),
            **(
                _lexical_row(lexical.parameters, lexical.n_pairs)
                if name == LEXICAL
                else _row(scorers[name], tuned[name])
            ),
        )
        for name in MODELS
    ]
    return rows, np.stack([said[name]["validation"] for name in MODELS])


def _stands_for(name: str, job: BaselinesJob, scorers: Mapping[str, Scorer]) -> object:
    if name == LEXICAL:
        return [source.options_key for source in job.recipe.pairs]
    return scorers[name].checkpoint.sha256


def _row(scorer: Scorer, tuned: Tuned) -> dict[str, Any]:
    facts = tuned.facts
    return {
        "architecture": facts["architecture"],
        "base": facts["base"],
        "sha256": scorer.checkpoint.sha256,
        "parameters": scorer.checkpoint.parameters,
        "steps": facts["steps"],
        "rate": tuned.rate,
        "rate_of": tuned.entry.rate_of,
        "tried": tuned.tried,
        "pairs_seen": facts["pairs_seen"],
    }


def _lexical_row(parameters: int, n_pairs: int) -> dict[str, Any]:
    nothing = {"base": None, "sha256": None, "steps": None, "rate": None}
    return {"architecture": LEXICAL, "parameters": parameters, "pairs_seen": n_pairs, **nothing}


def _heads(
    folder: BaselinesFolder, halves: Split, read: Callable[[Scorer, Split, int], Arrays]
) -> dict[str, Arrays]:
    """What a kind of head gives in each model pretrained anew, and in random weights."""
    found: dict[str, Arrays] = {}
    for name in (*(start.name for start in STARTS), RANDOM):
        tuned = open_checkpoint(folder.model(CHARACTERS if name == RANDOM else name))
        if name == RANDOM:
            checkpoint = random_like(tuned)
        else:
            checkpoint = open_base(folder.pretraining(name), tuned)
        key = {"weights": checkpoint.sha256} | {
            half: digest_of(texts_of(getattr(halves, half))) for half in HALVES
        }
        found[name] = folder.measured(
            f"{read.__name__}-{name}", key, partial(read, Scorer(checkpoint), halves, 0)
        )
    return found


def _queries(pairs: Sequence[Pair]) -> np.ndarray:
    """The number of each pair's query, in order of first appearance [pairs]."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(pair.query, len(numbers)) for pair in pairs])


def _asked(job: BaselinesJob) -> dict[str, Any]:
    """All inputs: what a folder that was begun must have been begun with."""
    recipe, inner = job.recipe, job.pretraining
    return {
        "recipe": job.asked(),
        "base": weights_sha256(job.base),
        "pairs": {half: digest_of(texts_of(getattr(job.halves, half))) for half in HALVES},
        "files": [source.options_key for source in (*recipe.pairs, *inner.pairs)],
        "dev": recipe.dev.options_key if recipe.dev else None,
        "text": [sha256_file(shard) for shard in inner.text],
    }


def _settings(job: BaselinesJob) -> dict[str, Any]:
    recipe, inner = job.recipe, job.pretraining
    return job.asked() | {
        "text": [shard.name for shard in inner.text],
        "pretraining_pairs": [source.file.name for source in inner.pairs],
        "tuning_pairs": [source.file.name for source in recipe.pairs],
    }
