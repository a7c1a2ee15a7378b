"""One model for many visitors: the numbers of the commands, whoever else asks at the same time."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.engine import Reduction
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.request import reference_means
from qt_bert.cli import main
from qt_bert.errors import ArgumentError
from qt_bert.inspection import inspected as module
from qt_bert.inspection.inputs import shipped_rows
from qt_bert.inspection.inspected import Inspected, Shelf
from qt_bert.models.heads import Head, spell
from qt_bert.probes.streams import stream

PAIR = ("京东小哥", "小哥最近在干嘛")
TEXTS = [("狗追猫" * (1 + i % 3), "猫追狗" * (1 + i % 5)) for i in range(30)]
OUT = (Head(0, 1), Head(1, 0))


@pytest.fixture
def tuned(shelf: Shelf) -> Inspected:
    return shelf.open("tuned")


def test_what_it_knows_of_itself(tuned: Inspected) -> None:
    assert (tuned.name, tuned.shape.size, tuned.longest) == ("tuned", (3, 2), 64)
    assert tuned.labels.exact and tuned.classifies
    assert tuned.sha256 == tuned.scorer.checkpoint.sha256
    assert {"zero", "uniform"} <= set(tuned.guards["variants"])
    assert max(tuned.guards["variants"].values()) <= tuned.guards["bound"]


def test_tokens_spell_the_texts(tuned: Inspected) -> None:
    pair = tuned.encode("狗 追Z", "猫")
    assert tuned.tokens(pair) == ("[CLS]", "狗", "追", "Z", "[SEP]", "猫", "[SEP]")
    assert (pair.query, pair.title, pair.title_truncated) == ("狗 追Z", "猫", False)
    assert tuned.encode("狗", "猫" * 100).title_truncated


def test_parts_of_each_mode(tuned: Inspected) -> None:
    assert tuned.part((), "zero") is None
    assert tuned.part(OUT, "zero") == HeadMask(OUT)
    assert tuned.part(OUT, "uniform") == HeadMask(OUT, "uniform")
    with pytest.raises(ArgumentError, match="mode 'block'"):
        tuned.part(OUT, "block")
    with pytest.raises(ArgumentError, match="no head L9H0"):
        tuned.part([Head(9, 0)], "zero")


def test_means_are_those_of_the_command_line_and_made_once(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = [], module.mean_z
    monkeypatch.setattr(module, "mean_z", lambda *given: made.append(1) or make(*given))
    tuned = Shelf(models).open("tuned")
    with ThreadPoolExecutor(4) as pool:
        parts = set(pool.map(lambda _: tuned.part(OUT, "mean"), range(4)))
    assert len(made) == 1 and len(parts) == 1
    assert set(tuned.guards["variants"]) == {"zero", "uniform", "mean"}
    means = reference_means(tuned.scorer, shipped_rows("dev"))
    assert parts == {HeadMask(OUT, "mean", means)}


def test_means_asked_for_under_the_lock_do_not_wait_for_themselves(models: Path) -> None:
    tuned = Shelf(models).open("tuned")
    found: list[object] = []

    def ask() -> None:
        found.append(tuned.part(OUT, "mean"))

    with tuned.lock:
        other = threading.Thread(target=ask, daemon=True)
        other.start()
        ask()
    other.join(20)
    assert len(found) == 2 and found[0] == found[1]


def test_a_run_is_the_masked_loop(tuned: Inspected) -> None:
    variants = [NONE, *single(tuned.shape, lambda heads: HeadMask(tuple(heads)))]
    row = Reduction("row", "attention", (1, 2), lambda view: view.values[:, :, 0, 0], True)
    seen = tuned.run(TEXTS, variants, [row])
    expected = stream(tuned.scorer, TEXTS, [row], variants)
    np.testing.assert_allclose(seen.logits, expected["logits"], atol=1e-5)
    np.testing.assert_allclose(seen.reduced["row"], expected["row"], atol=1e-5)
    assert seen.logits.shape == (7, 30, 5) and set(seen.reduced) == {"row"}
    for texts, some in (([], [NONE]), (TEXTS, [])):
        with pytest.raises(ArgumentError, match="no pairs, or no variants"):
            tuned.run(texts, some)


def test_a_long_run_holds_the_lock_several_times(
    tuned: Inspected, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = [NONE, *single(tuned.shape, lambda heads: HeadMask(tuple(heads)))]
    row = Reduction("row", "attention", (0, 2), lambda view: view.values[:, :, 0, 0])
    whole = tuned.run(TEXTS[:3], variants, [row])
    taken, sweep = [], module.sweep
    monkeypatch.setattr(
        module, "sweep", lambda *given: taken.append(tuned.lock.mine) or sweep(*given)
    )
    monkeypatch.setattr(module, "LOCK_TOKENS", 150)
    found = tuned.run(TEXTS[:3], variants, [row])
    assert len(taken) > 2 and all(taken) and not tuned.lock.mine
    np.testing.assert_allclose(found.logits, whole.logits, atol=1e-5)
    np.testing.assert_allclose(found.reduced["row"], whole.reduced["row"], atol=1e-5)


def test_an_error_in_a_run_frees_the_lock(tuned: Inspected) -> None:
    def fail(view: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tuned.run(TEXTS, [NONE], [Reduction("fails", "hidden", (0,), fail)])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(tuned.run, TEXTS, [NONE]).result(20).logits.shape == (1, 30, 5)


@pytest.mark.parametrize("mode", ["zero", "uniform", "mean"])
@pytest.mark.parametrize("out", [(), OUT])
def test_grades_equal_the_command_line_in_every_digit(
    models: Path,
    tuned: Inspected,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mode: str,
    out: tuple[Head, ...],
) -> None:
    command = ["qt-bert", "explain", *PAIR, "--model", str(models / "tuned"), "--json"]
    command += ["--heads-out", spell(out), "--mode", mode] if out else []
    monkeypatch.setattr(sys, "argv", command)
    with suppress(SystemExit):
        main()
    told = json.loads(capsys.readouterr().out)
    found = tuned.graded(tuned.encode(*PAIR), out, mode).columns()
    assert [told[f"p_{g}"] for g in range(1, 6)] == [
        float(str(found[f"p_{g}"][0])) for g in range(1, 6)
    ]
    assert told["expected_grade"] == float(str(found["expected_grade"][0]))
    assert told["predicted_grade"] == found["predicted_grade"][0]


def test_one_logit_gives_a_score(shelf: Shelf) -> None:
    model = shelf.open("score")
    graded = model.graded(model.encode(*PAIR), (), "zero")
    assert graded.probabilities is None and graded.score is not None
    np.testing.assert_allclose(graded.score, model.scorer.logits([PAIR])[:, 0], atol=1e-6)


def test_a_scorer_without_heads_counts_for_itself(tuned: Inspected) -> None:
    scorer = tuned.without(OUT, "zero")
    assert scorer.left_out is not None and scorer.left_out.describe() == {
        "heads_out": "L0H1 L1H0",
        "mode": "zero",
    }
    assert scorer.counts is not tuned.scorer.counts and tuned.scorer.left_out is None
    assert tuned.without((), "zero").left_out is None


def test_sixteen_visitors_at_once_see_their_own_numbers(tuned: Inspected) -> None:
    heads = tuned.shape.all_heads
    asked = [(TEXTS[i], (heads[i % 6], heads[(i + 2) % 6]), i) for i in range(16)]

    def look(one: tuple[tuple[str, str], tuple[Head, ...], int]) -> list[np.ndarray]:
        text, out, number = one
        mode = ("zero", "uniform", "mean")[number % 3]
        part = tuned.part(out, mode)
        assert part is not None
        pair = tuned.encode(*text)
        graded = tuned.graded(pair, out, mode)
        assert graded.probabilities is not None
        seen = tuned.run([text], [NONE, Variant("out", (part,))])
        return [seen.logits, graded.probabilities, np.array(pair.input_ids)]

    alone = [look(one) for one in asked]
    for _ in range(3):
        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(look, asked))
        for one, other in zip(alone, together, strict=True):
            for expected, found in zip(one, other, strict=True):
                np.testing.assert_array_equal(found, expected)


def test_the_tokenizer_serves_one_thread_at_a_time(
    checkpoint_of: Callable[..., Path], tuned: Inspected
) -> None:
    pairs = [[("狗" * n, "猫" * m)] for n in range(1, 9) for m in (1, 100)]
    alone = [tuned.scorer.tokenizer.encode(one) for one in pairs]
    assert tuned.scorer.tokenizer._lock.acquire(blocking=False)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(tuned.scorer.tokenizer.encode, one) for one in pairs]
        assert not any(one.done() for one in waiting)
        tuned.scorer.tokenizer._lock.release()
        assert [one.result(20) for one in waiting] == alone
