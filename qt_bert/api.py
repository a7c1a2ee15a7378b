"""The Python API: `qt_bert.load()` opens a model, and a `Grader` does with it what the commands do.

Every method calls what the command of its name calls.
"""

from __future__ import annotations

import html
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.segmenters import segmenter
from qt_bert.errors import ArgumentError
from qt_bert.files import one_writer
from qt_bert.heads import Head, checked_heads
from qt_bert.models.card import Reading
from qt_bert.request import (
    NOT_OF_A_PLAN,
    LabelOptions,
    ModelOptions,
    Request,
    SweepOptions,
    from_options,
    options_of,
    pairs_or_test,
    resolve,
)
from qt_bert.scoring.judge import Outputs, PairScorer, read_outputs, requested_calibration
from qt_bert.shipped import DEV, shipped
from qt_bert.text import Text, clip

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from qt_bert.figures import Figure
    from qt_bert.models.checkpoint import Checkpoint
    from qt_bert.planning.prune import Pruned
    from qt_bert.results.frontier import Frontier
    from qt_bert.results.plan import Plan
    from qt_bert.results.probe import ProbeResult
    from qt_bert.run.folder import RunInputs
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.explain import Explanation


@dataclass(frozen=True)
class Graded:
    """One pair's grades: the likeliest one, Σ g·p(g), and the probability of each."""

    query: str
    title: str
    grade: str
    expected: float
    probabilities: dict[str, float]


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention maps of one pair.

    `weights` [layers, heads, tokens, tokens], float32: a row is what one token gives all tokens, and sums
    to 1. `tokens` is what each token spells.
    """

    tokens: tuple[str, ...]
    weights: np.ndarray

    def plot(self, head: str, language: str = "en") -> alt.LayerChart:
        """The map of `L3H7` as an Altair chart. Raises ArgumentError for a head that is not there."""
        from qt_bert.charts import chart
        from qt_bert.figures import HeatMap
        from qt_bert.heads import Shape

        (place,) = checked_heads([Head.parse(head)], Shape(*self.weights.shape[:2]))
        figure = HeatMap(
            name="attention",
            title=Text(head, head),
            x_label=Text("被看的词元", "token looked at"),
            y_label=Text("在看的词元", "token that looks"),
            unit=Text("注意力", "attention"),
            columns=self.tokens,
            rows=self.tokens,
            values=tuple(tuple(map(float, row)) for row in self.weights[place.layer, place.head]),
            low=0.0,
        )
        drawn: alt.LayerChart = chart(figure, language).properties(title=head)
        return drawn


@dataclass(frozen=True, eq=False)
class Probed:
    """A probe's result (NAME.json), also as tables; `inputs`: model, pairs and options of the run."""

    result: ProbeResult
    inputs: RunInputs = field(repr=False)

    @cached_property
    def claims(self) -> pd.DataFrame:
        """Judged claims: id, statement, verdict, reason, value, interval, unit, side, margin, p, queries."""
        import pandas as pd

        from qt_bert.probes.wording import claims_in_words

        rows = [
            {"statement": claim.text.en, **asdict(claim.claim)}
            for claim in claims_in_words(self.result)
        ]
        columns = ["id", "statement", "verdict", "reason", "value", "ci_low", "ci_high"]
        columns += ["unit", "side", "margin", "p", "n_queries", "needs_queries"]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def measurements(self) -> pd.DataFrame:
        """Values without a verdict: id, value, interval, n_queries, unit."""
        import pandas as pd

        columns = ["id", "value", "ci_low", "ci_high", "n_queries", "unit"]
        rows = [asdict(measurement) for measurement in self.result.measurements]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def heads(self) -> pd.DataFrame:
        """A row a head, a column a score; `selected` marks those of the probe's main set."""
        import pandas as pd

        heads = self.result.heads
        rows = [{"selected": head.selected, **head.scores} for head in heads]
        return pd.DataFrame(rows, index=[head.head for head in heads])

    @property
    def sets(self) -> dict[str, tuple[str, ...]]:
        """Named sets of heads, best first."""
        return self.result.sets

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures as data; `qt_bert.charts.chart(figure, "en")` draws one."""
        return self.result.figures

    def _repr_html_(self) -> str:
        """The probe's page, in a frame of its own."""
        from qt_bert.report.render import render_probe

        with tempfile.TemporaryDirectory() as folder:
            page = render_probe(self.result, self.inputs, Path(folder)).read_text("utf-8")
        return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:46em;border:0"></iframe>'


@dataclass(frozen=True, eq=False)
class Planned:
    """A frontier in its folder (`plan.rows`), or a plan under a budget: what stays is `plan.kept`, what was
    measured `plan.evidence`."""

    plan: Plan | Frontier
    folder: Path
    model: Path
    reading: Reading = Reading()

    def prune(
        self,
        out: str | Path,
        shape: str | None = None,
        *,
        device: str = "auto",
        overwrite: bool = False,
    ) -> Pruned:
        """The model without what the plan, or a `shape` of the frontier (`layers=4`), removes, saved at `out`;
        checked against the masked one."""
        from itertools import islice

        from qt_bert.planning.prune import CHECKED, open_teacher, prune
        from qt_bert.results.frontier import FRONTIER, read_plan

        frontier = self.folder / FRONTIER
        plan = read_plan(frontier if frontier.exists() else self.folder / "plan.json", shape)
        teacher = open_teacher(plan, self.model, device, self.reading)
        pairs = list(islice(ReaderOptions().open(shipped(DEV)), CHECKED))
        return prune(teacher, plan, pairs, Path(out), overwrite=overwrite)


class Grader:
    """A checkpoint ready to grade query–title pairs, and to explain its grades.

    >>> import qt_bert
    >>> grader = qt_bert.load()
    >>> graded = grader.grade("京东小哥", "京东小哥最近在干嘛")
    >>> list(graded.probabilities)
    ['1', '2', '3', '4', '5']
    """

    def __init__(self, scorer: PairScorer, *, max_length: int | None = None) -> None:
        """`max_length` as the scorer's model was opened with."""
        self._scorer, self._max_length = scorer, max_length

    @property
    def scorer(self) -> Scorer:
        """The scorer of a checkpoint. Raises ArgumentError for an ONNX export or a column: scores alone."""
        from qt_bert.scoring.bulk import Scorer

        if not isinstance(self._scorer, Scorer):
            raise ArgumentError(
                f"{self._scorer.name} gives scores alone; this needs a model: load its folder"
            )
        return self._scorer

    def grade(self, query: str, title: str) -> Graded:
        """Grade one pair. Raises ArgumentError for an empty text, and for a model with one logit,
        which has no grades: use `score`."""
        outputs = self._outputs([(query, title)])
        if outputs.probabilities is None or outputs.expected is None or not outputs.predicted:
            raise ArgumentError("this model gives one score and no grades; use score([...])")
        names = outputs.labels.names
        probabilities = dict(zip(names, map(float, outputs.probabilities[0]), strict=True))
        return Graded(query, title, outputs.predicted[0], float(outputs.expected[0]), probabilities)

    def score(
        self,
        pairs: Iterable[tuple[str, str]] | pd.DataFrame,
        *,
        calibrated: bool | str | Path = False,
    ) -> pd.DataFrame:
        """Grade many (query, title) pairs, or a table with the columns `query` and `title`.

        One row a pair, columns as `qt-bert score` writes them behind those of the table. `calibrated` is
        a file of `calibrate`, or True for what it saved in the model. Raises ArgumentError for anything
        but pairs of texts with something in them.
        """
        import pandas as pd

        from qt_bert.scoring.tables import input_names

        table = pairs if isinstance(pairs, pd.DataFrame) else None
        if table is not None:
            if wrong := [name for name in ("query", "title") if [*table.columns].count(name) != 1]:
                raise ArgumentError(f"the table has no column {wrong[0]!r}, or several")
            pairs = zip(table["query"], table["title"], strict=True)
        if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
            raise ArgumentError(
                "score takes (query, title) pairs, as in score([('京东小哥', '京东')])"
            )
        pairs = list(pairs)
        outputs = self._outputs(pairs, calibrated).columns()
        if table is not None:
            names = input_names(table.columns, outputs)
            return table.set_axis(names, axis=1).assign(**outputs)
        texts = {"query": [query for query, _ in pairs], "title": [title for _, title in pairs]}
        return pd.DataFrame(texts | outputs)

    def explain(self, query: str, title: str, *, words: str = "jieba") -> Explanation:
        """The pair's grades, and the change of the expected grade with each term filled."""
        from qt_bert.scoring.explain import explain_pair

        return explain_pair(query, title, self.scorer, segmenter(words))

    def evaluate(
        self,
        pairs: str | Path | None = None,
        *,
        by: str | Sequence[str] = (),
        auto_slices: bool = False,
        baseline: Grader | None = None,
        calibrated: bool | str | Path = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Every metric on a graded file (default: the test split that ships), with intervals.

        `by` names columns to repeat them for; `auto_slices` adds error rates by what the texts show,
        worst first; `baseline` adds the paired differences from another grader; `calibrated` as for
        `score`; `options` are fields of `LabelOptions` (`labels`, `judge`, `weights`, `relevant`, `unjudged`) and
        of `ReaderOptions` (`columns`, `grades`, `no_header`, `max_rejects`).
        """
        from qt_bert.scoring.evaluate import evaluation_json
        from qt_bert.scoring.judge import judge_file

        path = pairs_or_test(None if pairs is None else Path(pairs))
        applied = requested_calibration(self._scorer, calibrated)
        scorer, other = self._scorer, None if baseline is None else baseline._scorer
        of_labels = {
            name: options.pop(name) for name in options_of(LabelOptions) if name in options
        }
        count = from_options(LabelOptions, of_labels)
        reader = count.read_by(from_options(ReaderOptions, options))
        others = [] if other is None else [other]
        judged = judge_file(path, reader, scorer, others=others, calibration=applied, count=count)
        return evaluation_json(
            judged, scorer, path, by=_names(by), auto_slices=auto_slices, baseline=other, reader=reader, count=count
        )  # fmt: skip

    def queries(self, pairs: str | Path | None = None, **reader: Any) -> pd.DataFrame:
        """A row a query of a graded file, sorted by possible NDCG@5 gain (`query_table`)."""
        import pandas as pd

        from qt_bert.scoring.evaluate import query_table
        from qt_bert.scoring.judge import judge_file

        path = pairs_or_test(None if pairs is None else Path(pairs))
        return pd.DataFrame(query_table(judge_file(path, ReaderOptions(**reader), self._scorer)))

    def compare(
        self,
        other: Grader | Sequence[Grader],
        pairs: str | Path | None = None,
        *,
        seeds: Sequence[Grader] = (),
        unlabelled: str | Path | None = None,
        by: str | Sequence[str] = (),
        gate: str | Path | None = None,
        options: ReaderOptions | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """This model (a) and the `other` (b) on the same pairs, as `qt-bert compare --json` gives it.

        `seeds` are this model trained with other seeds; a list of `other`s is the other model so. A file
        `unlabelled` adds the `agreement` of both on pairs without labels, and stands alone without `pairs`. A
        `gate` is a file of rules; `options` are the pairs' reader's; `by` and `settings` (`detect`, …) as
        `compare_models` takes them.
        """
        from qt_bert.scoring.evaluate import compare_models
        from qt_bert.scoring.gate import Gate, check_models, judge_gate, read_gate
        from qt_bert.scoring.unlabelled import compare_unlabelled

        path, reader = pairs_or_test(Path(pairs) if pairs else None), options or ReaderOptions()
        labelled, other_file = pairs is not None or unlabelled is None, unlabelled is not None
        if not labelled and (
            settings.get("detect") or settings.get("count", LabelOptions()) != LabelOptions()
        ):
            raise ArgumentError(
                "--unlabelled alone has no labels to count: give --pairs, or leave out --detect and what says "
                "which labels judge"
            )
        rules = Gate() if gate is None else read_gate(Path(gate), labelled, other_file)
        others = [other] if isinstance(other, Grader) else other
        a, b = ([grader._scorer for grader in side] for side in ((self, *seeds), others))
        if gate is not None:
            check_models(rules, (a[0], b[0]))  # before anything is scored
        comparison: dict[str, Any] = {"schema": 1, "a": a[0].describe(), "b": b[0].describe()}
        if labelled:
            columns = dict.fromkeys((*_names(by), *rules.columns(labelled=True)))
            comparison = compare_models(path, reader, a, b, by=list(columns), **settings)
        if unlabelled is not None:
            if len(a) + len(b) > 2:
                raise ArgumentError("--unlabelled compares two models, not several seeds of them")
            columns = dict.fromkeys((*_names(by), *rules.columns(labelled=False)))
            kept = ("seed", "calibrated", *(() if labelled else ("rejects_path",)))
            how = {"by": list(columns)} | {k: settings[k] for k in kept if k in settings}
            agreement = compare_unlabelled(
                Path(unlabelled), reader.beside(Path(unlabelled), labelled=False), a[0], b[0], **how
            )
            comparison["agreement"] = agreement
        if gate is not None:
            reader = settings.get("count", LabelOptions()).read_by(reader)
            comparison["gate"] = judge_gate(rules, comparison, (a[0], b[0]), path, reader)
        return comparison

    def calibrate(self, pairs: str | Path | None = None, **settings: Any) -> dict[str, Any]:
        """What logits mean, fitted on half of the queries of a graded file (default: the dev split that
        ships), with a before and after on the others; `settings` as `calibrate_model` takes them."""
        from qt_bert.scoring.calibrate import calibrate_model

        path = shipped(DEV) if pairs is None else Path(pairs)
        reader = settings.pop("options", ReaderOptions())
        return calibrate_model(path, reader, self._scorer, **settings)

    def attention(self, query: str, title: str) -> Attention:
        """The attention maps of a pair, of all heads; those of ablated heads are what they would give."""
        from qt_bert.ablation.engine import Reduction, sweep
        from qt_bert.ablation.interventions import NONE, Variant
        from qt_bert.models.batches import to_batch
        from qt_bert.probes.streams import token_texts

        _check_texts([(query, title)])
        scorer = self._by_head()
        (encoded,) = scorer.tokenizer.encode([(query, title)], offsets=True)
        layers = tuple(range(scorer.checkpoint.layers))
        maps = Reduction("maps", "attention", layers, lambda view: view.values)
        out = scorer.left_out
        variant = NONE if out is None else Variant("ablated", (out.intervention,))
        batch = to_batch(np.arange(1), [encoded], pad=scorer.pad)
        (swept,) = sweep(scorer.encoder, [batch], [variant], [maps])
        return Attention(token_texts(encoded, query, title), swept.reduced["maps"][0, 0])

    def ablate(
        self, heads: str, mode: str = "zero", *, reference: str | Path | None = None
    ) -> Grader:
        """A grader without these heads ('L2H1 L3H7'), proved against the Hugging Face model.

        `mode`: `zero`, `uniform`, `mean`, `resample` or `block`; other head outputs and the proof are taken
        on the pairs of `reference` (default: the dev split that ships). Raises ArgumentError for bad heads or
        modes, EquivalenceError where the proof fails.
        """
        from qt_bert.ablation.request import leave_heads_out

        if self.scorer.left_out is not None:
            raise ArgumentError(
                f"{self.scorer.left_out.heads} are ablated already; name all heads at once"
            )
        pairs = list(ReaderOptions().open(Path(reference or shipped(DEV))))
        without = leave_heads_out(self._by_head(), heads, mode, pairs)
        return Grader(without, max_length=self._max_length)

    def sweep(
        self,
        pairs: str | Path | None = None,
        variants: str | Sequence[str] = "single",
        *,
        out: str | Path | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """The model once without each set of heads: a row an effect, as in `effects.csv`.

        `variants` as `--masks`: `single`, `layers`, `sublayers`, `halves`, `random`, a file, or heads;
        `options` are the other fields of `SweepOptions` (`mode`, `draws`, `limit`, `seed`, …) and of
        `ReaderOptions`. The folder `out` (default: a temporary one) holds logits and resumes.
        """
        import pandas as pd

        from qt_bert.ablation.effects import EffectRow
        from qt_bert.ablation.request import sweep_pairs

        sweep = from_options(SweepOptions, {"pairs": pairs, "masks": variants, **options})
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "sweep" if out is None else Path(out)
            with one_writer(folder):
                swept, _ = sweep_pairs(self._by_head(), sweep, folder, resume=True)
            return pd.DataFrame(swept.effects, columns=list(EffectRow._fields))

    def probe(
        self,
        name: str,
        pairs: str | Path | None = None,
        *,
        out: str | Path | None = None,
        **options: Any,
    ) -> Probed:
        """Run one probe (`qt-bert probe --list`) on the model. `pairs` are halved by query, unless `discovery`
        names the pairs to choose on; the default pairs have the shipped dev split for it.

        `options` are fields of `Request` (`base`, the model before fine-tuning; `full`, `seed`, …) and of
        `ReaderOptions`; a probe ignores those that it does not use. With a run folder `out`, a result of the
        same inputs is read instead of measured again. Raises RunFolderError where another result there would
        become stale.
        """
        from qt_bert.run.study import run_one_probe

        request = self._request(pairs, options)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) if out is None else Path(out)
            with one_writer(folder):
                result, inputs = run_one_probe(
                    name, request, folder, scorer=self._by_head(), resume=True
                )
        return Probed(result, inputs)

    def report(
        self,
        pairs: str | Path | None = None,
        *,
        out: str | Path,
        only: Sequence[str] | None = None,
        **options: Any,
    ) -> Path:
        """Evaluate and probe the model, draw `out/report.html`, and return its path.

        `only` names parts (`["matching", "plan"]`); `options` as for `probe`, `limit=400` takes about so
        many pairs in whole queries. Results in `out` of the same inputs are kept.
        """
        from qt_bert.report.render import render
        from qt_bert.run.study import run_report

        request, folder = self._request(pairs, options), Path(out)
        with one_writer(folder):
            page, _ = run_report(
                request, folder, only, draw=render, scorer=self._by_head(), resume=True
            )
        return page

    def plan(
        self,
        budget: str | None = None,
        pairs: str | Path | None = None,
        *,
        out: str | Path,
        limit: int | None = None,
        pairs_to_train: Sequence[str | Path] = (),
        **options: Any,
    ) -> Planned:
        """The frontier of smaller shapes, or which heads or layers stay under a budget (`heads=0.6`).

        Chosen on one half of the queries and tested on the other. The frontier forecasts quality after
        training by a trial on `pairs_to_train`, graded pairs of other queries, read as `pairs` are. `options`
        are fields of `Request`, but those that only probes use, and of `ReaderOptions`. `out` is the plan's
        folder, and resumes. Raises ArgumentError for `pairs_to_train` with a budget.
        """
        if budget is not None and pairs_to_train:
            raise ArgumentError("pairs_to_train goes without a budget: no trial is made for one")
        from qt_bert.report.frontier import render_plan
        from qt_bert.run.study import FrontierOptions, PlanOptions, run_frontier, run_plan

        request, folder = self._request(pairs, options, NOT_OF_A_PLAN), Path(out)
        with one_writer(folder):
            if budget is None:
                of = FrontierOptions(limit=limit, pairs_to_train=tuple(map(Path, pairs_to_train)))
                plan: Plan | Frontier = run_frontier(
                    of, request, folder, scorer=self._by_head(), resume=True
                )
            else:
                how = PlanOptions(budget=budget, limit=limit)
                plan = run_plan(how, request, folder, scorer=self._by_head(), resume=True)
        render_plan(folder)
        whole = self._whole()
        return Planned(plan, folder, whole.folder, whole.reading)

    def prune_vocabulary(
        self, texts: str | Path, out: str | Path, **settings: Any
    ) -> dict[str, Any]:
        """The model with only the tokens of a file of texts, saved at `out`; `settings` as the function of
        `planning.vocabulary` takes them (`keep`, `min_count`, `pairs`, …)."""
        from qt_bert.planning.vocabulary import prune_vocabulary

        return prune_vocabulary(self._stored(), Path(texts), Path(out), **settings)

    def export_transformers(self, out: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
        """The model as a folder that transformers opens by itself: what was pruned stands as zeros."""
        from qt_bert.planning.export import export_transformers

        return export_transformers(self._stored(), Path(out), overwrite=overwrite)

    def _stored(self) -> Checkpoint:
        """The model as it is stored, in float32, without heads that were pruned."""
        from qt_bert.models.opening import reopened

        return reopened(self._whole(), dtype="float32", compact=True)

    def _whole(self) -> Checkpoint:
        """The checkpoint. Raises ArgumentError where heads are left out."""
        if self.scorer.left_out is not None:
            raise ArgumentError("heads are ablated here; use the whole model, which load() gives")
        return self.scorer.checkpoint

    def _outputs(
        self, pairs: Sequence[tuple[str, str]], calibrated: bool | str | Path = False
    ) -> Outputs:
        _check_texts(pairs)
        applied = requested_calibration(self._scorer, calibrated)
        return read_outputs(self._scorer.logits(list(pairs)), self._scorer.settings.labels, applied)

    def _by_head(self) -> Scorer:
        """The scorer with every head in its place: a pruned model's that went are zeros."""
        from qt_bert.models.opening import reopened
        from qt_bert.scoring.bulk import Scorer

        opened = self.scorer.checkpoint
        if opened.kept is None or not opened.compact:
            return self.scorer
        return Scorer(reopened(opened), max_length=self._max_length)

    def _request(
        self, pairs: str | Path | None, options: dict[str, Any], without: Collection[str] = ()
    ) -> Request:
        """The resolved request of options by name. Raises ArgumentError for an unknown one."""
        checkpoint = self._whole()
        checkpoint.hashes.check()  # a run is of the folder as it lies there
        opened: dict[str, Any] = {
            "model": str(checkpoint.folder),
            "dtype": checkpoint.dtype,
            "device": str(checkpoint.device),
            "max_length": self._max_length,
            "model_grades": checkpoint.model_grades,
            **asdict(checkpoint.reading),
        }
        request = from_options(Request, {"pairs": pairs, **options}, {*opened, *without})
        return resolve(replace(request, **opened))


def _names(by: str | Sequence[str]) -> tuple[str, ...]:
    """Columns, of which one may be named alone."""
    return (by,) if isinstance(by, str) else tuple(by)


def _check_texts(pairs: Sequence[Any]) -> None:
    """Raise ArgumentError for what is no pair of texts with something in them, naming its place."""
    for number, pair in enumerate(pairs):
        texts = pair if isinstance(pair, tuple | list) and len(pair) == 2 else (None,)
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise ArgumentError(
                f"pair {number}: {clip(repr(pair), 80)}; give a query and a title, neither empty"
            )


def load(
    model: str | Path | None = None,
    *,
    dtype: str = "float32",
    device: str = "auto",
    max_length: int | None = None,
    model_grades: str | None = None,
    template: str | None = None,
    token_types: str | None = None,
    allow_unknown: bool = False,
    columns: str | None = None,
) -> Grader:
    """Open a model folder (default: the graded checkpoint that ships) for grading, or a column of a file.

    A column is `scores.tsv:score`, or `scores.tsv:p_1,p_2,p_3,p_4,p_5`; `columns` names its queries and titles
    (`query=q,title=t`). It can be evaluated, compared and calibrated on the pairs of its file.

    `device`: auto (a CUDA GPU where there is one), cpu, cuda, cuda:1 or mps; `dtype` on a GPU also
    tf32 or float16. `template`: the prompt of a causal language model, `qwen3-reranker` or a JSON file;
    `token_types`: `yes` or `no`, where the model was not tuned with transformers' default; `allow_unknown`:
    open it though its vocabulary knows few Chinese characters.

    Raises ArgumentError for a device or number type that does not exist here, CheckpointError for a folder
    that cannot be opened.
    """
    from qt_bert.run.scorers import open_scorer

    name = None if model is None else str(model)
    options = ModelOptions(
        name, dtype, max_length, model_grades, device, template, token_types, allow_unknown
    )
    return Grader(open_scorer(options, reader=ReaderOptions(columns)), max_length=max_length)
