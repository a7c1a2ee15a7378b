"""Heads with a function, as another probe named them: what causal probes ask about.

They come from `--heads`, else from the results of `matching`, `order` and `boundary`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from qt_bert.encoder.heads import Head, names_of, parse_heads
from qt_bert.probes.context import ProbeContext
from qt_bert.results import ProbeResult, Text
from qt_bert.results.stability import NOT_STABLE, is_unstable

Function = Literal["matching", "order", "boundary"]
MOST = 5
"""As many of the best by score as stand in where no head was named."""

_SETS: Mapping[Function, tuple[str, str]] = {
    "matching": ("matching", "named"),
    "order": ("order", "order_named"),
    "boundary": ("boundary", "boundary"),
}
"""The set that each probe puts forward, best first, and the heads that passed its bars."""

_SCORES: Mapping[Function, str] = {
    "matching": "score",
    "order": "score",
    "boundary": "discovery_balanced",
}

_KINDS: Mapping[Function, Text] = {
    "matching": Text("匹配头", "matching head"),
    "order": Text("语序头", "order head"),
    "boundary": Text("词边界头", "boundary head"),
}

NOT_NAMED = Text("未被命名的头", "heads not named")


@dataclass(frozen=True)
class FunctionHeads:
    """Heads of one function, best first.

    `named`: each of them passed the bars of its probe. `source` says where they come from.
    `unstable`: its probe found that other queries name other heads.
    """

    function: Function
    heads: tuple[Head, ...]
    named: bool
    source: Literal["option", "probe"]
    unstable: bool = False

    @property
    def note(self) -> Text | None:
        """What every figure says where the heads are not named or not stable; None where they are."""
        notes = [] if self.named else [NOT_NAMED]
        if self.unstable:
            notes.append(NOT_STABLE)
        if not notes:
            return None
        return Text("，".join(one.zh for one in notes), ", ".join(one.en for one in notes))

    @property
    def said(self) -> Text:
        """`5 个匹配头`, `the 5 matching heads`, and behind it that they are not named or not stable."""
        count, kind = len(self.heads), _KINDS[self.function]
        zh = f"{count} 个{kind.zh}"
        en = f"the {kind.en}" if count == 1 else f"the {count} {kind.en}s"
        note = self.note
        return Text(zh, en) if note is None else Text(f"{zh}（{note.zh}）", f"{en} ({note.en})")

    def resting(self, sample: Text) -> Text:
        """`sample`, which a figure rests on, and behind it the `note` on the heads."""
        note = self.note
        if note is None:
            return sample
        return Text(f"{sample.zh}；{note.zh}", f"{sample.en}; {note.en}")

    def describe(self) -> dict[str, Any]:
        """As settings hold it."""
        return {"heads": list(names_of(self.heads)), "named": self.named, "source": self.source}

    def below(self, layer: int) -> FunctionHeads:
        """Those that lie below a layer."""
        heads = tuple(head for head in self.heads if head.layer < layer)
        return replace(self, heads=heads)


def function_heads(context: ProbeContext, function: Function) -> FunctionHeads | None:
    """The heads of a function; None where the pairs gave no head a score.

    Heads of `--heads` are taken for the matching ones, and count as named. Raises ArgumentError where
    these are not heads of the model.
    """
    shape = context.model.checkpoint.shape
    if function == "matching" and context.heads is not None:
        return FunctionHeads(function, tuple(parse_heads(context.heads, shape)), True, "option")
    found = context.found(function)
    forward, passed = (found.sets.get(name, ()) for name in _SETS[function])
    unstable = is_unstable(found.stability, _SETS[function][0])
    chosen = [Head.parse(name) for name in forward if name in passed]
    if chosen:
        return FunctionHeads(function, tuple(chosen), True, "probe", unstable)
    best = [Head.parse(name) for name in forward] or _best(found, _SCORES[function])
    if not best:
        return None
    return FunctionHeads(function, tuple(best[:MOST]), False, "probe", unstable)


def _best(found: ProbeResult, score: str) -> list[Head]:
    """All heads that have the score, best first; ties by place."""
    scored = [
        (-value, Head.parse(one.head))
        for one in found.heads
        if (value := one.scores.get(score)) is not None
    ]
    return [head for _, head in sorted(scored)]
