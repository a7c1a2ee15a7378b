"""A pair with one of its texts in another order: drawn by kind and seed, or typed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qt_bert.ablation.families import DRAWS
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.state import clean_texts
from qt_bert.probes.word_order.study import CASE_QUERY, CASE_SHUFFLED, CASE_TITLE
from qt_bert.probes.word_order.texts import SIDES, disturbances
from qt_bert.results import Text, Tokens
from qt_bert.results.figures import Token, TokenLine

Side = Literal["title", "query"]
TYPED = "typed"
"""Beside `KINDS`: the order that the visitor typed."""

CASE = (CASE_QUERY, CASE_TITLE, CASE_SHUFFLED)
"""The article's pair and its own shuffled title (2.3)."""


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """A pair as it was and with the text of `side` in another order."""

    query: str
    title: str
    side: Side
    text: str

    @property
    def original(self) -> str:
        """The text of `side` as it was."""
        return self.title if self.side == "title" else self.query

    @property
    def before(self) -> tuple[str, str]:
        """The pair as it was."""
        return self.query, self.title

    @property
    def after(self) -> tuple[str, str]:
        """The pair in the other order."""
        return (self.query, self.text) if self.side == "title" else (self.text, self.title)

    @classmethod
    def typed(cls, query: str, title: str, side: Side, text: str) -> Shuffled | None:
        """With a text as somebody typed it, cleaned like a link's; None for nothing, or no change."""
        on_title = side == "title"
        new_query, new_title, _ = clean_texts(*((query, text) if on_title else (text, title)))
        cleaned = new_title if on_title else new_query
        one = cls(query=query, title=title, side=side, text=cleaned)
        return one if cleaned.strip() and cleaned != one.original else None

    @property
    def difference(self) -> Text | None:
        """The characters that one of the texts has and the other lacks; None for a mere order."""
        old, new = Counter(self.original), Counter(self.text)
        if old == new:
            return None
        added, dropped = ("".join((a - b).elements()) or "–" for a, b in ((new, old), (old, new)))
        return Text(
            f"不只是换了顺序：多了 {added}，少了 {dropped}",
            f"More than the order differs: added {added}, missing {dropped}",
        )


def shuffled(
    inspected: Inspected, query: str, title: str, *, side: Side, kind: str, seed: int
) -> Shuffled | None:
    """One draw of a kind (of `KINDS`); None where the text has no other order of this kind.

    The same seed gives the same text. Raises ArgumentError where the segmenter's words overlap.
    """
    rng = np.random.default_rng([seed, *f"{side}:{kind}".encode()])
    text = disturbances(inspected.segmenter)[kind](title if side == "title" else query, rng)
    return None if text is None else Shuffled(query=query, title=title, side=side, text=text)


def draws(
    inspected: Inspected,
    query: str,
    title: str,
    *,
    side: Side,
    kind: str,
    seed: int,
    number: int = DRAWS,
) -> list[Shuffled]:
    """`number` draws, of the seeds from `seed` on, one after the other; texts may come again.

    There is one reversal only. Empty where the text has no other order.
    """
    seeds = range(seed, seed + (1 if kind == "reversal" else number))
    found = (shuffled(inspected, query, title, side=side, kind=kind, seed=one) for one in seeds)
    return [one for one in found if one is not None]


def text_figure(pair: Shuffled) -> Tokens:
    """Both orders, character by character; outlined where they differ."""
    width = max(len(pair.original), len(pair.text))
    other = [pair.text[at : at + 1] != pair.original[at : at + 1] for at in range(width)]
    lines = {
        Text("原样", "as it was"): pair.original,
        Text("乱序", "in another order"): pair.text,
    }
    side = SIDES[pair.side]
    return Tokens(
        name="order_text",
        title=Text(f"{side.zh}的两种顺序", f"The {side.en} in both orders"),
        unit="",
        lines=tuple(
            TokenLine(
                name=name,
                tokens=tuple(
                    Token(text=one, marked=other[at] and number > 0) for at, one in enumerate(text)
                ),
            )
            for number, (name, text) in enumerate(lines.items())
        ),
        note=Text("框出的位置上字变了", "Outlined: places where another character stands now"),
    )
