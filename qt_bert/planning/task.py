"""The inputs of a plan: the model, the pairs, the heads' functions, the effort."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from qt_bert.ablation.families import single
from qt_bert.ablation.masks import zeroed
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import sample_queries, spread_over_queries
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.folder import HEADS
from qt_bert.models.pruned import Units, reference_of
from qt_bert.planning.runs import losses
from qt_bert.probes.redundancy import SINGLES
from qt_bert.progress import progress
from qt_bert.results.head_sets import reader_of
from qt_bert.results.heads import HeadsFile, HeadTable, table_of
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.probe import PairsRef, ProbeResult, is_unstable
from qt_bert.scoring.bulk import Scorer

_ALL_SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The effort for a plan.

    `choosing`: pairs of discovery; `measuring`: pairs of validation for the grid (None: all; the plan is
    tested on all). Heads are removed in `rounds` rounds. The grid keeps the shares `heads` of the heads,
    and `counts` numbers of layers at most.
    A frontier has shapes of at most `depths` numbers of layers, with the shares `widths` of feed-forward
    units, and with `fewer_heads` half of the heads where that is faster. A shape is timed on `requests`
    queries and, in bulk, on `bulk` pairs; engines are compared on `engines` queries (0: not at all);
    whole queries of about `testing` pairs judge it (None: all).
    """

    profile: Literal["quick", "full"]
    choosing: int | None
    measuring: int | None
    rounds: int = 3
    heads: tuple[float, ...] = _ALL_SHARES
    counts: int = 11
    depths: int = 12
    widths: tuple[float, ...] = (1.0, 0.5, 0.25)
    fewer_heads: bool = True
    requests: int = 12
    bulk: int = 128
    engines: int = 20
    testing: int | None = None


IN_REPORT = Effort(
    profile="quick",
    choosing=None,
    measuring=160,
    rounds=1,
    heads=_ALL_SHARES[:4],
    counts=0,
)
"""The plan of a quick report: heads alone, in one round over the pairs of `redundancy`."""

QUICK = Effort(
    profile="quick",
    choosing=128,
    measuring=160,
    widths=(1.0, 0.5),
    fewer_heads=False,
    requests=8,
    bulk=64,
    engines=12,
)
"""`qt-bert plan`: some minutes."""

FRONTIER_IN_REPORT = replace(
    QUICK,
    choosing=48,
    measuring=96,
    depths=4,
    requests=5,
    bulk=24,
    engines=0,
    testing=400,
)
"""The frontier of a quick report."""

FULL = Effort(profile="full", choosing=None, measuring=None, requests=30, engines=100)
"""Everything."""


FUNCTIONS = (
    "matching",
    "named",
    "boundary",
    "order",
    "order_named",
    "reader",
    "focused",
    "averted",
)
"""The named sets of heads that have a function, in the order in which they are shown."""


@dataclass(frozen=True)
class Functions:
    """Set → heads, where they are from (run, `heads.json`, none), and the unstable sets."""

    source: Literal["run", "heads.json", "none"]
    sets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unstable: frozenset[str] = frozenset()


def functions_of(
    model: Path, sha256: str, run: Path | None = None, probes: Iterable[str] | None = None
) -> Functions:
    """The named sets of the model in the folder `model`, whose weights have this hash: from `run` and its
    `probes` (None: all), else from `heads.json` beside the model, if it is of the same weights. Raises
    RunFolderError for a run without probes or of another model, and for a damaged file."""
    if run is not None:
        files = sorted((run / "probes").glob("*.json"))
        if probes is not None:
            files = [run / "probes" / f"{name}.json" for name in sorted(probes)]
        return _functions("run", _tables_of_run(run, files, sha256))
    path = model / HEADS
    if path.is_file() and (file := HeadsFile.read(path)).model.sha256 == sha256:
        return _functions("heads.json", file.probes)
    return Functions("none")


def _tables_of_run(run: Path, files: Iterable[Path], sha256: str) -> list[HeadTable]:
    results = [ProbeResult.read(path) for path in files]
    if not results:
        raise RunFolderError(
            f"{run} holds no finished probe (no probes/*.json); give the folder of `qt-bert report`"
        )
    for result in results:
        if result.model.sha256 != sha256:
            raise RunFolderError(
                f"{run}: its probes are of {result.model.name}, whose weights are not those of the model to "
                "plan for; give a run of the same model"
            )
    return [table_of(result, ()) for result in results]


def _functions(source: Literal["run", "heads.json"], tables: Sequence[HeadTable]) -> Functions:
    known = {name: heads for table in tables for name, heads in table.sets.items() if heads}
    if reader_of(known) is None:
        known.pop("reader", None)  # the largest focus alone makes no reader
    sets = {name: known[name] for name in FUNCTIONS if name in known}
    unstable = {
        name for table in tables for name in table.stability if is_unstable(table.stability, name)
    }
    return Functions(source, sets, frozenset(unstable & sets.keys()))


@dataclass(frozen=True)
class Sample:
    """Graded pairs, and the file that they come from."""

    ref: PairsRef
    pairs: list[Pair]

    @classmethod
    def of(cls, name: str, sha256: str, pairs: Sequence[Pair]) -> Sample:
        """`pairs` of the file called `name`, with this hash."""
        return cls(PairsRef.of(name, sha256, pairs), list(pairs))

    @property
    def texts(self) -> list[tuple[str, str]]:
        """(query, title) of every pair."""
        return [(pair.query, pair.title) for pair in self.pairs]

    @property
    def coarse(self) -> bool:
        """Whether some label may mean several grades."""
        return any(len(pair.grades or ()) > 1 for pair in self.pairs)

    def smaller(self, limit: int | None, *, whole_queries: bool, seed: int) -> Sample:
        """About `limit` pairs, of as many queries as possible, or of whole queries."""
        if limit is None or len(self.pairs) <= limit:
            return self
        draw = sample_queries if whole_queries else spread_over_queries
        return Sample.of(self.ref.name, self.ref.sha256, draw(self.pairs, limit, seed))


@dataclass(kw_only=True)
class PlanTask:
    """The model and the pairs of one plan or frontier.

    Everything is chosen on `discovery`; `validation` and `held_out` are only measured on. `functions`:
    those of the heads. `work`: the folder of resumable sweeps; `singles_work`: that of the single-head
    sweep, if a probe made it.
    """

    scorer: Scorer
    discovery: Sample
    validation: Sample
    work: Path
    singles_work: Path | None = None
    held_out: Sequence[Sample] = ()
    functions: Functions = field(default_factory=lambda: Functions("none"))
    effort: Effort = FULL
    resamples: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.scorer.checkpoint.shape.absent:
            raise ArgumentError(
                f"{self.scorer.checkpoint.name} was pruned itself; plan from its teacher"
            )
        if self.heads == self.sharing:
            raise ArgumentError(
                "a model of one layer with one head, or one key for all, has nothing to leave out"
            )

    @cached_property
    def teacher(self) -> TeacherRef:
        """The model by name, hash and shape."""
        checkpoint = self.scorer.checkpoint
        return reference_of(checkpoint.model, checkpoint.family, checkpoint.name, checkpoint.sha256)

    @cached_property
    def heads(self) -> int:
        """The heads of all layers."""
        return self.teacher.layers * self.teacher.heads

    @cached_property
    def sharing(self) -> int:
        """How many heads share one key and value."""
        family = self.scorer.checkpoint.family
        return family.sharing(family.layers_of(self.scorer.checkpoint.model)[0])

    @cached_property
    def singles(self) -> dict[str, float]:
        """The mean loss on discovery without each head alone, by its name: the first round of every choice of
        heads."""
        variants = single(self.scorer.checkpoint.shape, zeroed)
        folder = (self.singles_work or self.work) / SINGLES
        runs = (1 + self.heads) * len(self.discovery.pairs)
        with progress(runs, "single heads", "runs") as shown:
            return losses(self.scorer, self.discovery.pairs, variants, folder, shown)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The measured metrics, the tested one first."""
        if self.scorer.settings.labels.logits == 1:
            return ("spearman", "pairwise_accuracy", "ndcg_at_3")
        return ("spearman", "qwk", "accuracy")

    @cached_property
    def sampled_validation(self) -> Sample:
        """The pairs on which the grid is measured."""
        return self.validation.smaller(
            self.effort.measuring,
            whole_queries=self.scorer.settings.labels.logits == 1,
            seed=self.seed,
        )

    def pruned(self, kept: Sequence[KeptLayer], units: Units | None = None) -> Scorer:
        """A scorer of the model with removed weights that keeps `kept`."""
        return Scorer(
            smaller_checkpoint(self.scorer.checkpoint, kept, units=units),
            max_length=self.scorer.tokenizer.max_length,
            batch_tokens=self.scorer.batch_tokens,
        )
