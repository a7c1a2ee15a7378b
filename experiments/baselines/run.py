"""Nine ways to grade a pair, trained on the same pairs, judged and timed side by side.

    python -m experiments.baselines.run --data DATA --out runs/baselines

pretrains three models anew for minutes (characters, words, characters without the pair objective: same
texts, same order), tunes eight by one recipe, fits the lexical baseline, judges and times all nine in
turns, reads the heads of the three, and writes the record. Run again with the same --out it goes on
where it was killed; other inputs need another --out.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax
from scipy.stats import rankdata

from benchmarks.common.command import one_line_faults, parser_of
from benchmarks.common.machine import median_seconds
from experiments.baselines.lexical import (
    LexicalFeatures,
    fit_best,
    judge,
    labelled,
    texts_of,
    word_segmenter,
)
from experiments.baselines.rivals import ENCODES, LABELS, RivalScorer, tune_rival
from experiments.baselines.words import spaced, spaced_shard, spaced_source, stacked, word_start
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter, word_ends
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write
from qt_bert.heads import Head
from qt_bert.models.folder import weights_sha256
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.base import Split, read_split, reference
from qt_bert.probes.base_model import open_base, random_like
from qt_bert.probes.boundary import calibrate
from qt_bert.probes.boundary_decisions import (
    LEAST_DECISIONS,
    CharacterAttention,
    attention_of,
    decisions_of,
    distinct_texts,
)
from qt_bert.probes.matching_scores import score_heads
from qt_bert.request import Request
from qt_bert.results.baselines import (
    BERT_LSTM,
    CHARACTERS,
    CROSS_ENCODER,
    LEXICAL,
    LSTM,
    LSTM_WORDS,
    MODELS,
    NO_PAIRS,
    RANDOM,
    TWO_TOWER,
    WORDS,
    Baselines,
    BaselinesRecord,
    BoundaryOutputs,
    HeadRead,
    MatchingOutputs,
    Pretraining,
    RateTrial,
    TableRow,
    digest_of,
    labels_of,
)
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import DEV, PRETRAINED, TEST, installed_versions, shipped
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.metrics import METRICS
from qt_bert.training.finetune import TrainJob, TuneSettings, run_tuning
from qt_bert.training.pretrain import BatchShape, NewShape, PretrainSettings, run_pretrain
from qt_bert.training.recipes import Recipe, load_recipe, typed
from qt_bert.training.selection import merit_of
from qt_bert.training.state import workspace_of

HERE = Path(__file__).parent
HALVES = ("discovery", "validation")
MATCHED_PAIRS = 200
"""Pairs of each half that matching is scored on."""
LEAST_COVERAGE = 0.5
"""A model with fewer of the characters in its vocabulary cannot be tested."""
OF_WORDS = "words"
"""The reason why it cannot: its tokens are words."""
ROUNDS, TIMED = 5, 200
"""Rounds of the clock, and pairs of each."""

Arrays = dict[str, np.ndarray]
Texts = Sequence[tuple[str, str]]
Grader = Callable[[Texts], FloatArray]
"""Texts → the probabilities of the five grades [pairs, 5]."""


@dataclass(frozen=True, slots=True)
class Start:
    """A pretraining anew, with `first_steps` of few layers and `steps` of all of them."""

    name: str
    first_steps: int
    steps: int
    of_words: bool = False
    pair_objective: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: its architecture, and the pretraining it starts from (or takes its tokenizer from);
    None is the pretrained model of hours. It shares the learning rate of the row `rate_of`, or has
    trials of its own. `slots` of a batch differ where a pair has fewer tokens."""

    name: str
    architecture: str
    start: str | None = None
    rate_of: str | None = None
    slots: int | None = None


STARTS = (
    Start(CHARACTERS, 4000, 1200),
    # A step over a vocabulary three times as large takes longer.
    Start(WORDS, 2400, 1000, of_words=True),
    Start(NO_PAIRS, 4000, 1200, pair_objective=False),
)
ENTRIES = (
    Entry(CROSS_ENCODER, CROSS_ENCODER),
    Entry(CHARACTERS, CROSS_ENCODER, CHARACTERS, rate_of=CROSS_ENCODER),
    Entry(WORDS, CROSS_ENCODER, WORDS, rate_of=CROSS_ENCODER, slots=1280),
    Entry(NO_PAIRS, CROSS_ENCODER, NO_PAIRS, rate_of=CROSS_ENCODER),
    Entry(LSTM, LSTM),
    Entry(LSTM_WORDS, LSTM, WORDS, slots=1216),
    Entry(TWO_TOWER, TWO_TOWER),
    Entry(BERT_LSTM, BERT_LSTM),
)
"""All models but the lexical one; one whose rate another shares comes before it."""


@dataclass(frozen=True)
class Study:
    """One table in the folder `out`.

    `base` is the pretrained model that `cross-encoder` and others start from; `request` the pairs that
    figures are taken of and heads are chosen on; `shape` that of the new models, which begin with
    `first_layers`; each learning rate of `rates` is tried for `trial_steps` (an LSTM's for the
    whole pass); `words` is the size of the word models' vocabulary.
    """

    out: Path
    base: Path
    tuning: Recipe
    pretraining: Recipe
    request: Request
    shape: NewShape = field(default_factory=lambda: NewShape(12, 12, 192, 64))
    first_layers: int = 3
    starts: tuple[Start, ...] = STARTS
    rates: tuple[float, ...] = (2e-4, 6e-4, 2e-3)
    trial_steps: int = 200
    words: int = 20_000

    @cached_property
    def halves(self) -> Split:
        """The pairs with five grades: those to choose on, and those that give the figures."""
        return read_split(self.request, LABELS)

    @cached_property
    def pairs(self) -> dict[str, list[Pair]]:
        """The pairs of each half by its name."""
        return {name: getattr(self.halves, name) for name in HALVES}

    def job(self, entry: Entry) -> TrainJob:
        """What a model is tuned on; the word models read cut copies of the files."""
        start = entry.start
        base = self.base if start is None else self.out / "pretraining" / start
        sources, dev = tuple(self.tuning.pairs), self.tuning.dev
        assert dev is not None
        if start == WORDS:
            folder = self.out / "words"
            sources = tuple(spaced_source(one, folder, n) for n, one in enumerate(sources, 1))
            dev = spaced_source(dev, folder, 0)
        return typed(
            TrainJob,
            {**self.tuning.job, "base": base, "sources": sources, "dev": dev},
            f"{self.tuning.where} [job]",
        )

    def settings(self, entry: Entry, rate: float) -> TuneSettings:
        """How it is tuned, at a learning rate."""
        found = typed(TuneSettings, self.tuning.settings, f"{self.tuning.where} [settings]")
        return replace(found, lr=rate, slots=entry.slots or found.slots)

    def measured(self, name: str, measure: Callable[[], Arrays]) -> Arrays:
        """Arrays that `measure` gives, kept by name."""
        path = self.out / "measured" / f"{name}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as stored:
                return {one: stored[one] for one in stored.files}
        arrays: dict[str, Any] = measure()
        with atomic_write(path) as temporary, open(temporary, "wb") as handle:
            np.savez_compressed(handle, **arrays)
        return arrays


def run(study: Study, notify: Callable[[str], None] = print) -> Baselines:
    """Make the table, or go on with it. Raises ArgumentError for a query that is judged and trained on."""
    _no_shared_query(study)
    for name in ("words", "measured", "models", "pretraining"):
        (study.out / name).mkdir(parents=True, exist_ok=True)
    pretraining = [_pretrain(study, start, notify) for start in study.starts]
    rows, graders = _tuned(study, notify)
    graders[LEXICAL], rows[LEXICAL] = _lexical(study)
    notify("judging")
    grades = {name: _graded(study, name, graders[name]) for name in MODELS}
    validation = study.pairs["validation"]
    speed = pairs_per_second(graders, texts_of(validation))
    notify("reading heads")
    heads = {read: _heads(study, read) for read in (boundary, matching)}
    numbers: dict[str, int] = {}
    found = Baselines(
        BaselinesRecord(
            versions=installed_versions(),
            recipe=Path(study.tuning.where).name,
            pairs=reference(study.request.validation_file, validation),
            digest=digest_of(texts_of(validation)),
            discovery=reference(study.request.discovery_file, study.pairs["discovery"]),
            pretraining=tuple(pretraining),
            rows=tuple(
                TableRow(
                    name=name,
                    pairs_per_second=speed[name],
                    discovery=spearman(
                        grades[name]["discovery"].astype(float), study.pairs["discovery"]
                    ),
                    **rows[name],
                )
                for name in MODELS
            ),
            boundary=tuple(_head_read(name, one) for name, one in heads[boundary].items()),
            matching=tuple(_head_read(name, one) for name, one in heads[matching].items()),
            settings={
                "tuning": study.tuning.settings,
                "job": study.tuning.job,
                "pretraining": study.pretraining.settings,
                "starts": [asdict(one) for one in study.starts],
                "trials": {"rates": study.rates, "steps": study.trial_steps},
                "shape": asdict(study.shape),
                "first_layers": study.first_layers,
                "words": study.words,
                "text": [shard.name for shard in study.pretraining.text],
                "pretraining_pairs": [one.file.name for one in study.pretraining.pairs],
                "tuning_pairs": [one.file.name for one in study.tuning.pairs],
            },
        ),
        np.stack([grades[name]["validation"] for name in MODELS]),
        labels_of(pair.grades for pair in validation),
        np.array([numbers.setdefault(pair.query, len(numbers)) for pair in validation]),
        {
            name: BoundaryOutputs(one["values"], one["labels"], one["queries"])
            for name, one in heads[boundary].items()
            if one
        },
        {
            name: MatchingOutputs(one["original"], one["replaced"], one["counts"])
            for name, one in heads[matching].items()
            if one
        },
    )
    found.write(study.out)
    return found


def _no_shared_query(study: Study) -> None:
    """Queries a model was trained on enter neither half, nor do those it was chosen on validation."""
    halves = {name: {pair.query for pair in pairs} for name, pairs in study.pairs.items()}
    assert study.tuning.dev is not None
    dev = {pair.query for pair in study.tuning.dev.read()}
    read = {"[dev]": dev & halves["validation"]}
    held = set().union(dev, *halves.values())
    for source in (*study.tuning.pairs, *study.pretraining.pairs):
        read[str(source.file)] = held & {pair.query for pair in source.read()}
    for where, shared in read.items():
        if shared:
            raise ArgumentError(
                f"{where}: {len(shared)} of its queries are judged too, such as {min(shared)!r}; "
                "name the files that are judged in its `exclude`"
            )


# Pretraining anew, from few layers to all.


def _pretrain(study: Study, start: Start, notify: Callable[[str], None]) -> Pretraining:
    """One of the three; it goes on where it was killed."""
    notify(f"pretraining anew: {start.name}")
    recipe, folder = study.pretraining, study.out / "pretraining"
    values = dict(recipe.settings)
    values["shape"] = typed(BatchShape, values.get("shape", {}), f"{recipe.where} shape")
    values |= {"steps": start.first_steps + start.steps, "pair_objective": start.pair_objective}
    settings = typed(PretrainSettings, values, recipe.where)
    shards, sources, base = recipe.text, recipe.pairs, study.base
    if start.of_words:
        cut = study.out / "words"
        base = word_start(base, shards, sources, study.words, folder / "word-tokenizer")
        shards = [spaced_shard(shard, cut) for shard in shards]
        sources = [spaced_source(one, cut, 100 + n) for n, one in enumerate(sources, 1)]
    shallow, out = folder / f"{start.name}-{study.first_layers}-layers", folder / start.name
    # One schedule would have room for both; the deeper model warms up anew, on further batches.
    first = run_pretrain(
        base,
        shards,
        sources,
        shallow,
        settings,
        shape=replace(study.shape, layers=study.first_layers),
        stop_at=start.first_steps,
        resume=True,
    )
    deep = stacked(shallow, study.shape.layers, folder / f"{start.name}-stacked")
    then = replace(settings, steps=start.steps, seed=settings.seed + 1)
    facts = run_pretrain(deep, shards, sources, out, then, resume=True)
    figures = facts["figures"]
    return Pretraining(
        name=start.name,
        sha256=weights_sha256(out),
        words=study.words if start.of_words else None,
        pair_objective=start.pair_objective,
        texts=facts["fragments"],
        first_layers=study.first_layers,
        first_steps=start.first_steps,
        steps=figures["step"],
        tokens=first["figures"]["tokens"] + figures["tokens"],
        characters=first["figures"]["characters"] + figures["characters"],
        mlm_loss=figures.get("mlm_loss"),
        mlm_accuracy=figures.get("mlm_accuracy"),
        pair_accuracy=figures.get("pair_accuracy") if start.pair_objective else None,
        seconds=sum(_seconds(part / "training_log.jsonl") for part in (shallow, out)),
    )


def _seconds(log: Path) -> float:
    """The time that all steps took, from the rates of a log; a kill's pause is no part of it."""
    total, before = 0.0, 0
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        total += (row["tokens"] - before) / max(row["tokens_per_second"], 1e-9)
        before = row["tokens"]
    return round(total, 1)


# Tuning: each model at the learning rate that suits it.


def _tuned(
    study: Study, notify: Callable[[str], None]
) -> tuple[dict[str, dict[str, Any]], dict[str, Grader]]:
    """The rows of all models but the lexical one, without speed and figure, and what grades by each.

    A rate that suits one architecture may not suit another, so each is tried at the same few, and
    the one that is best on the recipe's dev file is taken, the first among equals.
    """
    rows: dict[str, dict[str, Any]] = {}
    graders: dict[str, Grader] = {}
    for entry in ENTRIES:
        tried = () if entry.rate_of else tuple(_trial(study, entry, rate) for rate in study.rates)
        rate = rows[entry.rate_of]["rate"] if entry.rate_of else max(tried, key=_merit(study)).rate
        out = _kept(study, entry, rate)
        notify(f"tuning: {entry.name} at {rate:g}")
        facts = _tune(entry, study.job(entry), out, study.settings(entry, rate))
        rows[entry.name] = {
            "architecture": entry.architecture,
            "base": facts["base"],
            "sha256": weights_sha256(out),
            "parameters": facts["parameters"],
            "steps": facts["steps"],
            "rate": rate,
            "rate_of": entry.rate_of,
            "tried": tried,
            "pairs_seen": facts["pairs_seen"],
        }
        graders[entry.name] = _grader(study, entry, out)
    return rows, graders


def _kept(study: Study, entry: Entry, rate: float) -> Path:
    """The folder of a whole run; an LSTM has one for each rate."""
    name = f"{entry.name}-{rate:g}" if entry.architecture == LSTM else entry.name
    return study.out / "models" / name


def _tune(entry: Entry, job: TrainJob, out: Path, settings: TuneSettings) -> dict[str, Any]:
    if entry.architecture in ENCODES:
        return tune_rival(entry.architecture, job, out, settings)
    return run_tuning(job, out, settings, resume=True)


def _trial(study: Study, entry: Entry, rate: float) -> RateTrial:
    """One run at a rate: a short one, judged at its end, whose model is thrown away.

    From random weights a short run ranks the rates by chance, so an LSTM's trial is a whole run.
    """
    out = study.out / "trial"

    def reached() -> Arrays:
        settings, folder = study.settings(entry, rate), _kept(study, entry, rate)
        if entry.architecture != LSTM:
            for made in (out, workspace_of(out)):
                shutil.rmtree(made, ignore_errors=True)
            settings = replace(settings, max_steps=study.trial_steps, evaluations=1)
            folder = out
        best = _tune(entry, study.job(entry), folder, settings)["best"]
        return {"reached": np.array(math.nan if best is None else best)}

    found = float(study.measured(f"trial-{entry.name}-{rate:g}", reached)["reached"])
    for made in (out, workspace_of(out)):
        shutil.rmtree(made, ignore_errors=True)
    return RateTrial(rate=rate, reached=None if math.isnan(found) else found)


def _merit(study: Study) -> Callable[[RateTrial], float]:
    metric = study.job(ENTRIES[0]).stop_on
    return lambda one: -math.inf if one.reached is None else merit_of(one.reached, metric)


def _grader(study: Study, entry: Entry, folder: Path) -> Grader:
    """The probabilities that a model's five logits mean."""
    scorer: Scorer | RivalScorer = (
        RivalScorer.open(folder, study.job(entry).max_length)
        if entry.architecture in ENCODES
        else Scorer(open_checkpoint(folder))
    )

    def grade(texts: Texts) -> FloatArray:
        read = [(spaced(q), spaced(t)) for q, t in texts] if entry.start == WORDS else texts
        found: FloatArray = softmax(scorer.logits(read).astype(np.float64), axis=-1)
        return found

    return grade


def _lexical(study: Study) -> tuple[Grader, dict[str, Any]]:
    """Fit on the recipe's graded pairs; the penalty is chosen on its dev file."""
    pairs: list[Pair] = []
    weights: list[float] = []
    for source in study.tuning.pairs:
        read = [pair for pair in source.read(labelled=True) if pair.grades]
        pairs += read
        weights += [source.weight] * len(read)
    assert study.tuning.dev is not None
    dev = study.tuning.dev.read(labelled=True)
    features = LexicalFeatures.fit(texts_of(pairs), word_segmenter())
    train = labelled(features, pairs, np.array(weights))
    model, _ = fit_best(train, labelled(features, dev))
    row: dict[str, Any] = {
        "architecture": LEXICAL,
        "parameters": len(model.coefficients) + len(model.thresholds),
        "pairs_seen": len(pairs),
        **dict.fromkeys(("base", "sha256", "steps", "rate")),
    }
    return lambda texts: model.predict_proba(features.table(texts)), row


# Judging.


def _graded(study: Study, name: str, grade: Grader) -> Arrays:
    """A model's probabilities on each half [pairs, 5]."""

    def measure() -> Arrays:
        return {
            half: grade(texts_of(pairs)).astype(np.float32) for half, pairs in study.pairs.items()
        }

    return study.measured(f"graded-{name}", measure)


def spearman(probabilities: FloatArray, pairs: Sequence[Pair]) -> float | None:
    """Spearman's ρ of the expected grade."""
    return METRICS["spearman"].value(judge(probabilities, pairs))


def pairs_per_second(graders: Mapping[str, Grader], texts: Texts) -> dict[str, float]:
    """The median rate of each over rounds in which all take turns, after one to warm up."""
    sample = list(texts)[:TIMED]
    runs = {name: partial(grade, sample) for name, grade in graders.items()}
    seconds = median_seconds(runs, ROUNDS)
    return {name: round(len(sample) / one, 1) for name, one in seconds.items()}


# Do the heads of a model pretrained for minutes cut words and match terms? Its best head of each kind.

ReadHeads = Callable[[Scorer, Split], Arrays]


def _heads(study: Study, read: ReadHeads) -> dict[str, Arrays]:
    """What a kind of head gives in each model pretrained anew, and in random weights; nothing where a
    model's tokens are words."""
    kind = "boundary" if read is boundary else "matching"
    found: dict[str, Arrays] = {}
    for name in (*(start.name for start in study.starts), RANDOM):
        if name == WORDS:
            found[name] = {}
            continue

        def measure(name: str = name) -> Arrays:
            models = study.out / "models"
            tuned = open_checkpoint(models / (CHARACTERS if name == RANDOM else name))
            checkpoint = (
                random_like(tuned)
                if name == RANDOM
                else open_base(study.out / "pretraining" / name, tuned)
            )
            return read(Scorer(checkpoint), study.halves)

        found[name] = study.measured(f"{kind}-{name}", measure)
    return found


def boundary(scorer: Scorer, halves: Split) -> Arrays:
    """The head with the largest AUC on discovery, and what it gives the decisions of validation.

    A head is read by the number and on the side that tell word ends best on discovery
    (`probes.boundary`); words are jieba's.
    """
    words = segmenter("jieba")
    known_texts = distinct_texts(halves.discovery)
    tested = distinct_texts(halves.validation, {text.text for text in known_texts})
    known = decisions_of(scorer.tokenizer, known_texts, least=LEAST_DECISIONS)
    other = decisions_of(scorer.tokenizer, tested)
    if min(known.coverage, other.coverage) < LEAST_COVERAGE:
        return {}
    ends = word_ends(words)
    labels = known.labels(ends)
    weights = attention_of(scorer, known)
    rules = calibrate(weights, known, labels, shifts=0, seed=0).rules

    def margins(of: CharacterAttention) -> np.ndarray:
        """How far beyond its threshold each head is read [layers, heads, D]."""
        over = np.stack(
            [r.chosen(of.features(n)) - r.threshold[:, None] for n, r in enumerate(rules)]
        )
        return np.where(np.stack([r.high for r in rules])[..., None], over, -over)

    ranks = rankdata(margins(weights), axis=-1)[..., labels].sum(-1)
    count, others = int(labels.sum()), int((~labels).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = (ranks - count * (count + 1) / 2) / np.float64(count * others)
    best = Head(*map(int, np.unravel_index(np.nanargmax(reached), reached.shape)))
    return {
        "head": np.array(str(best)),
        "discovery": np.array(reached[best]),
        "values": margins(attention_of(scorer, other))[best],
        "labels": other.labels(ends),
        "queries": other.query,
    }


def matching(scorer: Scorer, halves: Split) -> Arrays:
    """The head with the largest score on discovery, and its sums by query on validation."""
    queries = {pair.query for pair in (*halves.discovery, *halves.validation)}
    known, other = (
        score_heads(scorer, spread_over_queries(pairs, MATCHED_PAIRS, 0), queries, seed=0)
        for pairs in (halves.discovery, halves.validation)
    )
    best = known.best(1)
    if not best or min(known.sample.coverage, other.sample.coverage) < LEAST_COVERAGE:
        return {}
    (head,) = best
    toward = int(known.direction[head])
    place = (slice(None), *head, toward)
    return {
        "head": np.array(str(head)),
        "discovery": np.array(known.score[head]),
        "original": other.sums.original[place],
        "replaced": other.sums.replaced[place],
        "counts": other.sums.counts[:, toward],
    }


def _head_read(model: str, arrays: Arrays) -> HeadRead:
    """The record's entry of a head, or why there is none."""
    if not arrays:
        return HeadRead(model=model, head=None, discovery=None, reason=OF_WORDS)
    return HeadRead(model=model, head=str(arrays["head"]), discovery=float(arrays["discovery"]))


def main(arguments: list[str] | None = None) -> None:
    """Make the table that ships; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="corpus/, pairs/ and own/")
    parser.add_argument("--out", type=Path, required=True, help="folder of table and models")
    parser.add_argument("--base", type=Path, default=shipped(PRETRAINED))
    parser.add_argument("--pairs", type=Path, default=shipped(TEST), help="graded; the figures")
    parser.add_argument("--discovery", type=Path, default=shipped(DEV), help="heads are chosen on")
    options = parser.parse_args(arguments)
    with one_line_faults():
        study = Study(
            out=options.out,
            base=options.base,
            tuning=load_recipe(HERE / "tuning.toml", options.data),
            pretraining=load_recipe(HERE / "pretraining.toml", options.data),
            request=Request(pairs=options.pairs, discovery=options.discovery),
        )
        for row in run(study).record.rows:
            rate = "–" if row.rate is None else f"{row.rate:g}"
            print(f"{row.name:22} ρ on dev {row.discovery}  rate {rate}  {row.pairs_per_second}/s")


if __name__ == "__main__":
    main()
