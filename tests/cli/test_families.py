"""Every command on a model of every family that is not BERT's kind, from the file to the smaller model."""

import json

import pytest

from qt_bert.models.opening import open_checkpoint
from tests.conftest import FAMILIES, GROUPED, LEARNED

NEW = FAMILIES[len(LEARNED) :]


@pytest.mark.slow
@pytest.mark.parametrize("family", NEW)
def test_every_command(run, checkpoint_of, many_pairs, tmp_path, family):
    model = checkpoint_of(family, layers=3, heads=4, hidden=32)

    def done(*arguments):
        ended = run(*arguments)
        assert ended.status == 0, (arguments, ended.err[-2000:])
        return ended

    pairs, of = ("--pairs", many_pairs), ("--model", model)
    done("score", many_pairs, *of, "--out", tmp_path / "s.tsv", "--heads-out", "L0H1 L1H0")
    done("evaluate", *of, *pairs, "--resamples", "50", "--json")
    done("compare", model, model, *pairs, "--json")
    done("explain", "北京高铁", "北京到上海高铁", *of)
    done("sweep", *pairs, *of, "--out", tmp_path / "sweep", "--masks", "single")
    done("probe", "matching", *pairs, *of, "--out", tmp_path / "probe")
    out = tmp_path / "report"
    done("report", *of, *pairs, "--out", out, "--only", "redundancy,matching,plan")
    assert (out / "report.html").stat().st_size > 50_000
    budget = ("--budget", "heads=0.5", "--resamples", "20")
    done("plan", *of, *pairs, *budget, "--out", tmp_path / "plan")
    plan = tmp_path / "plan" / "plan.json"
    kept = json.loads(plan.read_text(encoding="utf-8"))["kept"]
    grouped = family in GROUPED  # whose heads go by layers here: four share one key
    assert sum(len(layer["heads"]) for layer in kept) == (8 if grouped else 6)
    small, student = tmp_path / "small", tmp_path / "student"
    done("prune", "--plan", plan, *of, "--out", small)
    short = ("--max-length", "48", "--no-compile", "--dtype", "float32", "--steps", "2")
    done("distill", "--plan", plan, *of, *pairs, "--dev", many_pairs, "--out", student, *short)
    short = ("--max-length", "48", "--no-compile", "--epochs", "1", "--slots", "96")
    train = ("train", "--base", model, *pairs, "--dev", many_pairs)
    done(*train, *short, "--out", tmp_path / "tuned")
    for folder in (small, student, tmp_path / "tuned"):
        done("score", many_pairs, "--model", folder, "--out", tmp_path / f"{folder.name}.tsv")
    done("export", *of, "--onnx", "--out", tmp_path / "onnx")
    whole, tuned = open_checkpoint(model), open_checkpoint(tmp_path / "tuned")
    assert (tuned.family, tuned.parameters) == (whole.family, whole.parameters)
