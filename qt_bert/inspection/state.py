"""What a visitor looks at: one value that lives in the URL and is checked like typed input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from qt_bert.ablation.masks import MODES
from qt_bert.errors import QtBertError
from qt_bert.inspection.inputs import (
    RefusedInput,
    case,
    clean_texts,
    short,
    typed_heads,
)
from qt_bert.models.heads import Head, Shape, spell
from qt_bert.probes.focus import layer_of
from qt_bert.text import Text

if TYPE_CHECKING:
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.study import Studied

LANGUAGES = ("zh", "en")
MOST_SEED = 2**31 - 1
FIRST_CASE = "article-focus"
NO_HEADS = "none"
KEYS = {
    "model": "model",
    "query": "q",
    "title": "t",
    "layer": "layer",
    "head": "head",
    "out": "out",
    "mode": "mode",
    "seed": "seed",
    "language": "lang",
}
"""Field of the state → its key in a link."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Model, pair, the head looked at, the heads left out (`out`) and how, seed and language."""

    model: str
    query: str
    title: str
    layer: int
    head: int
    out: tuple[Head, ...]
    mode: str
    seed: int
    language: str

    @property
    def chosen(self) -> Head:
        """The head looked at."""
        return Head(self.layer, self.head)

    @property
    def empty(self) -> bool:
        """Whether a text says nothing, so that there is no pair to run."""
        return not (self.query.strip() and self.title.strip())

    def to_query(self) -> dict[str, str]:
        """The state as the parameters of a link; `read_state` reads it."""
        values = {field: str(getattr(self, field)) for field in KEYS}
        values["out"] = spell(self.out) or NO_HEADS
        return {KEYS[field]: value for field, value in values.items()}

    def on(self, model: str, shape: Shape) -> State:
        """The same with another model: the layer and head there are, and no heads left out."""
        layer = self.layer if self.layer < shape.layers else layer_of(shape)
        head = self.head if self.head < shape.heads else 0
        return replace(self, model=model, layer=layer, head=head, out=())


def first_state(shelf: Shelf, studied: Studied | None) -> State:
    """What a first visit shows: the article's query with the matching heads left out (2.4.3)."""
    model, pair = shelf.names[0], case(FIRST_CASE)
    shape = shelf.open(model).shape
    layer = layer_of(shape)
    sets = studied.sets if studied else {}
    readers = [head for head in sets.get("reader", ()) if head.layer == layer]
    return State(
        model=model,
        query=pair.query,
        title=pair.title,
        layer=layer,
        head=readers[0].head if readers else 0,
        out=tuple(head for head in sets.get("matching", ()) if head.layer < layer),
        mode="zero",
        seed=0,
        language="zh",
    )


def read_state(query: Mapping[str, str], default: State, shelf: Shelf) -> tuple[State, list[Text]]:
    """The state that a link's parameters name, and what did not fit, where `default` stands.

    Parameters that are no key of a state say nothing.
    """
    given = {field: query[key] for field, key in KEYS.items() if key in query}
    faults: list[Text] = []
    start = default
    if "model" in given and given["model"] != default.model:
        try:
            start = default.on(given["model"], shelf.open(given["model"]).shape)
        except QtBertError as error:
            faults.append(_model_fault(given["model"], error))
    shape = shelf.open(start.model).shape
    reader = _Reader(given, start, faults)
    asked_query, asked_title, said = clean_texts(reader.text("query"), reader.text("title"))
    faults += said
    found = replace(
        start,
        query=asked_query,
        title=asked_title,
        layer=reader.number("layer", shape.layers - 1),
        head=reader.number("head", shape.heads - 1),
        seed=reader.number("seed", MOST_SEED),
        out=reader.heads(shape),
        mode=reader.choice("mode", MODES),
        language=reader.choice("language", LANGUAGES),
    )
    return found, faults


class _Reader:
    """Fields of a link, one by one; what does not fit is a fault, and the start's value stands."""

    def __init__(self, given: Mapping[str, str], start: State, faults: list[Text]) -> None:
        self.given, self.start, self.faults = given, start, faults

    def text(self, field: str) -> str:
        return self.given.get(field, getattr(self.start, field))

    def number(self, field: str, most: int) -> int:
        kept: int = getattr(self.start, field)
        text = self.given.get(field, str(kept))
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most:
            return int(text)
        self._fault(field, text, f"0–{most}", str(kept))
        return kept

    def choice(self, field: str, choices: tuple[str, ...]) -> str:
        kept: str = getattr(self.start, field)
        text = self.given.get(field, kept)
        if text in choices:
            return text
        self._fault(field, text, "/".join(choices), kept)
        return kept

    def heads(self, shape: Shape) -> tuple[Head, ...]:
        text = self.given.get("out")
        if text is None:
            return self.start.out
        try:
            return () if text == NO_HEADS else typed_heads(text, shape)
        except RefusedInput as error:
            zh, en = error.said.zh, error.said.en
            kept = spell(self.start.out) or NO_HEADS
            self.faults.append(Text(f"{zh}；保留 {kept}", f"{en}; {kept} stays"))
            return self.start.out

    def _fault(self, field: str, text: str, known: str, kept: str) -> None:
        key, wrong = KEYS[field], short(text)
        self.faults.append(
            Text(
                f"{key}={wrong} 不合要求（{known}）；保留 {kept}",
                f"{key}={wrong} does not fit ({known}); {kept} stays",
            )
        )


def _model_fault(name: str, error: QtBertError) -> Text:
    shown = short(name)
    return Text(
        f"模型 {shown} 打不开，保留原来的模型（{error}）",
        f"the model {shown} cannot be opened, the one before stays ({error})",
    )
