"""From what somebody asks for to a scorer: the model and how it is opened, heads left out, title states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.shipped import DEV, GRADED, shipped

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is opened."""

    model: str | None = None
    """Model folder (or hub name). [default: the graded checkpoint that ships]"""
    dtype: str = "float32"
    """float32, or bfloat16 where the processor has it."""
    max_length: int | None = None
    """Tokens a pair may take; the title is cut first."""
    model_grades: str | None = None
    """Which grades each logit means: '0=1-2,1=3-4,2=5'."""

    def open(
        self,
        heads_out: HeadsOutOptions | None = None,
        reader: ReaderOptions | None = None,
        *,
        by_head: bool = False,
        title_states: Path | None = None,
        told: Callable[[str], None] = lambda line: None,
    ) -> Scorer:
        """The model, ready to score; `told` hears what a person may want to know.

        The heads of `heads_out` are left out, its reference pairs read by `reader`. Where nobody asks
        for single heads (`by_head`), a pruned model is opened as small as it is stored. `title_states`
        is a folder of states to read; it goes with all heads alone. Raises ArgumentError for what
        cannot be meant, CheckpointError for a folder that cannot be opened.
        """
        asked = heads_out is not None and heads_out.asked
        if title_states is not None and asked:
            raise ArgumentError(
                "--title-states and --heads-out: the states were computed with all heads; leave one "
                "out"
            )
        from qt_bert.models.checkpoint import has_bfloat16, open_checkpoint
        from qt_bert.scoring.bulk import Scorer

        if self.dtype == "bfloat16" and not has_bfloat16():
            told("this processor has no bfloat16 products: float32 will be faster")
        checkpoint = open_checkpoint(
            self.model if self.model is not None else shipped(GRADED),
            dtype=self.dtype,
            model_grades=self.model_grades,
            compact=not (by_head or asked),
        )
        scorer = Scorer(checkpoint, max_length=self.max_length)
        if title_states is not None:
            from qt_bert.scoring.title_folder import open_states

            states = open_states(title_states, checkpoint)
            block = f"{states.titles:,} titles behind {states.offline.layers} layers"
            told(f"{title_states}: {block}, {states.dtype}")
            return scorer.reading(states)
        if heads_out is None or not asked:
            return scorer
        without = heads_out.of(scorer, reader or ReaderOptions())
        described = without.describe()
        told(f"{checkpoint.name} without {described['heads_out']} ({described['mode']})")
        return without


@dataclass(frozen=True)
class HeadsOutOptions:
    """Heads to leave out, and what replaces them. Raises ArgumentError for an option without heads."""

    heads_out: str | None = None
    """Leave these heads out: 'L2H1 L3H7', layers and heads from 0."""
    mode: str | None = None
    """What they are replaced by: zero, uniform, mean; or block: in them query and title cannot see
    each other. [default: zero]"""
    reference: Path | None = None
    """Pairs to check --heads-out on and to take mean head outputs from, in the columns of the other
    file. [default: the dev split that ships]"""

    def __post_init__(self) -> None:
        if self.heads_out is None and (self.mode, self.reference) != (None, None):
            option = "--mode" if self.mode is not None else "--reference"
            raise ArgumentError(f"{option} goes with --heads-out 'L2H1 L3H7', which names no head")

    @property
    def asked(self) -> bool:
        """Whether heads are named."""
        return self.heads_out is not None

    def of(self, scorer: Scorer, reader: ReaderOptions) -> Scorer:
        """`scorer` without the heads, proved on the reference pairs."""
        from qt_bert.ablation.request import leave_heads_out

        assert self.heads_out is not None
        asked = reader if self.reference is not None else ReaderOptions()
        pairs = list(asked.open(self.reference or shipped(DEV)))
        return leave_heads_out(scorer, self.heads_out, self.mode or "zero", pairs)
