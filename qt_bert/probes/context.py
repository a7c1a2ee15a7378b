"""What a probe gets: the model, the pairs, and how it was asked to run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs import Pair, segmenter
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.probes.split import HeldOutFile, PairFiles, Split, reference, told_apart
from qt_bert.progress import Progress, progress
from qt_bert.results.codec import encode
from qt_bert.results.probe import ModelRef, PairsRef

if TYPE_CHECKING:
    from qt_bert.encoder import ModelLabels
    from qt_bert.results import ProbeResult
    from qt_bert.scoring.bulk import Scorer

T = TypeVar("T")


@dataclass(kw_only=True)
class ProbeContext:
    """Everything a probe may use; model and pairs are opened when it first asks for them.

    `open_model` opens the checkpoint; `read_pairs`, by default, reads `files`. `base` is the model
    before fine-tuning, for probes that need it. `second` (a model tuned from it with another seed),
    `gold` (a segmented file), `reference` (pairs for mean contexts), `treebanks` (CoNLL-U files),
    `texts` (pairs of other queries, for labels that need no grader) and `held_out_files` (graded
    pairs for figures alone) are there where the user gave them; `initialisations` and
    `baseline_table` are the folders of what `qt-bert initialisations` and `qt-bert baselines`
    measured. `heads` are those to take for the matching ones; `cases` (queries with two titles each),
    `band_from` (pairs that a one-logit model's band is measured on) and `corpus` (texts to count
    words in) are files. `find` gives the result of another probe that this one needs. `work` is a folder of the probe's own for sweeps that resume: what lies in it was
    begun with the same inputs. A probe puts the figures of its guards into `guards`.
    """

    label: str
    files: PairFiles
    work: Path
    open_model: Callable[[], Scorer]
    read_pairs: Callable[[ModelLabels], Split] | None = None
    base: Path | None = None
    second: Path | None = None
    full: bool = False
    seed: int = 0
    resamples: int = 2000
    segmenter_name: str = "jieba"
    userdict: Path | None = None
    gold: Path | None = None
    reference: Path | None = None
    treebanks: tuple[Path, ...] = ()
    texts: Path | None = None
    held_out_files: tuple[HeldOutFile, ...] = ()
    initialisations: Path | None = None
    baseline_table: Path | None = None
    heads: str | None = None
    cases: Path | None = None
    band_from: Path | None = None
    corpus: Path | None = None
    find: Callable[[str], ProbeResult] | None = None
    guards: dict[str, Any] = field(default_factory=dict)

    def choose(self, quick: T, full: T) -> T:
        """`full` under `--full`, else `quick`: a sample size, a number of draws, a precision."""
        return full if self.full else quick

    @cached_property
    def model(self) -> Scorer:
        """The checkpoint, ready to score."""
        return self.open_model()

    @property
    def dtype(self) -> str:
        """The number type the model was opened in."""
        return self.model.checkpoint.dtype

    @property
    def discovery(self) -> list[Pair]:
        """Graded pairs for whatever is chosen: heads, k, thresholds, mean contexts."""
        return self._split.discovery

    @property
    def validation(self) -> list[Pair]:
        """Graded pairs, of other queries, for the figures."""
        return self._split.validation

    @cached_property
    def reference_pairs(self) -> list[Pair]:
        """The pairs that mean contexts are taken from: `--reference`, or all discovery pairs.

        Raises PairFileError for a file without a pair.
        """
        if self.reference is None:
            return self.discovery
        pairs = list(self.files.reader.open(self.reference))
        if not pairs:
            raise PairFileError(f"{self.reference}: no pair in it to take mean contexts from")
        return pairs

    @cached_property
    def further_texts(self) -> list[tuple[str, str]]:
        """(query, title) of the file `texts` whose queries are in neither half; none without it.

        Raises PairFileError for a file without a pair.
        """
        if self.texts is None:
            return []
        read = list(self.files.reader.open(self.texts))
        if not read:
            raise PairFileError(f"{self.texts}: no pair in it to take texts from")
        known = {pair.query for pair in (*self.discovery, *self.validation)}
        return [(pair.query, pair.title) for pair in read if pair.query not in known]

    @cached_property
    def held_out(self) -> tuple[tuple[str, list[Pair]], ...]:
        """Name and graded pairs of each file that gives figures alone; no name comes twice.

        Raises PairFileError as `PairFiles.read` does.
        """
        labels = self.model.checkpoint.settings.labels
        names = told_apart(one.path.name for one in self.held_out_files)
        read = (one.read(labels) for one in self.held_out_files)
        return tuple(zip(names, read, strict=True))

    def found(self, name: str) -> ProbeResult:
        """What the probe `name` found of this model on these pairs.

        Raises ArgumentError for a probe that this one does not say it needs.
        """
        if self.find is None:
            raise ArgumentError(f"the probe {self.label!r} does not say that it needs {name!r}")
        return self.find(name)

    @cached_property
    def segmenter(self) -> Segmenter:
        """The word segmenter asked for, with the user's words."""
        return segmenter(self.segmenter_name, userdict=self.userdict)

    @cached_property
    def model_ref(self) -> ModelRef:
        """The model by name and hash of its weights."""
        checkpoint = self.model.checkpoint
        return ModelRef(name=checkpoint.name, sha256=checkpoint.sha256)

    @cached_property
    def pairs_ref(self) -> PairsRef:
        """The file of pairs by name and hash, with the size of its validation pairs."""
        return reference(self.files.pairs, self.validation)

    def progress(self, total: int | None, unit: str) -> AbstractContextManager[Progress]:
        """A progress bar under the probe's name."""
        return progress(total, self.label, unit)

    def settings(self) -> dict[str, Any]:
        """What every probe's result says of how it was made, as plain JSON values."""
        discovery = self.files.discovery or self.files.pairs
        return {
            "profile": self.choose("quick", "full"),
            "discovery": encode(reference(discovery, self.discovery)),
            "rejected": self._split.rejected,
            "dtype": self.dtype,
            "max_length": self.model.tokenizer.max_length,
            "segmenter": self.segmenter_name,
            "seed": self.seed,
            "resamples": self.resamples,
        }

    @cached_property
    def _split(self) -> Split:
        return (self.read_pairs or self.files.read)(self.model.checkpoint.settings.labels)
