"""A teacher of several models: each pair once, what is refused; the best weights of a stopped run."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import qt_bert
from experiments.grades import best, choose
from experiments.grades.ensemble import SOURCES, main
from qt_bert.cli.register import app
from qt_bert.data.reader import PairReader
from tests.conftest import PAIRS, write_pairs


@pytest.fixture
def data(tmp_path):
    for number, name in enumerate(SOURCES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write_pairs(tmp_path / name, [("猫吃鱼", f"猫{number}", 4), ("猫吃鱼", "鱼", 2)])
    return tmp_path


def test_the_mean_over_models_of_each_pair_once(data, checkpoint_of, capsys):
    models, out = [checkpoint_of(seed=seed) for seed in (1, 2)], data / "taught.tsv"
    main([*map(str, models), "--data", str(data), "--out", str(out)])
    rows = list(PairReader(out))
    assert [row.title for row in rows] == ["猫0", "鱼", "猫1", "猫2", "猫3"]
    taught = np.array([[float(row.extra[f"p_{grade}"]) for grade in range(1, 6)] for row in rows])
    texts = [(row.query, row.title) for row in rows]
    each = [qt_bert.load(model).score(texts).filter(regex="^p_").to_numpy() for model in models]
    np.testing.assert_allclose(taught, np.mean(each, axis=0), atol=0.01)
    assert np.abs(each[0] - each[1]).max() > 0.02
    assert "5 pairs taught by 2 models" in capsys.readouterr().out


def test_levels_of_other_files(data, checkpoint_of):
    out = data / "taught.tsv"
    pair = json.dumps({"query": "猫吃鱼", "title": "狗\t吃\n鱼"})
    (data / "mine.jsonl").write_text(pair, encoding="utf-8")
    model, files = str(checkpoint_of(labels=3)), ["--pairs", "mine.jsonl"]
    main([model, "--data", str(data), "--out", str(out), *files])
    (row,) = PairReader(out)
    assert row.title == "狗 吃 鱼" and list(row.extra) == ["p_0", "p_1", "p_2"]
    assert sum(map(float, row.extra.values())) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("labels", [(1,), (5, 3)])
def test_a_model_of_other_outputs_is_refused(labels, data, checkpoint_of, capsys):
    models = [str(checkpoint_of(labels=count)) for count in labels]
    with pytest.raises(SystemExit):
        main([*models, "--data", str(data), "--out", str(data / "taught.tsv")])
    assert f"{labels[-1]} logits" in capsys.readouterr().err
    assert not (data / "taught.tsv").exists()


def test_figures_to_choose_by(data, checkpoint_of, capsys):
    write_pairs(data / "judged/dev.tsv", PAIRS)
    five, one = str(checkpoint_of()), str(checkpoint_of(labels=1))
    with pytest.raises(SystemExit):
        choose.main([five, five, one, "--data", str(data)])
    printed = capsys.readouterr()
    dev, judged, cases, *again = printed.out.splitlines()
    assert dev.startswith(f"{five}: dev: accuracy 0.") and "spearman" in judged
    assert again == [dev, judged, cases] and "(+0.000 [+0.000, +0.000])" in dev
    assert "gives one score and no grades" in printed.err


def test_the_best_weights_of_a_run(checkpoint_of, more_pairs, tmp_path, capsys):
    base, out = str(checkpoint_of()), tmp_path / "run"
    pairs = ["--pairs", str(more_pairs), "--dev", str(more_pairs)]
    settings = ["--epochs", "2", "--no-compile", "--max-length", "48"]
    command = ["train", "--base", base, *pairs, "--out", str(out), *settings]
    assert CliRunner().invoke(app, command).exit_code == 0
    best.main([f"{out}.training", "--base", base, "--out", str(tmp_path / "best")])
    kept, saved = (load_file(path / "model.safetensors") for path in (tmp_path / "best", out))
    assert list(kept) == list(saved)
    for name, weights in kept.items():
        torch.testing.assert_close(weights, saved[name], rtol=0, atol=0)
    assert "best of 2 evaluations" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        best.main([str(out), "--base", base, "--out", str(tmp_path / "again")])
    assert "OUT.training" in capsys.readouterr().err
