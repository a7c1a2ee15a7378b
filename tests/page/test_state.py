"""The state in a link: written, read, checked."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape
from qt_bert.page.model import ModelPool
from qt_bert.page.pairs import RefusedInput
from qt_bert.page.state import KEYS, State, first_state, read_state, typed_heads

SHAPE = Shape(12, 12)


@pytest.mark.parametrize(
    "text", ["L3H7 L2H1", "L2H1,L3H7", " l2h1 ， Ｌ３Ｈ７ ", "L3H7、L2H1、L2H1", "\tL3H7\nL2H1"]
)
def test_heads_as_people_write_them(text):
    assert typed_heads(text, SHAPE) == (Head(2, 1), Head(3, 7))


@pytest.mark.parametrize("text", ["", "  ", ",", "，、"])
def test_blank_text_names_no_head(text):
    assert typed_heads(text, SHAPE) == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("L3H7 L12H0", "L12H0"), ("L3H7 H2", "H2"), ("<b>", "<B>"), ("L1H12", "L1H12")],
)
def test_an_invalid_head_is_named_in_both_languages(text, wrong):
    with pytest.raises(ArgumentError) as caught:
        typed_heads(text, SHAPE)
    assert isinstance(caught.value, RefusedInput)
    for message in (caught.value.message.zh, caught.value.message.en):
        assert f"“{wrong}”" in message and "L11H11" in message


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


@pytest.mark.parametrize(
    "state",
    [
        DEFAULT,
        replace(DEFAULT, query="<img src=x onerror=alert(1)>", title="a&t=b#c%20+ 👨‍👩‍👧"),
        replace(DEFAULT, out=(), mode="mean", seed=2**31 - 1, language="en"),
        replace(DEFAULT, model="score", layer=0, head=0, out=(Head(0, 1), Head(1, 1))),
    ],
)
def test_a_link_gives_the_state_back(pool, state):
    assert read_state(state.to_query(), DEFAULT, pool) == (state, [])


def test_missing_parameters_have_their_default(pool):
    assert read_state({}, DEFAULT, pool) == (DEFAULT, [])
    assert read_state({"q": "狗", "utm": "x"}, DEFAULT, pool) == (replace(DEFAULT, query="狗"), [])


def test_another_model_has_its_own_heads(pool):
    start = replace(DEFAULT, layer=2)
    found, faults = read_state({"model": "score"}, start, pool)
    assert (found.model, found.layer, found.head, found.out) == ("score", 1, 1, ())
    assert faults == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model", "../../etc/passwd", "no model"),
        ("layer", "3", "layer=“3” is invalid (0–2)"),
        ("layer", "-1", "layer=“-1”"),
        ("layer", "１", "layer=“１”"),
        ("head", "1e9", "head=“1e9”"),
        ("head", "9" * 5000, "head=“999999999999999999999999…”"),
        ("out", "L0H0 L9H9", "“L9H9” is no head of this model"),
        ("out", "<script>", "“<SCRIPT>”"),
        ("mode", "block", "(zero/uniform/mean)"),
        ("seed", "2147483648", "seed="),
        ("lang", "fr", "lang=“fr” is invalid (zh/en); zh stays"),
    ],
)
def test_invalid_parameters_are_replaced_and_reported(pool, key, value, message):
    found, (fault,) = read_state({key: value}, DEFAULT, pool)
    assert found == DEFAULT
    assert message in fault.en and len(fault.en) < 200 and len(fault.zh) < 200


values = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["0", "1", "99", "none", "L0H1", "L0H1,L1H0", "tuned", "score", "en", "mean"]),
)


@settings(max_examples=150, deadline=None)
@given(query=st.dictionaries(st.sampled_from(sorted(KEYS.values())), values))
def test_every_link_gives_a_valid_state(pool, query):
    found, _ = read_state(query, DEFAULT, pool)
    shape = pool.open(found.model).shape
    assert found.layer < shape.layers and found.head < shape.heads
    assert set(found.out) <= set(shape.all_heads)
    assert found.mode in ("zero", "uniform", "mean") and found.language in ("zh", "en")
    assert read_state(found.to_query(), DEFAULT, pool)[0] == found


def test_the_first_visit_shows_the_article(pool, monkeypatch):
    monkeypatch.setattr(ModelPool, "names", property(lambda pool: ("tuned", "score")))
    results = SimpleNamespace(
        sets={
            "reader": (Head(1, 1),),
            "focused": (Head(0, 1), Head(1, 0), Head(1, 1)),
            "matching": (Head(2, 0), Head(0, 1), Head(1, 0)),
        }
    )
    assert first_state(pool, results) == replace(DEFAULT, out=(Head(0, 1),))
    del results.sets["reader"]  # then the head with the largest focus above those left out
    assert first_state(pool, results).chosen == Head(1, 0)
    bare = first_state(pool, None)
    assert (bare.layer, bare.head, bare.out) == (1, 0, ())
    elsewhere = SimpleNamespace(sets={"reader": (Head(0, 1),)})
    assert first_state(pool, elsewhere).head == 0
