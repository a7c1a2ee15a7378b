import json

import pytest

from qt_bert.cli.explain import NO_SHARES

PAIR = ("京东小哥", "小哥最近在干嘛")


def test_heads_as_json(run, checkpoint_of):
    explained = json.loads(run("explain", *PAIR, "--model", checkpoint_of(), "--json").out)
    assert sum(explained[f"p_{g}"] for g in range(1, 6)) == pytest.approx(1, abs=1e-5)
    assert len(explained["heads"]) == 4
    whole = explained["expected_grade"]
    for head in explained["heads"]:
        assert head["score"] - head["change"] == pytest.approx(whole, abs=1e-4)
    sizes = [abs(head["change"]) for head in explained["heads"]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_ten_largest_are_printed_and_said_to_be_no_shares(run, checkpoint_of):
    model = checkpoint_of(layers=4, heads=4)
    heads = json.loads(run("explain", *PAIR, "--model", model, "--json").out)["heads"]
    shown = run("explain", *PAIR, "--model", model).out
    table = shown[shown.index("without head") :].splitlines()
    assert [line.split()[0] for line in table[1:11]] == [head["head"] for head in heads[:10]]
    assert table[11:] == ["", NO_SHARES]


def test_the_most_telling_term_is_carried_by_three_heads(run, checkpoint_of):
    model = checkpoint_of(layers=4, heads=4)
    explained = json.loads(run("explain", *PAIR, "--model", model, "--json").out)
    assert explained["filler"] == "[MASK]"
    assert all(term["moved"] == (abs(term["change"]) >= 0.005) for term in explained["terms"])
    carried = explained["restoring"]
    largest = max(explained["terms"], key=lambda term: abs(term["change"]))
    assert carried["term"] == largest
    assert len(carried["heads"]) == 16 and carried["all_heads"] == pytest.approx(1, abs=1e-4)
    for head in carried["heads"]:
        assert head["restored"] == pytest.approx(head["score"] - largest["score"], abs=1e-4)
        assert head["share"] == pytest.approx(-head["restored"] / largest["change"], abs=1e-3)
    shown = run("explain", *PAIR, "--model", model).out
    assert "[MASK] for" in shown and f"[MASK] for {largest['term']} in the" in shown
    lines = shown[shown.index("head put back") :].splitlines()
    assert [line.split()[0] for line in lines[1:4]] == [h["head"] for h in carried["heads"][:3]]
    assert lines[1].endswith("%") and lines[4] == ""


def test_with_heads_out_already_there_is_no_such_table(run, checkpoint_of):
    arguments = ("explain", *PAIR, "--model", checkpoint_of(), "--heads-out", "L0H1")
    explained = json.loads(run(*arguments, "--json").out)
    assert explained["heads"] is None and explained["restoring"] is None and explained["terms"]
    shown = run(*arguments)
    assert shown.status == 0 and "without head" not in shown.out
    assert "put back" not in shown.out


def test_a_model_that_runs_plainly_has_terms_alone(run, checkpoint_of):
    model = checkpoint_of("deberta-v2", conv_kernel_size=3, conv_act="gelu")
    explained = json.loads(run("explain", *PAIR, "--model", model, "--json").out)
    assert explained["heads"] is explained["restoring"] is None and len(explained["terms"]) > 1
    shown = run("explain", *PAIR, "--model", model)
    assert shown.status == 0 and "[MASK] for" in shown.out and "without head" not in shown.out


def test_a_one_logit_model_has_scores(run, checkpoint_of):
    ended = run("explain", *PAIR, "--model", checkpoint_of(labels=1))
    assert ended.status == 0 and "score" in ended.out and "without head" in ended.out


def test_texts_without_a_term_move_nothing(run, checkpoint_of):
    ended = run("explain", "!!", "??", "--model", checkpoint_of())
    assert ended.status == 0 and "No term moves the expected grade" in ended.out
    explained = json.loads(run("explain", "!!", "??", "--model", checkpoint_of(), "--json").out)
    assert explained["terms"] == [] and explained["restoring"] is None and explained["heads"]
