"""[CLS]'s attention token by token, with and without heads left out, as a figure (2.4.3)."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.figures import Token, TokenLine, Tokens
from qt_bert.probes.display import ATTENTION
from qt_bert.probes.focus.case import Case
from qt_bert.probes.focus.words import AFTER, BEFORE, CONTROL
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text


def case_tokens(case: Case, title: Text) -> Tokens:
    """The case's lines: the whole model, without the matching heads, and the control where it is."""
    lines = [(BEFORE, case.before), (AFTER, case.after)]
    if case.control is not None:
        lines.append((CONTROL, case.control))
    return row_tokens("case", title, case.tokens, case.matched, lines)


def row_tokens(
    name: str,
    title: Text,
    tokens: Sequence[str],
    matched: Sequence[bool],
    lines: Sequence[tuple[Text, FloatArray]],
) -> Tokens:
    """[CLS]'s weights on the tokens, a line each way to run the model; `matched` ones are outlined."""
    return Tokens(
        name=name,
        title=title,
        unit=ATTENTION,
        lines=tuple(
            TokenLine(
                name=_with_share(way, weights, matched), tokens=_line(tokens, matched, weights)
            )
            for way, weights in lines
        ),
        low=0.0,
        note=Text("粗框：两文本共有的词", "Outlined: terms that stand in both texts"),
    )


def change_tokens(
    name: str,
    title: Text,
    tokens: Sequence[str],
    matched: Sequence[bool],
    change: tuple[Text, FloatArray],
) -> Tokens:
    """How [CLS]'s weights on the tokens change, from less over none to more, as one named line."""
    way, values = change
    return Tokens(
        name=name,
        title=title,
        unit=ATTENTION,
        lines=(TokenLine(name=way, tokens=_line(tokens, matched, values)),),
        scale="diverging",
    )


def _with_share(way: Text, weights: FloatArray, matched: Sequence[bool]) -> Text:
    share = float(weights[list(matched)].sum())
    return Text(
        f"{way.zh}：共有的词占全部注意力的 {share:.0%}",
        f"{way.en}: {share:.0%} of all attention on shared terms",
    )


def _line(tokens: Sequence[str], matched: Sequence[bool], values: FloatArray) -> tuple[Token, ...]:
    return tuple(
        Token(text=text, value=float(value), marked=bool(one))
        for text, value, one in zip(tokens, values, matched, strict=True)
    )
