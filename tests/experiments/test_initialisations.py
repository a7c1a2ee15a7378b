"""The study of starts on a tiny model: what is run and chosen, what goes on, and bad input."""

import json
import random

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoTokenizer

from experiments.initialisations.run import PENALTIES, RATES, main
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.training.recipes import PairSource
from tests.conftest import write_pairs

GOOD, BAD = "北京上海高铁", "怎么去除衣服"


def write(path, count, first):
    """Pairs whose grade is 5 where the title repeats the query, else 1; three to a query."""
    rng, rows = random.Random(first), []
    for i in range(count):
        query = GOOD[i // 3 % 4 :] + str(first + i // 3)
        title = query if i % 2 else "".join(rng.choices(BAD, k=5))
        rows.append((query, title, 5 if i % 2 else 1))
    return write_pairs(path, rows)


@pytest.fixture(scope="module")
def options(checkpoint_of, tmp_path_factory):
    place = tmp_path_factory.mktemp("study")
    classifier = checkpoint_of(hidden=32, seed=5)
    AutoModel.from_pretrained(classifier).save_pretrained(place / "base")
    AutoTokenizer.from_pretrained(classifier).save_pretrained(place / "base")
    files = {"train": (120, 1000), "dev": (30, 2000), "test": (30, 3000)}
    return {
        "--out": place / "out",
        "--base": place / "base",
        "--seeds": 2,
        "--epochs": 1,
        "--max-length": 48,
    } | {f"--{name}": write(place / f"{name}.tsv", *how) for name, how in files.items()}


def run(options):
    main(["--no-compile", *(str(part) for option in options.items() for part in option)])


def one_by_one(base, pairs):
    """Pooled vectors without padding."""
    model, tokenizer = AutoModel.from_pretrained(base).eval(), AutoTokenizer.from_pretrained(base)
    with torch.inference_mode():
        read = [tokenizer(pair.query, pair.title, return_tensors="pt") for pair in pairs]
        return np.concatenate([model(**tokens).pooler_output.double().numpy() for tokens in read])


def test_every_start_is_chosen_on_dev_and_judged_on_test(options, capsys):
    run(options)
    shown = capsys.readouterr().out.splitlines()
    out = options["--out"]
    record = json.loads((out / "initialisations.json").read_text("utf-8"))
    runs = record["runs"]
    trained = len(RATES) + 1
    counts = {"untrained": 2, "frozen": len(PENALTIES), "random": trained, "tuned": trained}
    by_start = {start: [run for run in runs if run["start"] == start] for start in counts}
    assert {start: len(of_start) for start, of_start in by_start.items()} == counts
    for start in ("random", "tuned"):
        first = [run for run in by_start[start] if run["seed"] == 0]
        final = [run for run in by_start[start] if run["final"]]
        best = max(first, key=lambda run: run["dev"]["qwk"])
        assert [run["seed"] for run in final] == [0, 1]
        assert {run["rate"] for run in final} == {best["rate"]}
    (frozen,) = [run for run in by_start["frozen"] if run["final"]]
    read = {name: PairSource(options[name]).read(labelled=True) for name in ("--train", "--test")}
    vectors = {name: one_by_one(options["--base"], pairs) for name, pairs in read.items()}
    truth = {name: [pair.grades[0] for pair in pairs] for name, pairs in read.items()}
    model = LogisticRegression(C=frozen["rate"], max_iter=5000)
    model.fit(vectors["--train"], truth["--train"])
    assert frozen["test"]["accuracy"] == model.score(vectors["--test"], truth["--test"])
    tuned = by_start["tuned"][-1]
    pairs = read["--test"]
    opened = open_checkpoint(out / f"tuned-{tuned['rate']:g}-1")
    logits = Scorer(opened).logits([(pair.query, pair.title) for pair in pairs])
    judged = judge_logits(logits, pairs, opened.settings.labels)
    assert METRICS["accuracy"].value(judged) == tuned["test"]["accuracy"]
    values = [run["test"]["spearman"] for run in by_start["untrained"]]
    rho = record["starts"][0]["spearman"]
    assert rho["value"] == pytest.approx(np.mean(values), abs=1e-12)
    assert f"{rho['value']:.3f} [{rho['ci_low']:.3f}, {rho['ci_high']:.3f}]" in shown[1]


def test_the_interval_is_of_the_mean_over_seeds(options):
    """Of accuracy, by hand: queries drawn anew, both seeds' models counted on the same draw."""
    run(options)
    start = json.loads((options["--out"] / "initialisations.json").read_text("utf-8"))["starts"][-1]
    pairs = PairSource(options["--test"]).read(labelled=True)
    queries = sorted({pair.query for pair in pairs})
    right = np.zeros((2, len(queries)))
    for seed in range(2):
        opened = open_checkpoint(options["--out"] / f"tuned-{start['rate']:g}-{seed}")
        logits = Scorer(opened).logits([(pair.query, pair.title) for pair in pairs])
        predicted = logits.argmax(axis=1) + 1
        for pair, grade in zip(pairs, predicted, strict=True):
            right[seed, queries.index(pair.query)] += grade == pair.grades[0]
    sizes = np.array([sum(pair.query == query for pair in pairs) for query in queries])
    drawn = np.random.default_rng(1).integers(len(queries), size=(20_000, len(queries)))
    shares = right.mean(axis=0)[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    accuracy = start["accuracy"]
    assert accuracy["value"] == pytest.approx(right.mean(axis=0).sum() / len(pairs), abs=1e-12)
    assert (accuracy["ci_low"], accuracy["ci_high"]) == pytest.approx((low, high), abs=0.03)


def test_run_again_it_trains_nothing_anew(options):
    out = options["--out"]
    weights = sorted(out.glob("*/model.safetensors"))
    before = [path.stat().st_mtime_ns for path in weights]
    stored = (out / "initialisations.json").read_bytes()
    run(options)
    assert len(weights) == 2 * (len(RATES) + 1) + 2
    assert [path.stat().st_mtime_ns for path in weights] == before
    assert (out / "initialisations.json").read_bytes() == stored


@pytest.mark.parametrize(
    ("option", "other", "message"),
    [
        ("--test", "--dev", "10 of its queries also stand in --dev"),
        ("--dev", "--train", "of its queries also stand in --train"),
        ("--base", None, "it was fine-tuned"),
    ],
)
def test_shared_queries_and_a_tuned_base_are_refused(
    options, checkpoint_of, capsys, option, other, message
):
    with pytest.raises(SystemExit) as stopped:
        run(options | {option: options[other] if other else checkpoint_of()})
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
