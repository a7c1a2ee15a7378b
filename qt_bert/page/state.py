"""A page's state: one value, kept in the address. Links are checked like typed input."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace

from qt_bert.ablation.masks import MODES
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.heads import Head, Shape, format_heads, parse_heads
from qt_bert.page.model import ModelPool
from qt_bert.page.pairs import RefusedInput, cases, clean_texts, short
from qt_bert.page.results import HeadResults, most_focused
from qt_bert.probes.focus import layer_of
from qt_bert.results.head_sets import reader_of
from qt_bert.text import Text

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
    """Model, pair, the chosen head, the heads left out (`out`) and by which mode, seed and language."""

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
        """The head that the page shows."""
        return Head(self.layer, self.head)

    @property
    def empty(self) -> bool:
        """Whether query or title is blank, so that there is no pair to run."""
        return not (self.query.strip() and self.title.strip())

    def to_query(self) -> dict[str, str]:
        """The state as the parameters of a link; `read_state` reads it."""
        values = {field: str(getattr(self, field)) for field in KEYS}
        values["out"] = format_heads(self.out) or NO_HEADS
        return {KEYS[field]: value for field, value in values.items()}


def first_state(pool: ModelPool, results: HeadResults | None) -> State:
    """What a first visit shows: the article's query without the matching heads (2.4.3), and the reader.

    Where there is no reader, the head with the largest focus.
    """
    model = pool.names[0]
    pair = next(pair for pair in cases() if pair.id == FIRST_CASE)
    layer = layer_of(pool.open(model).shape)
    sets = results.sets if results else {}
    out = tuple(head for head in sets.get("matching", ()) if head.layer < layer)
    chosen = reader_of(sets) or most_focused(sets, out) or Head(layer, 0)
    return State(
        model=model,
        query=pair.query,
        title=pair.title,
        layer=chosen.layer,
        head=chosen.head,
        out=out,
        mode="zero",
        seed=0,
        language="zh",
    )


def read_state(
    query: Mapping[str, str], default: State, pool: ModelPool
) -> tuple[State, list[Text]]:
    """The state of a link, with `default` for what it lacks; and what was invalid and replaced by it.

    Other parameters are ignored. Another model leaves no heads out, and keeps the layer and head of
    `default` where it has them.
    """
    fields = {field: query[key] for field, key in KEYS.items() if key in query}
    faults: list[Text] = []
    start, model = default, fields.get("model", default.model)
    if model != default.model:
        try:
            shape = pool.open(model).shape
        except QtBertError as error:
            faults.append(
                Text(
                    f"模型 {short(model)} 打不开，沿用原来的模型（{error}）",
                    f"the model {short(model)} cannot be opened; the previous one stays ({error})",
                )
            )
        else:
            layer = default.layer if default.layer < shape.layers else layer_of(shape)
            head = default.head if default.head < shape.heads else 0
            start = replace(default, model=model, layer=layer, head=head, out=())
    shape = pool.open(start.model).shape

    def refuse(field: str, valid: str) -> None:
        key, value, default = KEYS[field], short(fields[field]), getattr(start, field)
        zh, en = f"{key}={value} 无效（可用：{valid}）", f"{key}={value} is invalid ({valid})"
        faults.append(Text(f"{zh}；沿用 {default}", f"{en}; {default} stays"))

    def number(field: str, most: int) -> int:
        default: int = getattr(start, field)
        text = fields.get(field, str(default))
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most:
            return int(text)
        refuse(field, f"0–{most}")
        return default

    def choice(field: str, choices: tuple[str, ...]) -> str:
        default: str = getattr(start, field)
        text = fields.get(field, default)
        if text in choices:
            return text
        refuse(field, "/".join(choices))
        return default

    def heads() -> tuple[Head, ...]:
        text = fields.get("out")
        if text is None:
            return start.out
        try:
            return () if text == NO_HEADS else typed_heads(text, shape)
        except RefusedInput as error:
            default, why = format_heads(start.out) or NO_HEADS, error.message
            faults.append(Text(f"{why.zh}；沿用 {default}", f"{why.en}; {default} stays"))
            return start.out

    text, title, changes = clean_texts(
        fields.get("query", start.query), fields.get("title", start.title)
    )
    faults += changes
    state = replace(
        start,
        query=text,
        title=title,
        layer=number("layer", shape.layers - 1),
        head=number("head", shape.heads - 1),
        seed=number("seed", MOST_SEED),
        out=heads(),
        mode=choice("mode", MODES),
        language=choice("language", LANGUAGES),
    )
    return state, faults


def typed_heads(text: str, shape: Shape) -> tuple[Head, ...]:
    """The heads in a text such as `L3H7 L2H1`, sorted, each once.

    Separated by spaces or commas, Chinese ones too; lower case is accepted. Raises RefusedInput (an
    ArgumentError) naming what is not a head of a model of `shape`.
    """
    plain = unicodedata.normalize("NFKC", text).replace("、", " ").replace(",", " ").upper()
    heads: list[Head] = []
    for name in plain.split():
        try:
            heads += parse_heads(name, shape)
        except ArgumentError as error:
            last = Head(shape.layers - 1, shape.heads - 1)
            raise RefusedInput(
                Text(
                    f"{short(name)} 不是这个模型的注意力头；写法如 L3H7，这里有 L0H0 到 {last}",
                    f"{short(name)} is no head of this model; write it as L3H7, from L0H0 to {last}",
                )
            ) from error
    return tuple(sorted(set(heads)))
