"""The same scores of a model that was tuned with another seed, where one was given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from qt_bert.encoder import Checkpoint
from qt_bert.probes.common.base_model import open_second
from qt_bert.probes.context import ProbeContext
from qt_bert.results import Text
from qt_bert.scoring.bulk import Scorer

T = TypeVar("T")

NO_SECOND = {
    "zh": "没有给出另一个种子微调的模型（--second），所以不知道换个种子是否还选出这些头。",
    "en": "No model tuned with a second seed was given (--second), so whether another seed names "
    "these heads is not known.",
}


@dataclass(frozen=True, eq=False)
class OtherSeed(Generic[T]):
    """Another model tuned from the same base, and what its heads score on the same pairs."""

    checkpoint: Checkpoint
    scores: T

    @property
    def name(self) -> Text:
        """What it is called beside a set."""
        name = self.checkpoint.name
        return Text(f"另一个种子（{name}）", f"another seed ({name})")


def other_seed(context: ProbeContext, score: Callable[[Scorer], T]) -> OtherSeed[T] | None:
    """What `score` makes of the second model; None where none was given.

    Raises CheckpointError as `open_second` does.
    """
    if context.second is None:
        return None
    checkpoint = open_second(context.second, context.model.checkpoint)
    scorer = Scorer(checkpoint, max_length=context.model.tokenizer.max_length)
    return OtherSeed(checkpoint, score(scorer))


def described(second: OtherSeed[T] | None) -> dict[str, str]:
    """Name and hash for a result's settings, or why there is none, in both languages."""
    if second is None:
        return NO_SECOND
    return {"name": second.checkpoint.name, "sha256": second.checkpoint.sha256}
