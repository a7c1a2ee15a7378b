"""Models that many visitors share: the numbers of the commands; which models are offered."""

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.engine import Reduction
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask, zeroed
from qt_bert.ablation.request import reference_means
from qt_bert.cli import main
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.heads import Head, format_heads
from qt_bert.page import model as module
from qt_bert.page.folders import Folders, checkpoints_in
from qt_bert.page.model import MOST_OPEN, ModelPool
from qt_bert.page.pairs import shipped_rows
from qt_bert.probes.streams import stream
from qt_bert.shipped import GRADED, shipped

PAIR = ("京东小哥", "小哥最近在干嘛")
TEXTS = [("狗追猫" * (1 + i % 3), "猫追狗" * (1 + i % 5)) for i in range(30)]
OUT = (Head(0, 1), Head(1, 0))


@pytest.fixture
def tuned(pool):
    return pool.open("tuned")


def test_tokens_spell_the_texts(tuned):
    pair = tuned.encode("狗 追Z", "猫")
    assert tuned.tokens(pair) == ("[CLS]", "狗", "追", "Z", "[SEP]", "猫", "[SEP]")
    assert (pair.query, pair.title, pair.title_truncated) == ("狗 追Z", "猫", False)
    assert tuned.encode("狗", "猫" * 100).title_truncated


def test_interventions_of_each_mode(tuned):
    assert tuned.intervention((), "zero") is None
    assert tuned.intervention(OUT, "zero") == HeadMask(OUT)
    assert tuned.intervention(OUT, "uniform") == HeadMask(OUT, "uniform")
    with pytest.raises(ArgumentError, match="mode 'block'"):
        tuned.intervention(OUT, "block")
    with pytest.raises(ArgumentError, match="no head L9H0"):
        tuned.intervention([Head(9, 0)], "zero")


def test_mean_outputs_are_those_of_the_command_line_and_computed_once(models, monkeypatch):
    made, make = [], module.mean_z
    monkeypatch.setattr(module, "mean_z", lambda *given: made.append(1) or make(*given))
    tuned = ModelPool(models).open("tuned")
    with ThreadPoolExecutor(4) as threads:
        parts = set(threads.map(lambda _: tuned.intervention(OUT, "mean"), range(4)))
    assert len(made) == 1 and len(parts) == 1
    assert set(tuned.guards["variants"]) == {"zero", "uniform", "mean"}
    means = reference_means(tuned.scorer, shipped_rows("dev"))
    assert parts == {HeadMask(OUT, "mean", means)}


def test_mean_outputs_under_the_lock_do_not_deadlock(models):
    tuned = ModelPool(models).open("tuned")
    with tuned.lock:
        other = ThreadPoolExecutor(1).submit(tuned.intervention, OUT, "mean")
        mine = tuned.intervention(OUT, "mean")
    assert other.result(20) == mine


def test_a_run_is_the_masked_loop(tuned):
    variants = [NONE, *single(tuned.shape, zeroed)]
    row = Reduction("row", "attention", (1, 2), lambda view: view.values[:, :, 0, 0], True)
    seen = tuned.run(TEXTS, variants, [row])
    expected = stream(tuned.scorer, TEXTS, [row], variants)
    np.testing.assert_allclose(seen.logits, expected["logits"], atol=1e-5)
    np.testing.assert_allclose(seen.reduced["row"], expected["row"], atol=1e-5)
    assert seen.logits.shape == (7, 30, 5) and set(seen.reduced) == {"row"}
    for texts, some in (([], [NONE]), (TEXTS, [])):
        with pytest.raises(ArgumentError, match="no pairs, or no variants"):
            tuned.run(texts, some)


def test_a_long_run_holds_the_lock_several_times(tuned, monkeypatch):
    variants = [NONE, *single(tuned.shape, zeroed)]
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


@pytest.mark.parametrize("mode", ["zero", "uniform", "mean"])
@pytest.mark.parametrize("out", [(), OUT])
def test_grades_equal_the_command_line_in_every_digit(
    models, tuned, monkeypatch, capsys, mode, out
):
    command = ["qt-bert", "explain", *PAIR, "--model", str(models / "tuned"), "--json"]
    command += ["--heads-out", format_heads(out), "--mode", mode] if out else []
    monkeypatch.setattr(sys, "argv", command)
    with suppress(SystemExit):
        main()
    explained = json.loads(capsys.readouterr().out)
    found = tuned.graded(tuned.encode(*PAIR), out, mode).columns()
    assert [explained[f"p_{g}"] for g in range(1, 6)] == [
        float(str(found[f"p_{g}"][0])) for g in range(1, 6)
    ]
    assert explained["expected_grade"] == float(str(found["expected_grade"][0]))
    assert explained["predicted_grade"] == found["predicted_grade"][0]


def test_sixteen_visitors_at_once_see_their_own_numbers(tuned):
    heads = tuned.shape.all_heads
    requests = [(TEXTS[i], (heads[i % 6], heads[(i + 2) % 6]), i) for i in range(16)]

    def look(request: tuple[tuple[str, str], tuple[Head, ...], int]) -> list[np.ndarray]:
        text, out, number = request
        mode = ("zero", "uniform", "mean")[number % 3]
        part = tuned.intervention(out, mode)
        assert part is not None
        pair = tuned.encode(*text)
        graded = tuned.graded(pair, out, mode)
        assert graded.probabilities is not None
        seen = tuned.run([text], [NONE, Variant("out", (part,))])
        return [seen.logits, graded.probabilities, np.array(pair.input_ids)]

    alone = [array for request in requests for array in look(request)]
    for _ in range(3):
        with ThreadPoolExecutor(16) as threads:
            together = [array for result in threads.map(look, requests) for array in result]
        for expected, array in zip(alone, together, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_the_tokenizer_serves_one_thread_at_a_time(checkpoint_of, tuned):
    pairs = [[("狗" * n, "猫" * m)] for n in range(1, 9) for m in (1, 100)]
    alone = [tuned.scorer.tokenizer.encode(one) for one in pairs]
    assert tuned.scorer.tokenizer._lock.acquire(blocking=False)
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(tuned.scorer.tokenizer.encode, one) for one in pairs]
        assert not any(one.done() for one in waiting)
        tuned.scorer.tokenizer._lock.release()
        assert [one.result(20) for one in waiting] == alone


# The shelf.


def test_only_classifiers_are_offered_shipped_ones_last(models, pool):
    assert pool.names == ("score", "tuned", "graded", "student")
    assert Folders([models]).left_out == ("before",)
    assert Folders([models], models / "before").left_out == ()


def test_a_classifier_is_known_by_its_weights(models, tmp_path):
    """Not by config.json: an encoder saved as a classifier is none."""
    from safetensors.numpy import load_file, save_file

    tensors = load_file(models / "tuned" / "model.safetensors")
    encoder = {name: one for name, one in tensors.items() if "classifier" not in name}
    for name, kept in {
        "wrapped": {f"module.{name}": one for name, one in tensors.items()},
        "bare": {name.removeprefix("bert."): one for name, one in encoder.items()},
        "asked": encoder,
        "plain": encoder | {"score.weight": tensors["classifier.weight"]},
    }.items():
        shutil.copytree(models / "tuned", tmp_path / name)
        save_file(kept, tmp_path / name / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "asked" / "qt_bert.json").write_text('{"template": {"name": "t"}}')
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"torn")
    found = Folders([tmp_path])
    assert found.left_out == ("bare",)
    assert found.names[:4] == ("asked", "broken", "plain", "wrapped")


def test_one_checkpoint_by_its_own_folder(models, monkeypatch):
    assert ModelPool(models / "score").names == ("score", "graded", "student")
    monkeypatch.chdir(models / "score")
    assert ModelPool(Path()).names[0] == "score"


def test_the_shipped_folder_is_not_offered_twice():
    folders = Folders([shipped(GRADED).parent])
    assert folders.names == ("graded", "student")
    assert folders.base_of("graded") == "pretrained"


def test_a_model_with_the_name_of_a_shipped_one(models, tmp_path):
    for name in ("graded", "pretrained"):
        shutil.copytree(models / "tuned", tmp_path / name)
    folders = Folders([tmp_path])
    assert folders.names == ("graded", "pretrained", "graded (shipped)", "student")
    assert folders.base_of("graded (shipped)") == "pretrained (shipped)"
    assert folders.base_of("graded") is None


def test_models_of_the_same_name_get_different_names(models, tmp_path):
    for run in ("first", "second", "third/first"):
        shutil.copytree(models / "tuned", tmp_path / run / "checkpoint")
    every = [tmp_path / run / "checkpoint" for run in ("first", "second", "third/first", "first")]
    names = ("checkpoint", "second/checkpoint", "first/checkpoint")
    assert Folders(every).names[:3] == names


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    (tmp_path / ".hidden").mkdir()
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(CheckpointError, match="no checkpoint here"):
            checkpoints_in(folder)


def test_an_unknown_name_is_refused(pool):
    for ask in (pool.open, pool.base_of):
        with pytest.raises(ArgumentError, match="no model '../../etc'.*score, tuned"):
            ask("../../etc")


def test_the_base_is_what_the_training_record_names(models, pool):
    folders = Folders([models])
    assert folders.base_of("tuned") == "before" and folders.base_of("score") is None
    base, tuned = pool.base_of("tuned"), pool.open("tuned")
    assert base is not None and base.name == "before" and pool.base_of("tuned") is base
    assert pool.base_of("score") is None
    assert base.shape == tuned.shape and base.labels.grades is None
    assert base.encode("狗追猫", "猫追狗") == tuned.encode("狗追猫", "猫追狗")


def test_a_base_is_opened_like_each_model_that_was_tuned_from_it(models, tmp_path):
    for name, source in {"before": "before", "tuned": "tuned", "short": "tuned"}.items():
        shutil.copytree(models / source, tmp_path / name)
    card = {"schema": 1, "max_length": 16}
    (tmp_path / "short" / "qt_bert.json").write_text(json.dumps(card), encoding="utf-8")
    pool = ModelPool(tmp_path)
    bases = [pool.base_of(name) for name in ("tuned", "short")]
    assert [base and base.longest for base in bases] == [64, 16]


def test_the_base_option_is_for_models_of_its_shape(models, tmp_path):
    shutil.copytree(models / "before", tmp_path / "encoder")
    folders = Folders([models, shipped(GRADED)], tmp_path / "encoder")
    assert folders.base_of("tuned") == "encoder" and "encoder" not in folders.names
    assert folders.base_of("score") is None, "it has other layers"
    with pytest.raises(ArgumentError, match="score or tuned cannot be tuned from it"):
        Folders([models], models / "tuned")
    assert Folders([models], tmp_path / "encoder").base_of("graded") == "pretrained"


@pytest.mark.parametrize("record", ["[]", "{", '{"base": ["before"]}', '{"base": "tuned"}'])
def test_a_strange_training_record_names_no_base(models, tmp_path, record):
    shutil.copytree(models / "tuned", tmp_path / "tuned")
    (tmp_path / "tuned" / "training.json").write_text(record)
    assert Folders([tmp_path]).base_of("tuned") is None


def test_a_model_is_opened_once(pool):
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(pool.open, ["score"] * 8))
    assert len(found) == 1 and pool.open("score") in found
    assert pool.open("score").lock is pool.open("tuned").lock is pool.lock


def test_encoders_alone_are_refused(models):
    with pytest.raises(CheckpointError, match=r"before: no classifier"):
        Folders([models / "before"])


def test_the_least_recently_used_is_closed(checkpoint_of, tmp_path):
    for number in range(MOST_OPEN + 1):
        shutil.copytree(checkpoint_of(labels=1), tmp_path / f"m{number}")
    pool = ModelPool(tmp_path)
    first, second = pool.open("m0"), pool.open("m1")
    for number in range(2, MOST_OPEN):
        pool.open(f"m{number}")
    assert pool.open("m0") is first
    pool.open(f"m{MOST_OPEN}")
    assert pool.open("m0") is first
    assert pool.open("m1") is not second


def test_no_model_is_opened_under_the_lock(models):
    pool = ModelPool(models)
    with pool.lock, pytest.raises(RuntimeError, match="under the lock"):
        pool.open("score")
    opened = pool.open("score")
    with pool.lock:
        assert pool.open("score") is opened


def test_models_of_the_same_weights_do_not_share_results(models, tmp_path):
    """Other labels, or another tokenizer, give other answers."""
    for name in ("grades", "levels"):
        shutil.copytree(models / "tuned", tmp_path / name)
    labels = {"grades": [[1], [2], [3], [4, 5], [5]]}
    (tmp_path / "levels" / "qt_bert.json").write_text(json.dumps(labels), encoding="utf-8")
    pool = ModelPool(tmp_path)
    one, other = pool.open("grades"), pool.open("levels")
    assert one.sha256 == other.sha256 and one.cache is not other.cache
    assert one.labels.exact and not other.labels.exact
