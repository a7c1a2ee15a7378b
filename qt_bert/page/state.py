"""What a visitor looks at: one value that lives in the address; links are checked like typed input."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace

from qt_bert.ablation.masks import MODES
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.heads import Head, Shape, format_heads, parse_heads
from qt_bert.page.model import ModelPool
from qt_bert.page.pairs import RefusedInput, cases, clean_texts, short
from qt_bert.page.study import Study
from qt_bert.probes.focus import layer_of
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
        values["out"] = format_heads(self.out) or NO_HEADS
        return {KEYS[field]: value for field, value in values.items()}


def first_state(pool: ModelPool, study: Study | None) -> State:
    """What a first visit shows: the article's query with the matching heads left out (2.4.3)."""
    model = pool.names[0]
    pair = next(one for one in cases() if one.id == FIRST_CASE)
    layer = layer_of(pool.open(model).shape)
    sets = study.sets if study else {}
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


def read_state(
    query: Mapping[str, str], default: State, pool: ModelPool
) -> tuple[State, list[Text]]:
    """The state that a link's parameters name, and what did not fit, where `default` stands.

    Parameters that are no key of a state say nothing. Another model leaves no heads out, and shows
    the layer and head of `default` as far as it has them.
    """
    given = {field: query[key] for field, key in KEYS.items() if key in query}
    faults: list[Text] = []
    start, wanted = default, given.get("model", default.model)
    if wanted != default.model:
        try:
            shape = pool.open(wanted).shape
        except QtBertError as error:
            faults.append(
                Text(
                    f"模型 {short(wanted)} 打不开，保留原来的模型（{error}）",
                    f"the model {short(wanted)} cannot be opened, the one before stays ({error})",
                )
            )
        else:
            layer = default.layer if default.layer < shape.layers else layer_of(shape)
            head = default.head if default.head < shape.heads else 0
            start = replace(default, model=wanted, layer=layer, head=head, out=())
    shape = pool.open(start.model).shape

    def refused(field: str, known: str) -> None:
        key, wrong, kept = KEYS[field], short(given[field]), getattr(start, field)
        zh, en = f"{key}={wrong} 不合要求（{known}）", f"{key}={wrong} does not fit ({known})"
        faults.append(Text(f"{zh}；保留 {kept}", f"{en}; {kept} stays"))

    def number(field: str, most: int) -> int:
        kept: int = getattr(start, field)
        text = given.get(field, str(kept))
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most:
            return int(text)
        refused(field, f"0–{most}")
        return kept

    def choice(field: str, choices: tuple[str, ...]) -> str:
        kept: str = getattr(start, field)
        text = given.get(field, kept)
        if text in choices:
            return text
        refused(field, "/".join(choices))
        return kept

    def heads() -> tuple[Head, ...]:
        text = given.get("out")
        if text is None:
            return start.out
        try:
            return () if text == NO_HEADS else typed_heads(text, shape)
        except RefusedInput as error:
            kept = format_heads(start.out) or NO_HEADS
            faults.append(Text(f"{error.said.zh}；保留 {kept}", f"{error.said.en}; {kept} stays"))
            return start.out

    asked, title, said = clean_texts(
        given.get("query", start.query), given.get("title", start.title)
    )
    faults += said
    found = replace(
        start,
        query=asked,
        title=title,
        layer=number("layer", shape.layers - 1),
        head=number("head", shape.heads - 1),
        seed=number("seed", MOST_SEED),
        out=heads(),
        mode=choice("mode", MODES),
        language=choice("language", LANGUAGES),
    )
    return found, faults


def typed_heads(text: str, shape: Shape) -> tuple[Head, ...]:
    """The heads in `text`, as in `L3H7 L2H1`, sorted, each once; none where there is no text.

    Commas may part them, also Chinese ones, and small letters do. Raises RefusedInput (an
    ArgumentError) naming what is no head, or none of a model of `shape`.
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
