"""What a probe is, its input and its result.

A probe is two files: `NAME.py` with `measure(context) -> Result`, and `NAME.toml`, which declares it and
holds its texts (`probes/texts.py`). `run_probe` judges its claims by the declared side and margin, fills
texts and adds what all results have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from qt_bert.codec import encode
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.data.splits import check_disjoint, split_halves
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.figures import Bars, BarSeries, Figure, HeatMap, Point, known
from qt_bert.files import sha256_file
from qt_bert.heads import Head, Shape
from qt_bert.probes.texts import COMMON, Texts, declared, texts_of, unit
from qt_bert.progress import Progress, progress
from qt_bert.request import PROBE_FIELDS, Request
from qt_bert.results.heads import WINDOWS, layer_name
from qt_bert.results.probe import (
    ClaimValues,
    HeadScores,
    Measurement,
    ModelRef,
    PairsRef,
    ProbeResult,
    ResultTable,
    Source,
    SourcedClaim,
    Stability,
    Value,
    instability_note,
)
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, mean_of, query_key
from qt_bert.stats.verdict import judge_contest, judge_difference, not_testable, with_q
from qt_bert.text import Label, Text, sentences

if TYPE_CHECKING:
    import pandas as pd

    from qt_bert.ablation.resample import Donors
    from qt_bert.models.card import ModelLabels
    from qt_bert.scoring.bulk import Scorer

T = TypeVar("T")


# Its input: pairs to choose on and to test on, of different queries, and the rest of its context.


class Split(NamedTuple):
    """Graded pairs for choosing and for testing, and how many rows were no pairs."""

    discovery: list[Pair]
    validation: list[Pair]
    rejected: int


def read_split(request: Request, labels: ModelLabels) -> Split:
    """The graded pairs of a request, their labels read as a model of these `labels` can be judged by.

    Without a file `discovery`, the pairs are halved by a hash of the query. Raises PairFileError for rows
    without a label or with a bad one (above `--max-rejects`), and for a file that leaves a half without
    graded pairs; ArgumentError for a query in both files.
    """
    from qt_bert.scoring.judge import graded_pairs

    validation, rejected = graded_pairs(request.validation_file, request.reader, labels)
    if request.discovery is None:
        return Split(*split_halves(validation), rejected)
    discovery, more = graded_pairs(request.discovery, request.reader, labels)
    check_disjoint(discovery, request.discovery.name, validation, request.validation_file.name)
    return Split(discovery, validation, rejected + more)


def read_held_out(
    request: Request, labels: ModelLabels, discovery: Sequence[Pair]
) -> list[tuple[Path, list[Pair]]]:
    """The held-out files of a request with their graded pairs. Raises PairFileError as `read_split`, ArgumentError
    for a query of `discovery`."""
    from qt_bert.scoring.judge import graded_pairs

    read = []
    for path, reader in request.held_out_files():
        pairs, _ = graded_pairs(path, reader, labels)
        check_disjoint(discovery, request.discovery_file.name, pairs, path.name)
        read.append((path, pairs))
    return read


def distinct_names(names: Iterable[str]) -> list[str]:
    """Each name, with a number behind one that came before."""
    distinct: list[str] = []
    for name in names:
        numbered, number = name, 1
        while numbered in distinct:
            number += 1
            numbered = f"{name} ({number})"
        distinct.append(numbered)
    return distinct


def reference(path: Path, pairs: list[Pair]) -> PairsRef:
    """`path` by name and hash, with the number of `pairs` used of it and of their queries."""
    return PairsRef.of(path.name, sha256_file(path), pairs)


@dataclass(kw_only=True)
class Context:
    """Everything a probe may use; model and pairs are opened when it first needs them.

    `request` holds the options that the probe's TOML names in `uses`, and those of every probe; all others
    are as by default. `open_model` opens the checkpoint; `read_pairs` reads the request's pairs.
    `result_of` gives the result of another probe for this model on these pairs; it raises ArgumentError for one
    that the probe does not declare in `needs`. `work` is a folder of the probe's own for
    sweeps that resume: all in it has the same inputs. A probe puts the figures of its checks into `guards`.
    """

    label: str
    request: Request
    work: Path
    open_model: Callable[[], Scorer]
    read_pairs: Callable[[ModelLabels], Split]
    result_of: Callable[[str], ProbeResult]
    guards: dict[str, Any] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """Of every random draw."""
        return self.request.seed

    @property
    def resamples(self) -> int:
        """Bootstrap resamples of queries."""
        return self.request.resamples

    @property
    def full(self) -> bool:
        """Whether to take every pair and draw."""
        return self.request.full

    def choose(self, quick: T, full: T) -> T:
        """`full` under `--full`, else `quick`: a sample size, a number of draws, a precision."""
        return full if self.full else quick

    @cached_property
    def model(self) -> Scorer:
        """The checkpoint, ready to score."""
        return self.open_model()

    @property
    def discovery(self) -> list[Pair]:
        """Graded pairs to choose heads, k and thresholds on."""
        return self._split.discovery

    @property
    def validation(self) -> list[Pair]:
        """Graded pairs of other queries, to test on."""
        return self._split.validation

    @cached_property
    def further_texts(self) -> list[tuple[str, str]]:
        """(query, title) of the file `texts` whose queries are in neither half, in any spelling.

        Empty without a file. Raises PairFileError for a file without a pair.
        """
        texts = self.request.texts
        if texts is None:
            return []
        read = list(self.request.reader.open(texts))
        if not read:
            raise PairFileError(f"{texts}: no pair in it to take texts from")
        known = {query_key(pair.query) for pair in (*self.discovery, *self.validation)}
        return [(pair.query, pair.title) for pair in read if query_key(pair.query) not in known]

    @cached_property
    def held_out(self) -> tuple[tuple[str, list[Pair]], ...]:
        """Name and graded pairs of each held-out file. Raises as `read_held_out`."""
        labels = self.model.checkpoint.settings.labels
        read = read_held_out(self.request, labels, self.discovery)
        names = distinct_names(path.name for path, _ in read)
        return tuple((name, pairs) for name, (_, pairs) in zip(names, read, strict=True))

    @cached_property
    def segmenter(self) -> Segmenter:
        """The word segmenter of the request, with the user's words."""
        return segmenter(self.request.segmenter, userdict=self.request.userdict)

    @cached_property
    def donors(self) -> Donors:
        """Head outputs on discovery, for ablation by resampling."""
        from qt_bert.ablation.request import reference_donors

        return reference_donors(self.model, self.discovery)

    def progress(self, total: int | None, unit: str) -> AbstractContextManager[Progress]:
        """A progress bar under the probe's name."""
        return progress(total, self.label, unit)

    def sign(self, estimate: Estimate) -> int:
        """1 where the 95 % interval lies above 0, −1 where it lies below, else 0."""
        low, high = estimate.interval(self.resamples, self.seed) or (0.0, 0.0)
        return int(low > 0) - int(high < 0)

    def cell(self, estimate: Estimate) -> Value:
        """The estimate with its interval, for a table."""
        ends = estimate.interval(self.resamples, self.seed) or (None, None)
        return Value(known(estimate.value), *map(known, ends))

    def settings(self) -> dict[str, Any]:
        """The settings in every probe's result, as plain JSON values."""
        return {
            "profile": self.choose("quick", "full"),
            "discovery": encode(reference(self.request.discovery_file, self.discovery)),
            "rejected": self._split.rejected,
            "dtype": self.model.checkpoint.dtype,
            "max_length": self.model.tokenizer.max_length,
            "segmenter": self.request.segmenter,
            "seed": self.seed,
            "resamples": self.resamples,
            **({"windows": list(windows)} if (windows := self.model.checkpoint.windows) else {}),
        }

    @cached_property
    def _split(self) -> Split:
        return self.read_pairs(self.model.checkpoint.settings.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question about a model, and the function that measures the answer.

    `name` is the file's, the command's and the result's; `order` its place in the report; `title`
    heads its section. `quick_seconds` is its time in the profile `quick` on two cores.
    `uses` names further fields of the request that it reads; it gets no others, and its result does not
    depend on them. `needs_base`: it runs only with a model before fine-tuning. `only_full`: a quick report
    leaves it out, unless `--only` names it.
    `reads` are files that ship and that its result depends on, by their names in `data/`. `needs` are
    probes of a lower `order` whose results it reads (`Context.result_of`). `shows`: the named sets
    that a figure shows, by the figure's name.
    """

    name: str
    order: int
    title: Text
    question: Text
    run: Callable[[Context], Result]
    quick_seconds: float
    uses: tuple[str, ...] = ()
    needs_base: bool = False
    only_full: bool = False
    reads: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    shows: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The fields of the request that it gets beside those of every probe."""
        return (*self.uses, *(("base",) if self.needs_base else ()))

    def __post_init__(self) -> None:
        if unknown := {*self.uses} - PROBE_FIELDS:
            raise ArgumentError(f"{self.name}: uses {min(unknown)!r}, which is no input of a probe")


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """A set of heads against random sets: one estimate of the target, one of each set.

    `sets` are those that were run, fewer than were drawn where it stopped early (`contests.against`);
    `enumerated`: there are no others. `whole`: the claim is of the effect's share of it.
    """

    target: Estimate
    sets: tuple[Estimate, ...]
    enumerated: bool = False
    whole: Estimate | None = None

    @property
    def mean_set(self) -> Estimate:
        """The mean of the sets; its interval counts their draw."""
        return mean_of(self.sets, draws=0 if self.enumerated else len(self.sets))

    @property
    def beyond(self) -> Estimate:
        """The target minus the mean of the sets."""
        return self.target - self.mean_set


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What a probe measured, by the ids of its TOML, without prose.

    `claims`: an estimate or a contest to be judged, or the reason id why it cannot be. `measurements`:
    an estimate, a plain number, or None where it is not defined. `heads`: a row a head (the index
    holds names such as `L3H7`), a column a score. `sets`: named sets of heads, best first; `selected`
    names the set whose heads are marked in the table; `shown`: whether a head of the sets is named and passes on
    validation, too, where that was tested. `facts` fill the texts. `pairs`: those measured, by default
    validation. `nothing`: the id of the sentence on why nothing could be measured.
    """

    claims: Mapping[str, Judged | str] = field(default_factory=dict)
    measurements: Mapping[str, Estimate | float | None] = field(default_factory=dict)
    heads: pd.DataFrame | None = None
    sets: Mapping[str, Sequence[Head]] = field(default_factory=dict)
    selected: str | None = None
    shown: Mapping[Head, bool] = field(default_factory=dict)
    stability: Mapping[str, Stability | None] = field(default_factory=dict)
    figures: Sequence[Figure] = ()
    tables: Sequence[ResultTable] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    pairs: Sequence[Pair] | None = None
    nothing: str | None = None


Judged = Estimate | Contest
"""What a claim is judged by."""


# All probes.


@cache
def probes() -> tuple[Probe, ...]:
    """All probes that a `NAME.toml` declares, in the order of the report."""
    every = [_declared(name) for name in declared() if texts_of(name).value("order") is not None]
    orders = {probe.name: probe.order for probe in every}
    for probe in every:
        if late := [name for name in probe.needs if not orders.get(name, inf) < probe.order]:
            raise ArgumentError(f"{probe.name}.toml: needs {late[0]!r}, no probe of a lower order")
    return tuple(sorted(every, key=lambda probe: (probe.order, probe.name)))


def probe_named(name: str) -> Probe:
    """The probe called `name`. Raises ArgumentError, listing the names, for an unknown name."""
    for probe in probes():
        if probe.name == name:
            return probe
    names = ", ".join(probe.name for probe in probes())
    raise ArgumentError(f"no probe {name!r}; there are {names or 'none'} (qt-bert probe --list)")


def _declared(name: str) -> Probe:
    """The probe of a TOML file. Raises ArgumentError for a number that is missing, and without its module."""
    texts = texts_of(name)
    for key in ("order", "quick_seconds"):
        if not isinstance(texts.value(key), int | float):
            raise ArgumentError(f"{name}.toml: {key} is {texts.value(key)!r}; give a number")
    if find_spec(f"qt_bert.probes.{name}") is None:
        raise ArgumentError(f"{name}.toml: {name}.py is missing beside it")
    return Probe(
        name=name,
        order=texts.value("order"),
        title=texts.text("title"),
        question=texts.text("question"),
        # imported when it runs
        run=lambda context: import_module(f"qt_bert.probes.{name}").measure(context),
        quick_seconds=texts.value("quick_seconds"),
        uses=tuple(texts.value("uses", ())),
        needs_base=texts.value("needs_base", False),
        only_full=texts.value("only_full", False),
        reads=tuple(texts.value("reads", ())),
        needs=tuple(texts.value("needs", ())),
        shows={
            figure: tuple(shown)
            for figure in texts.ids("figures")
            if (shown := texts.value(f"figures.{figure}.sets"))
        },
    )


# Running one.


def run_probe(probe: Probe, context: Context) -> ProbeResult:
    """The probe's result, with what all results have in common.

    That is: name, title and place; a note on sets that are not stable, in the summary and under the
    figures that show them; the settings of the context beside the probe's own; the figures of the
    equivalence checks; and the verdicts of its claims with q over them (a report computes q over the
    claims of all its probes).
    """
    result = _judge_and_word(probe, probe.run(context), context)
    settings = {**context.settings(), **result.settings}
    if context.guards:
        settings["guards"] = dict(context.guards)
    unstable = instability_note(result.stability)
    return replace(
        result,
        summary=result.summary if unstable is None else sentences([result.summary, unstable]),
        probe=probe.name,
        title=probe.title,
        order=probe.order,
        settings=settings,
        figures=tuple(_noted(figure, probe, result) for figure in result.figures),
        **_as_in_teacher(result, context),
    )


def _judge_and_word(probe: Probe, result: Result, context: Context) -> ProbeResult:
    """The result as it is stored: claims judged, texts filled with its numbers."""
    texts, checkpoint = texts_of(probe.name), context.model.checkpoint
    sets = {name: tuple(map(str, heads)) for name, heads in result.sets.items()}
    measurements = [
        _measurement(name, value, texts, context) for name, value in result.measurements.items()
    ]
    claims = [
        judged(probe.name, name, value, context.resamples, context.seed)
        for name, value in result.claims.items()
    ]
    facts = {
        **{each.id: each.value for each in measurements},
        **{claim.id.partition(".")[2]: claim.value for claim in claims},
        **result.facts,
    }
    path = f"nothing.{result.nothing}" if result.nothing else "summary"
    summary, reader = texts.text(path, facts), checkpoint.reads
    if reader != "first" and "[CLS]" in summary.en:
        summary = sentences([summary, texts_of(COMMON).text(f"reads.{reader}")])
    pairs = context.validation if result.pairs is None else list(result.pairs)
    return ProbeResult(
        schema=2,
        probe=probe.name,
        model=ModelRef(name=checkpoint.name, sha256=checkpoint.sha256),
        pairs=reference(context.request.validation_file, pairs),
        settings={**result.settings},
        facts={name: _plain(value) for name, value in facts.items()},
        summary=summary,
        claims=tuple(cast(list[SourcedClaim], with_q(claims))),
        measurements=tuple(measurements),
        values={
            f"{probe.name}.{name}": values_behind(value)
            for name, value in result.claims.items()
            if not isinstance(value, str)
        },
        heads=_head_scores(result, sets),
        sets=sets,
        stability={name: stable for name, stable in result.stability.items() if stable is not None},
        figures=tuple(
            _with_texts(figure, texts, facts, checkpoint.windows) for figure in result.figures
        ),
        tables=tuple(
            replace(
                table,
                title=texts.text(f"tables.{table.name}.title", facts),
                note=texts.text_or(f"tables.{table.name}.note", facts),
            )
            for table in result.tables
        ),
    )


def judged(owner: str, name: str, value: Judged | str, resamples: int, seed: int) -> SourcedClaim:
    """The claim `owner.name` by the side and margin that `owner.toml` declares.

    `value` is what was measured, or the id of the reason why the claim cannot be judged. Raises
    ArgumentError for an undeclared claim.
    """
    texts = texts_of(owner)
    declaration = texts.value(f"claims.{name}")
    if declaration is None:
        raise ArgumentError(f"{owner}.toml declares no claim {name!r}")
    judging: dict[str, Any] = {
        "id": f"{owner}.{name}",
        "side": declaration["side"],
        "margin": float(declaration["margin"]),
        "unit": declaration["unit"],
    }
    if isinstance(value, str):
        claim = not_testable(reason=value, **judging)
    elif isinstance(value, Contest):
        claim = judge_contest(
            value.target,
            value.sets,
            whole=value.whole,
            enumerated=value.enumerated,
            resamples=resamples,
            seed=seed,
            **judging,
        )
    else:
        claim = judge_difference(value, resamples=resamples, seed=seed, **judging)
    return SourcedClaim(**vars(claim), source=source_of(texts, f"claims.{name}"))


def values_behind(judged: Judged) -> ClaimValues:
    """The values per query that a claim is judged by, to seven digits."""
    if isinstance(judged, Estimate):
        return ClaimValues(target=_digits(judged), reach=known(judged.reach) or 0.0)
    return ClaimValues(
        target=_digits(judged.target),
        whole=None if judged.whole is None else _digits(judged.whole),
        sets=tuple(map(_digits, judged.sets)),
        enumerated=judged.enumerated,
    )


def _digits(estimate: Estimate) -> tuple[float | None, ...]:
    return tuple(known(float(f"{value:.7g}")) for value in estimate.centred)


def source_of(texts: Texts, path: str) -> Source:
    """Where a claim or a measurement comes from: its own source, or that of the whole probe."""
    source = texts.value(f"{path}.source", {})
    return Source(
        article=source.get("article", texts.value("article", "")),
        section=source.get("section", texts.value("section", "")),
        value=texts.label(f"{path}.source.value") or None,
    )


def _measurement(
    name: str, value: Estimate | float | None, texts: Texts, context: Context
) -> Measurement:
    if texts.value(f"measurements.{name}") is None:
        raise ArgumentError(f"{texts.name}.toml has no measurement {name!r}")
    estimate = value if isinstance(value, Estimate) else None
    cell = context.cell(estimate) if estimate else Value(known(value))
    return Measurement(
        id=name,
        value=cell.value,
        ci_low=cell.ci_low,
        ci_high=cell.ci_high,
        n_queries=estimate.n_queries if estimate else 0,
        unit=texts.value(f"measurements.{name}.unit", ""),
        source=source_of(texts, f"measurements.{name}"),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, (float, np.floating)):
        return known(value)
    return int(value) if isinstance(value, np.integer) else encode(value)


def _head_scores(result: Result, sets: Mapping[str, tuple[str, ...]]) -> tuple[HeadScores, ...]:
    if result.heads is None:
        return ()
    chosen = set(sets.get(result.selected or "", ()))
    shown = {str(head): passed for head, passed in result.shown.items()}
    return tuple(
        HeadScores(
            head=str(head),
            scores={str(name): known(value) for name, value in row.items()},
            selected=str(head) in chosen,
            shown=shown.get(str(head)),
        )
        for head, row in zip(result.heads.index, result.heads.to_dict("records"), strict=True)
    )


def _with_texts(
    figure: Figure, texts: Texts, facts: Mapping[str, Any], windows: Sequence[int | None]
) -> Figure:
    """A figure in words, from `[figures.NAME]`; layers with a window of attention name it."""
    path = f"figures.{figure.name}"
    words: dict[str, Any] = {"title": texts.text(f"{path}.title", facts)}
    for name in ("x_label", "y_label", "note"):
        if hasattr(figure, name) and (text := texts.text_or(f"{path}.{name}", facts)) is not None:
            words[name] = text
    for name in ("unit", "x_unit", "y_unit"):
        if hasattr(figure, name) and (declared := texts.value(f"{path}.{name}")) is not None:
            words[name] = (
                texts.text(f"{path}.{name}") if isinstance(declared, dict) else unit(declared)
            )
    labels = {key: texts.label(f"words.{key}") for key in texts.ids("words")}
    layers = {f"L{layer}": layer_name(layer, windows) for layer in range(len(windows))}
    if {*layers} & {*getattr(figure, "rows", ()), *getattr(figure, "categories", ())}:
        words["note"] = _and(words.get("note"), WINDOWS)
    return replace(_relabelled(figure, labels | layers), **words)


_LABELS = ("categories", "series", "columns", "rows", "points", "name")
"""Not the labels of single points, which are words of the texts."""


def _relabelled(value: Any, words: Mapping[str, Label], *, top: bool = True) -> Any:
    """A figure whose labels are words instead of ids; its name stays an id."""
    if isinstance(value, str):
        return words.get(value, value)
    if isinstance(value, tuple):
        return tuple(_relabelled(part, words, top=False) for part in value)
    if not is_dataclass(value) or isinstance(value, (type, Text)):
        return value
    named = {each.name for each in fields(value)} & set(_LABELS) - ({"name"} if top else set())
    return replace(
        value, **{name: _relabelled(getattr(value, name), words, top=False) for name in named}
    )


def _noted(figure: Figure, probe: Probe, result: ProbeResult) -> Figure:
    """A figure with a note on those of its sets that are not stable; the heads outlined are those shown."""
    if figure.name in probe.shows and isinstance(figure, HeatMap):
        unshown = {Head.parse(head.head) for head in result.heads if head.shown is False}
        marked = tuple(place for place in figure.marked if place not in unshown)
        figure = replace(figure, marked=marked)
    shown = probe.shows.get(figure.name, ())
    unstable = instability_note({n: s for n, s in result.stability.items() if n in shown})
    return figure if unstable is None else replace(figure, note=_and(figure.note, unstable))


def _and(note: Text | None, more: Text) -> Text:
    """A note and one more sentence."""
    if note is None:
        return more
    return Text(f"{note.zh.rstrip('。')}。{more.zh}", f"{note.en.rstrip('.')}. {more.en}")


def _as_in_teacher(result: ProbeResult, context: Context) -> dict[str, Any]:
    """The heads that a smaller model has, each with its name in the teacher."""
    kept = context.model.checkpoint.kept
    if kept is None:
        return {}
    names = kept.names
    return {
        "heads": tuple(
            replace(head, teacher=names[head.head]) for head in result.heads if head.head in names
        ),
        "sets": {
            name: tuple(h for h in heads if h in names) for name, heads in result.sets.items()
        },
    }


# Shared by probes: the word segmenter, bars and points of estimates, tables of heads.


def partition(context: Context) -> Segmenter:
    """The requested segmenter; jieba if its words overlap."""
    if context.request.segmenter in ("jieba", "rjieba"):
        return context.segmenter
    return segmenter("jieba", context.request.userdict)


def estimate_bars(
    context: Context,
    name: str,
    categories: Sequence[Label],
    series: Mapping[str, Sequence[Estimate | None]],
    *,
    digits: int = 2,
) -> Bars:
    """Bars of estimates with their intervals; a series has one estimate, or None, a category."""
    made = tuple(
        BarSeries(
            name=label,
            values=tuple(known(estimate.value) if estimate else None for estimate in estimates),
            intervals=tuple(
                estimate.interval(context.resamples, context.seed) if estimate else None
                for estimate in estimates
            ),
        )
        for label, estimates in series.items()
    )
    return Bars(name=name, categories=tuple(categories), series=made, digits=digits)


def estimate_points(
    context: Context, xs: Sequence[float], estimates: Sequence[Estimate]
) -> list[Point]:
    """Points of a curve, with the intervals of their estimates; none where an estimate is undefined."""
    cells = map(context.cell, estimates)
    return [
        Point(x=x, y=cell.value, low=cell.ci_low, high=cell.ci_high)
        for x, cell in zip(xs, cells, strict=True)
        if cell.value is not None
    ]


def score_unit(labels: ModelLabels) -> str:
    """The unit of the score, as a text id: grades, other levels, or one logit's `score`."""
    if labels.logits == 1:
        return "score"
    return "levels" if labels.grades is None else "grades"


def head_table(shape: Shape, columns: Mapping[str, FloatArray]) -> pd.DataFrame:
    """Scores [layers, heads] by name as a table with a row for each present head."""
    import pandas as pd

    heads = shape.all_heads
    return pd.DataFrame(
        {name: [float(values[head]) for head in heads] for name, values in columns.items()},
        index=[str(head) for head in heads],
    )
