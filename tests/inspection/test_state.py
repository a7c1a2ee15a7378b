"""The state in the link: it comes back as it went, and whatever a link says, a valid state comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qt_bert.inspection.inputs import KEYS, MOST_CHARACTERS, State, first_state, read_state
from qt_bert.inspection.inspected import Shelf
from qt_bert.models.heads import Head

DEFAULT = State(
    model="tuned",
    query="紫熨斗",
    title="紫熨斗好用吗",
    layer=1,
    head=1,
    out=(Head(0, 0),),
    mode="zero",
    seed=0,
    language="zh",
)


def test_a_link_names_every_field() -> None:
    assert DEFAULT.to_query() == {
        "model": "tuned",
        "q": "紫熨斗",
        "t": "紫熨斗好用吗",
        "layer": "1",
        "head": "1",
        "out": "L0H0",
        "mode": "zero",
        "seed": "0",
        "lang": "zh",
    }
    assert replace(DEFAULT, out=()).to_query()["out"] == "none"


@pytest.mark.parametrize(
    "state",
    [
        DEFAULT,
        replace(DEFAULT, query="<img src=x onerror=alert(1)>", title="a&t=b#c%20+ 👨‍👩‍👧"),
        replace(DEFAULT, out=(), mode="mean", seed=2**31 - 1, language="en"),
        replace(DEFAULT, model="score", layer=0, head=0, out=(Head(0, 1), Head(1, 1))),
    ],
)
def test_a_link_gives_the_state_back(shelf: Shelf, state: State) -> None:
    assert read_state(state.to_query(), DEFAULT, shelf) == (state, [])


def test_what_a_link_does_not_say_is_the_default(shelf: Shelf) -> None:
    assert read_state({}, DEFAULT, shelf) == (DEFAULT, [])
    assert read_state({"q": "狗", "utm": "x"}, DEFAULT, shelf) == (replace(DEFAULT, query="狗"), [])


def test_another_model_has_its_own_heads(shelf: Shelf) -> None:
    start = replace(DEFAULT, layer=2)
    found, faults = read_state({"model": "score"}, start, shelf)
    assert (found.model, found.layer, found.head, found.out) == ("score", 1, 1, ())
    assert faults == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("model", "../../etc/passwd", "no model"),
        ("layer", "3", "layer=“3” does not fit (0–2)"),
        ("layer", "-1", "layer=“-1”"),
        ("layer", "１", "layer=“１”"),
        ("head", "1e9", "head=“1e9”"),
        ("head", "9" * 5000, "head=“999999999999999999999999…”"),
        ("out", "L0H0 L9H9", "“L9H9” is no head of this model"),
        ("out", "<script>", "“<SCRIPT>”"),
        ("mode", "block", "(zero/uniform/mean)"),
        ("seed", "2147483648", "seed="),
        ("lang", "fr", "lang=“fr” does not fit (zh/en); zh stays"),
    ],
)
def test_what_does_not_fit_is_replaced_and_said(
    shelf: Shelf, key: str, value: str, said: str
) -> None:
    found, (fault,) = read_state({key: value}, DEFAULT, shelf)
    assert found == DEFAULT
    assert said in fault.en and len(fault.en) < 200 and len(fault.zh) < 200


def test_texts_are_cleaned_and_cut(shelf: Shelf) -> None:
    found, faults = read_state({"q": "a\x00b", "t": "题" * 10_000}, DEFAULT, shelf)
    assert found.query == "ab" and len(found.query + found.title) == MOST_CHARACTERS
    assert len(faults) == 2 and not found.empty


def test_an_empty_text_is_said_and_nothing_to_run(shelf: Shelf) -> None:
    found, (fault,) = read_state({"q": "  "}, DEFAULT, shelf)
    assert found.empty and "the query is empty" in fault.en and "查询是空的" in fault.zh


values = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["0", "1", "99", "none", "L0H1", "L0H1,L1H0", "tuned", "score", "en", "mean"]),
)


@settings(max_examples=150, deadline=None)
@given(query=st.dictionaries(st.sampled_from(sorted(KEYS.values())), values))
def test_whatever_a_link_says_the_state_is_valid(shelf: Shelf, query: Mapping[str, str]) -> None:
    found, _ = read_state(query, DEFAULT, shelf)
    shape = shelf.open(found.model).shape
    assert found.layer < shape.layers and found.head < shape.heads
    assert set(found.out) <= set(shape.all_heads)
    assert found.mode in ("zero", "uniform", "mean") and found.language in ("zh", "en")
    assert read_state(found.to_query(), DEFAULT, shelf)[0] == found


def test_the_first_visit_shows_the_article(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shelf, "names", property(lambda shelf: ("tuned", "score")))
    studied = SimpleNamespace(
        sets={"reader": (Head(1, 1),), "matching": (Head(2, 0), Head(0, 1), Head(1, 0))}
    )
    assert first_state(shelf, studied) == replace(DEFAULT, out=(Head(0, 1),))
    bare = first_state(shelf, None)
    assert (bare.layer, bare.head, bare.out) == (1, 0, ())
    elsewhere = SimpleNamespace(sets={"reader": (Head(0, 1),)})
    assert first_state(shelf, elsewhere).head == 0
