"""What a text asks, of what: read from, and written in, the forms of the table of needs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import NamedTuple

from qt_bert.training.rules.lookup import Wording, kinds_of_word, wordings, words_of_kind

_SLOT = "{X}"
_QUESTION = re.compile("[怎如何什么哪几谁吗呢的了和与或，。？?! 、:：-]|为什|多少")


class Need(NamedTuple):
    """A subject, what is asked of it, and the kinds of thing that the subject may be."""

    subject: str
    wording: Wording
    form: str
    kinds: tuple[str, ...]


def read_need(text: str) -> Need | None:
    """What `text` asks, where a form of the table fits it from end to end."""
    for form, wording in _by_ending()[text[-2:]]:
        before, after = form.split(_SLOT)
        if text.startswith(before) and text.endswith(after):
            need = _need(text[len(before) : len(text) - len(after)], wording, form)
            if need is not None:
                return need
    return None


def other_form(need: Need, rng: Random) -> str | None:
    """The same need in other words."""
    forms = [form for form in need.wording.forms if form != need.form]
    return said(rng.choice(forms), need.subject) if forms else None


def other_need(need: Need, rng: Random) -> str | None:
    """The form of another need that the same subject may have."""
    others = _other_wordings(need, rng)
    return rng.choice(rng.choice(others).forms) if others else None


def other_aspects(need: Need, number: int, rng: Random) -> list[str]:
    """Up to `number` other needs of the subject, said without naming it again."""
    others = _other_wordings(need, rng)
    drawn = (rng.choice(w.forms).split(_SLOT) for w in rng.sample(others, min(number, len(others))))
    return [after.removeprefix("的") for before, after in drawn if not before and len(after) > 1]


def _other_wordings(need: Need, rng: Random) -> list[Wording]:
    asked = set(need.wording.forms)
    return [w for w in _by_kind()[rng.choice(need.kinds)] if not asked & set(w.forms)]


def said(form: str, subject: str) -> str:
    """`form` with `subject` in its slot."""
    return form.replace(_SLOT, subject)


def composed(rng: Random) -> tuple[str, str]:
    """Two texts of one need of a thing of the tables, in different words."""
    kind = rng.choice(_kinds_with_members())
    forms = rng.choice(_by_kind()[kind]).forms
    subject = rng.choice(words_of_kind()[kind])
    query, title = rng.sample(forms, 2)
    return said(query, subject), said(title, subject)


def _need(subject: str, wording: Wording, form: str) -> Need | None:
    if not 2 <= len(subject) <= 12:
        return None
    known = kinds_of_word().get(subject, ())
    if known:
        kinds = tuple(kind for kind in wording.kinds if kind in known)
    elif _QUESTION.search(subject):
        return None
    else:
        kinds = tuple(kind for kind in wording.kinds if kind not in words_of_kind())
    return Need(subject, wording, form, kinds) if kinds else None


@cache
def _kinds_with_members() -> tuple[str, ...]:
    # A kind comes as often as it has needs, so that texts of a rich kind do not repeat less.
    return tuple(
        kind for kind, found in _by_kind().items() if kind in words_of_kind() for _ in found
    )


@cache
def _by_kind() -> Mapping[str, tuple[Wording, ...]]:
    found: dict[str, list[Wording]] = defaultdict(list)
    for wording in wordings("needs"):
        for kind in wording.kinds:
            found[kind].append(wording)
    return {kind: tuple(several) for kind, several in found.items()}


@cache
def _by_ending() -> Mapping[str, list[tuple[str, Wording]]]:
    """The last two characters of a form (or of a subject it ends with) → forms, longest first."""
    found: dict[str, list[tuple[str, Wording]]] = defaultdict(list)
    for wording in wordings("needs"):
        for form in wording.forms:
            for ending in _endings(form, wording):
                found[ending].append((form, wording))
    for several in found.values():
        several.sort(key=lambda entry: -len(entry[0]))
    return found


def _endings(form: str, wording: Wording) -> set[str]:
    after = form.split(_SLOT)[1]
    if len(after) > 1:
        return {after[-2:]}
    members = [word for kind in wording.kinds for word in words_of_kind().get(kind, ())]
    return {(word + after)[-2:] for word in members}
