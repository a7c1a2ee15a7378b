"""The encoder families: where each keeps its backbone, and how its head reads the first token.

All share BERT's layer (self-attention, add & norm, feed-forward, add & norm); a family is one
declaration here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qt_bert.errors import CheckpointError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Family:
    """One value of `model_type` in a config.json.

    `backbone` is the attribute of the Hugging Face model that holds `embeddings` and `encoder`;
    `classifier` the weight whose rows are the labels; `head` turns the last hidden state of the
    first token [batch, 1, hidden] into logits [batch, labels].
    """

    model_type: str
    backbone: str
    classifier: str
    head: Callable[[Any, torch.Tensor], torch.Tensor]

    def first_position(self, pad: int) -> int:
        """The number of the first token's position embedding: a RoBERTa's lie behind that of `pad`."""
        return pad + 1 if "roberta" in self.model_type else 0


def _pooled(model: Any, first: torch.Tensor) -> torch.Tensor:
    return model.classifier(model.base_model.pooler(first))


def _direct(model: Any, first: torch.Tensor) -> torch.Tensor:
    return model.classifier(first)


FAMILIES = {
    family.model_type: family
    for family in (
        Family("bert", "bert", "classifier.weight", _pooled),
        Family("ernie", "ernie", "classifier.weight", _pooled),
        Family("roberta", "roberta", "classifier.out_proj.weight", _direct),
        Family("xlm-roberta", "roberta", "classifier.out_proj.weight", _direct),
        Family("electra", "electra", "classifier.out_proj.weight", _direct),
    )
}


def family_of(model_type: str, where: str) -> Family:
    """The family of a `model_type`. Raises CheckpointError naming the known ones."""
    if model_type not in FAMILIES:
        raise CheckpointError(
            f"{where}: model_type {model_type!r} is not an encoder this toolkit knows; "
            f"it opens {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[model_type]
