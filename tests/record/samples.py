"""Sample sizes, draws and head sets of a record, given to a later run as they were.

A probe asks its context to choose between what is quick and what is full. What it got is written
down under the text of the call's first argument (`QUICK_PAIRS[discovery]`, the half filled in), and
a later run gets the same again, whatever its profile says by then. In the same way a probe that
reads the heads of another gets those of the record, so that a rounding difference there flips no
choice here.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any
from unittest import mock

from tests.record.make import Value


class Samples:
    """What probes chose, by probe and by the text of the choice.

    `recorded` is that of an earlier record, by probe; `heads` are its head scores and sets.
    """

    def __init__(
        self, recorded: dict[str, Value] | None = None, heads: dict[str, Value] | None = None
    ) -> None:
        self.recorded, self.heads = recorded or {}, heads or {}
        self.used: dict[str, dict[str, Value]] = {}

    @contextmanager
    def given(self) -> Iterator[None]:
        """Every probe run in here gets the recorded samples and head sets."""
        from qt_bert.probes.base import Context

        profile, found = Context.choose, Context.found

        def choose(context: Any, quick: Any, full: Any) -> Any:
            value, (text, whole) = profile(context, quick, full), _asked(sys._getframe(1))
            if isinstance(value, str) or (whole and context.full):
                return value
            recorded = self.recorded.get(context.label, {})
            if text in recorded:
                value = _decoded(recorded[text], value)
            used, plain = self.used.setdefault(context.label, {}), _encoded(value)
            if used.setdefault(text, plain) != plain:
                raise ValueError(f"{context.label}: {text} is {used[text]} and {plain}")
            return value

        def with_recorded(context: Any, name: str) -> Any:
            return _with_heads(found(context, name), self.heads.get(name))

        with (
            mock.patch.object(Context, "choose", choose),
            mock.patch.object(Context, "found", with_recorded),
        ):
            yield


def _asked(frame: Any) -> tuple[str, bool]:
    """Of the call that this frame is at: the text of its first argument, with the name of a half
    filled in, and whether the second one counts what there is, so that full means everything."""
    first, last, start, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    lines = [
        linecache.getline(frame.f_code.co_filename, n).encode() for n in range(first, last + 1)
    ]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    call = ast.parse(b"".join(lines).decode(), mode="eval").body
    asked = [ast.unparse(one) for one in (*call.args, *(word.value for word in call.keywords))]
    values = {name: one for name, one in frame.f_locals.items() if isinstance(one, str)}
    text = re.sub(r"\[(\w+)\]", lambda found: f"[{values.get(found[1], found[1])}]", asked[0])
    return text, "len(" in asked[-1]


def _encoded(value: Any) -> Value:
    """Plain data where the value is a number, a text or a collection of them; else its name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(name): _encoded(one) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(getattr(value, "name", None), str):
        return {one.name: _encoded(getattr(value, one.name)) for one in fields(value)}
    return [_encoded(one) for one in value] if isinstance(value, list | tuple) else str(value.name)


def _decoded(recorded: Value, template: Any) -> Any:
    """The recorded value in the form of the profile's; the profile's where they do not fit."""
    if is_dataclass(template) and not isinstance(template, type):
        known = {one.name for one in fields(template)} & set(recorded)
        return replace(
            template,
            **{name: _decoded(recorded[name], getattr(template, name)) for name in known},
        )
    if isinstance(template, dict):
        return {name: _decoded(recorded.get(str(name), one), one) for name, one in template.items()}
    if isinstance(template, tuple | list):
        plain = all(one is None or isinstance(one, int | float | str) for one in template)
        if not plain:
            return template
        return template._make(recorded) if hasattr(template, "_make") else type(template)(recorded)
    return recorded


def _with_heads(result: Any, recorded: Value) -> Any:
    """A probe's result with the recorded scores and sets of heads."""
    if recorded is None:
        return result
    scores = recorded["heads"]
    place = {name: n for n, name in enumerate(scores.get("head", ()))}
    heads = tuple(
        replace(one, scores={name: scores[name][place[one.head]] for name in one.scores})
        if one.head in place and set(one.scores) <= set(scores)
        else one
        for one in result.heads
    )
    sets = {name: tuple(recorded["sets"].get(name, own)) for name, own in result.sets.items()}
    return replace(result, heads=heads, sets=sets)
