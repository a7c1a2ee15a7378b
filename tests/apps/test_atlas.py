"""The head atlas: sets in words, evidence, the pairs a head matters for."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from apps.screens import atlas
from apps.screens.atlas import evidence, strongest, what_it_does
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.data.splits import spread_over_queries
from qt_bert.heads import Head
from qt_bert.models.folder import HEADS, weights_sha256
from qt_bert.page.pairs import shipped_rows
from qt_bert.page.results import HeadResults
from qt_bert.results.head_sets import SETS
from qt_bert.results.heads import head_tables, heads_file
from qt_bert.results.probe import ModelRef
from qt_bert.text import Text
from tests.apps.conftest import STATE, plain, shown
from tests.results.made_heads import matching, redundancy

STUDIED = HeadResults(
    tables=tuple(head_tables([redundancy(), matching()])), origin=Text("某处", "somewhere")
)


def test_sets_of_the_same_function_have_one_text():
    assert what_it_does(["matching", "matching_below"]) == SETS["matching"].does
    assert "No probe named it" in what_it_does([]).en


def test_evidence_has_value_interval_q_and_place():
    effect, kl, match = evidence(STUDIED, Head(1, 0))
    assert effect.measured.en == "−5.6 points [−6.6, −4.6], q = 0.2; place 1 of 3"
    assert effect.measured.zh == "−5.6 个百分点 [−6.6, −4.6]，q = 0.2；第 1 / 3"
    assert not effect.outlined  # its q is above 0.05
    assert kl.measured.en.endswith("place 1 of 4")  # all four are equal
    assert match.outlined and match.measured.en.endswith("place 2 of 4")
    assert "40 pairs of 39 queries of dev.tsv" in effect.more.en


def test_effects_of_either_sign_are_ranked_by_their_size():
    first, second = (evidence(STUDIED, head)[0].measured.en for head in (Head(0, 0), Head(0, 1)))
    assert first.startswith("1.4 points [0.4, 2.4]") and first.endswith("place 2 of 3")
    assert second.endswith("place 3 of 3")


def test_the_pairs_whose_grades_move_furthest(pool):
    model = pool.open("tuned")
    found = strongest(model, replace(STATE, layer=1, head=0))
    assert len(found) == atlas.SHOWN
    pairs = spread_over_queries(shipped_rows("dev"), atlas.LOOKED_AT)
    texts = [(pair.query, pair.title) for pair in pairs]
    logits = model.run(texts, [NONE, Variant("it", (HeadMask((Head(1, 0),)),))]).logits
    p, q = (model.outputs(one).probabilities for one in logits)
    assert p is not None and q is not None
    kl = (p * np.log(p / q)).sum(-1)
    most = sorted(kl)[::-1][: atlas.SHOWN]
    assert [one.moved for one in found] == pytest.approx(most, rel=1e-4)
    row = texts.index((found[0].query, found[0].title))
    before, after = (model.outputs(one).ranking_score[row] for one in logits)
    assert (found[0].before, found[0].after) == pytest.approx((before, after))


def test_a_model_of_one_logit_moves_by_its_score(pool):
    found = strongest(pool.open("score"), replace(STATE, layer=1, head=0))
    assert found[0].moved == pytest.approx(abs(found[0].after - found[0].before))


@pytest.fixture
def results(tiny_models, tmp_path, monkeypatch):
    """The model `tiny` with results beside it."""
    folder = shutil.copytree(tiny_models / "tiny", tmp_path / "models" / "tiny")
    model = ModelRef(name="tiny", sha256=weights_sha256(folder))
    results = [replace(one, model=model) for one in (redundancy(), matching())]
    heads_file(results, {}).write(folder / HEADS)
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(tmp_path / "models"))
    yield folder


def test_a_head_has_its_card(results, app):
    at = app("atlas", layer="0", head="1", q="京东小哥", t="京东小哥最近在干嘛")
    assert not at.exception and not at.error
    assert len(at.selectbox(key="atlas.colour").options) == 3
    for text in ("L0H1", "tiny/heads", "看另一段文本里与自己相同的字", "900.0 个百分点"):
        assert text in plain(at)


def test_a_head_is_left_out_by_its_card_and_put_back(results, app):
    at = app("atlas", layer="0", head="1", out="none")
    at.button(key="atlas.out").click().run()
    assert at.query_params["out"] in ("L0H1", ["L0H1"])
    at.button(key="atlas.out").click().run()
    assert at.query_params["out"] in ("none", ["none"])


def test_every_colour_draws(results, app):
    at = app("atlas", lang="en", layer="0", head="1")
    assert "They look at their own character" in shown(at)
    box = at.selectbox(key="atlas.colour")
    assert box.options[0] == "Loss without this head"
    for name in ("kl", "matching"):
        box.set_value(name).run()
        assert not at.exception and not at.error


def test_results_of_other_weights_are_refused(results, app):
    heads_file([redundancy()], {}).write(results / HEADS)
    assert "of other weights" in plain(app("atlas", lang="en"))


def test_without_results_the_command_is_shown(app):
    at = app("atlas", lang="en")
    assert not at.exception and not at.error
    assert "qt-bert report --model FOLDER --save-heads FOLDER/heads.json" in plain(at)
