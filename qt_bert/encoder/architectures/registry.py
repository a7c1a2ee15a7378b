"""The architectures by name: what `--arch` calls them, what a config.json says, where each lies."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.results.text import Text

if TYPE_CHECKING:
    from qt_bert.encoder.architectures.model import PairModel

CROSS_ENCODER = "cross-encoder"
"""The architecture of the encoder families: both texts in one sequence (see `encoder/families.py`)."""


@dataclass(frozen=True)
class Architecture:
    """A kind of model without attention heads between the texts.

    `name` is that of `--arch`, `model_type` that of config.json; `home` is the module of this room
    and the class in it. `encodes`: a BERT reads the texts, apart; `compiles`: its training is worth
    compiling (an LSTM's rows, as wide as a batch's longest text, have too many shapes).
    """

    name: str
    title: Text
    home: tuple[str, str]
    encodes: bool
    compiles: bool

    @property
    def model_type(self) -> str:
        """What config.json says, of no other library's models."""
        return f"qt_bert-{self.name}"

    @property
    def classifier(self) -> str:
        """The weight whose rows are the labels."""
        return "classifier.weight"

    @property
    def model(self) -> type[PairModel]:
        """The class of its models."""
        module, name = self.home
        found: type[PairModel] = getattr(import_module(f"{__package__}.{module}"), name)
        return found

    def no_heads(self, name: str) -> CheckpointError:
        """The error for asking the model `name` of this architecture for its heads."""
        return CheckpointError(
            f"{name}: this architecture ({self.name}) has no attention heads between query and "
            "title; score, evaluate, compare, calibrate and explain take it"
        )


ARCHITECTURES = {
    one.name: one
    for one in (
        Architecture(
            "lstm-attention",
            Text("LSTM-Attention 交互匹配", "LSTM with attention, interactive"),
            ("lstm_attention", "LstmAttention"),
            encodes=False,
            compiles=False,
        ),
        Architecture(
            "two-tower",
            Text("双塔 BERT", "two-tower BERT"),
            ("two_tower", "TwoTower"),
            encodes=True,
            compiles=True,
        ),
        Architecture(
            "bert+lstm",
            Text("双塔 BERT + LSTM-Attention", "two-tower BERT + LSTM with attention"),
            ("bert_lstm", "BertLstm"),
            encodes=True,
            compiles=False,
        ),
    )
}
"""By the name of `--arch`, the cross-encoder apart."""

TITLES = {CROSS_ENCODER: Text("交叉编码 BERT", "cross-encoder BERT")} | {
    name: one.title for name, one in ARCHITECTURES.items()
}
"""What a reader of a table sees, by the name of `--arch`, the cross-encoder first."""


def architecture_named(name: str) -> Architecture | None:
    """The architecture `--arch` asks for; None is the cross-encoder. Raises ArgumentError."""
    if name not in TITLES:
        raise ArgumentError(f"--arch {name!r}: choose from {', '.join(TITLES)}")
    return ARCHITECTURES.get(name)


def architecture_of(model_type: object) -> Architecture | None:
    """The architecture with this `model_type` in its config.json; None for any other."""
    return next((one for one in ARCHITECTURES.values() if one.model_type == model_type), None)
