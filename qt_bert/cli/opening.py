"""From options to objects: the reader's options, the checkpoint, the scorer, its calibration."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from qt_bert.cli.show import left_out
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions
from qt_bert.shipped import (
    BASELINES,
    BEHAVIOURS,
    DEV,
    GRADED,
    INITIALISATIONS,
    PRETRAINED,
    TEST,
    TRAIN,
    shipped,
    ships,
)

if TYPE_CHECKING:
    from qt_bert.evaluation.calibration import Calibration
    from qt_bert.scoring.bulk import Scorer


def say(text: str) -> None:
    """A line for the person at the terminal: standard error, so that data keeps standard output."""
    typer.echo(text, err=True)


@contextmanager
def resumable() -> Iterator[None]:
    """Around work that goes on where it stopped: says so on Ctrl-C, and on SIGTERM, by which schedulers
    stop what they run; ends with status 130 or 143, behind all that tidies up."""
    try:
        with _terminable():
            yield
    except KeyboardInterrupt as stopped:
        say("interrupted; --resume goes on where it stopped")
        raise typer.Exit(143 if isinstance(stopped, _Terminated) else 130) from None


class _Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM does as Ctrl-C does in the block, if this is the thread that hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*signaled: Any) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)  # None: not set from Python


def discovery_of(pairs: Path) -> Path | None:
    """The dev split beside the test split that ships; any other file is halved."""
    return shipped(DEV) if _ships(pairs, TEST) else None


def base_of(model: Path) -> Path | None:
    """The pretrained model beside the graded one that ships; of another the base is not known."""
    return shipped(PRETRAINED) if _ships(model, GRADED) else None


def texts_of(pairs: Path) -> Path | None:
    """The train split beside the test split that ships."""
    return shipped(TRAIN) if _ships(pairs, TEST) else None


def cases_that_ship() -> Path | None:
    """The behaviour cases."""
    return shipped(BEHAVIOURS) if ships(BEHAVIOURS) else None


def initialisations_of(base: Path | None) -> Path | None:
    """The study of initialisations that ships with the pretrained model."""
    there = base is not None and _ships(base, PRETRAINED) and ships(INITIALISATIONS)
    return shipped(INITIALISATIONS) if there else None


def baseline_table_of(pairs: Path) -> Path | None:
    """The table of baselines that was measured on the test split that ships."""
    return shipped(BASELINES) if _ships(pairs, TEST) and ships(BASELINES) else None


def _ships(path: Path, name: str) -> bool:
    """Whether `path` is what ships as `name`; an installation without it ships nothing."""
    try:
        return path.resolve() == shipped(name).resolve()
    except ArgumentError:
        return False


def tell_rejects(rejected: int, listed: Path | None) -> None:
    """Say how many rows were no pairs, and where they are listed."""
    if rejected:
        where = f"listed in {listed}" if listed else "list them with --rejects FILE"
        say(f"{rejected:,} rows rejected, {where}")


def open_scorer(
    model: str | None,
    *,
    dtype: str = "float32",
    max_length: int | None = None,
    model_grades: str | None = None,
    heads_out: HeadsOut | None = None,
    by_head: bool = False,
    title_states: Path | None = None,
) -> Scorer:
    """The checkpoint of `--model` (default: what ships), ready to score, `heads_out` left out.

    Where nobody asks for single heads (`by_head`), a pruned model is opened as small as it is stored.
    `title_states` is a folder of states to read; it goes with all heads alone.
    """
    if title_states is not None and heads_out is not None:
        raise ArgumentError(
            "--title-states and --heads-out: the states were computed with all heads; leave one out"
        )
    from qt_bert.encoder import has_bfloat16, open_checkpoint
    from qt_bert.scoring.bulk import Scorer

    if dtype == "bfloat16" and not has_bfloat16():
        say("this processor has no bfloat16 products: float32 will be faster")
    folder = model if model is not None else shipped(GRADED)
    checkpoint = open_checkpoint(
        folder,
        dtype=dtype,
        model_grades=model_grades,
        compact=not (by_head or heads_out is not None),
    )
    scorer = Scorer(checkpoint, max_length=max_length)
    if title_states is not None:
        return _reading(scorer, title_states)
    return scorer if heads_out is None else heads_out.of(scorer)


def _reading(scorer: Scorer, folder: Path) -> Scorer:
    """`scorer` with the title states in `folder`; says so."""
    from qt_bert.scoring.title_states.reading import open_states

    states = open_states(folder, scorer.checkpoint)
    say(f"{folder}: {states.titles:,} titles behind {states.offline.layers} layers, {states.dtype}")
    return scorer.reading(states)


@dataclass(frozen=True)
class HeadsOut:
    """What `--heads-out`, `--mode` and `--reference` say, and how the reference file is read."""

    heads: str
    mode: str
    reference: Path | None
    reader: ReaderOptions

    @classmethod
    def asked(
        cls,
        heads: str | None,
        mode: str | None,
        reference: Path | None,
        reader: ReaderOptions | None = None,
    ) -> HeadsOut | None:
        """None where no heads are named; then the other two mean nothing: ArgumentError."""
        if heads is not None:
            return cls(heads, mode or "zero", reference, reader or ReaderOptions())
        if mode is not None or reference is not None:
            option = "--mode" if mode is not None else "--reference"
            raise ArgumentError(f"{option} goes with --heads-out 'L2H1 L3H7', which names no head")
        return None

    def of(self, scorer: Scorer) -> Scorer:
        """`scorer` without these heads; says so."""
        from qt_bert.ablation.heads_out import leave_heads_out

        shown = self.reader if self.reference is not None else ReaderOptions()
        pairs = list(shown.open(self.reference or shipped(DEV)))
        without = leave_heads_out(scorer, self.heads, self.mode, pairs)
        say(f"{scorer.checkpoint.name}{left_out(without.describe())}")
        return without


def calibration_of(scorer: Scorer, wanted: bool) -> Calibration | None:
    """The calibration saved beside the model, where `--calibrated` asks for it."""
    if not wanted:
        return None
    from qt_bert.evaluation.calibration import Calibration

    stored = scorer.checkpoint.settings.calibration
    if stored is None:
        raise ArgumentError(
            f"--calibrated: {scorer.checkpoint.name} has no calibration; make one with "
            "`qt-bert calibrate`"
        )
    return Calibration.from_json(stored)


def pairs_or_test(pairs: Path | None) -> Path:
    """`--pairs`, or the test split that ships."""
    return pairs if pairs is not None else shipped(TEST)


def tell_truncation(scorer: Scorer) -> None:
    """Say how many texts did not fit."""
    counts = scorer.counts
    if counts.truncated_titles or counts.truncated_queries:
        say(
            f"{counts.truncated_titles:,} titles and {counts.truncated_queries:,} queries of "
            f"{counts.pairs:,} pairs were cut at {scorer.tokenizer.max_length} tokens "
            "(--max-length)"
        )


def tell_states(scorer: Scorer) -> None:
    """Say how many titles were read, and why others had to be computed."""
    if scorer.split is None:
        return
    counts, start = scorer.split.counts, scorer.split.states.offline.title_start
    say(
        f"{counts.read:,} pairs with stored title states; computed whole: {counts.unknown_titles:,} "
        f"with unknown titles, {counts.long_queries:,} with queries beyond {start} tokens"
    )
