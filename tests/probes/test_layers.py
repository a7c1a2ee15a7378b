"""What layers hold: recombined texts, the whole probe on every kind of model, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.figures import Bars, Curve, HeatMap
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.layers import mix, samples
from qt_bert.probes.layers import study as study_module
from qt_bert.probes.layers.claims import findings
from qt_bert.probes.layers.probe import PROBE
from qt_bert.probes.layers.result import result
from qt_bert.probes.layers.samples import natural, recombine, recombined
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer

Build = Callable[..., Path]
CHARACTERS = (
    "北京到上海高铁票价时刻表查询怎么去除衣服上的油渍沾了洗掉红烧排骨家常做法小哥最近在干嘛"
)
WORDS = (
    "北京",
    "上海",
    "高铁",
    "票价",
    "查询",
    "衣服",
    "油渍",
    "红烧",
    "排骨",
    "小哥",
    "最近",
    "做法",
)


def pairs_of(queries: int, seed: int, grades: Sequence[int] = (1, 2, 3, 4, 5)) -> list[Pair]:
    """Two titles a query; a title of a high grade shares words with the query."""
    rng = np.random.default_rng(seed)
    pairs = []
    for number in range(queries):
        query = "".join(rng.choice(WORDS, 3, replace=False)) + rng.choice(list(CHARACTERS))
        for turn in range(2):
            grade = int(grades[(number + turn) % len(grades)])
            kept = query[: 2 * (grade // 2)]
            title = kept + "".join(rng.choice(WORDS, 1 + (number + turn) % 4))
            pairs.append(Pair(query, title, (grade,), f"{number}-{turn}", 1, str(grade), {}))
    return pairs


def context_of(folder: Path, tmp_path: Path, **changes: Any) -> Context:
    path = tmp_path / "pairs.tsv"
    path.write_text("query\ttitle\tgrade\n", encoding="utf-8")
    split = Split(
        changes.pop("discovery", pairs_of(30, 1)), changes.pop("validation", pairs_of(20, 2)), 0
    )
    facts: dict[str, Any] = {
        "label": "layers",
        "files": PairFiles(pairs=path, reader=ReaderOptions()),
        "work": tmp_path / "sweeps",
        "open_model": lambda: Scorer(open_checkpoint(folder)),
        "read_pairs": lambda labels: split,
        "resamples": 100,
    }
    return Context(**{**facts, **changes})


def ids(result: ProbeResult, primary: bool = True) -> list[str]:
    return [one.id for one in result.findings if one.primary == primary]


def test_recombined_pairs_are_new_and_every_other_title_is_shuffled() -> None:
    pairs = [(one.query, one.title) for one in pairs_of(20, 1)]
    found = recombine(pairs, 60, seed=0)
    titles = {title for _, title in pairs}
    assert len(set(found.texts)) == 60 and not set(found.texts) & set(pairs)
    for (query, title), shuffled in zip(found.texts, found.shuffled, strict=True):
        assert any(query == one for one, _ in pairs)
        assert (title in titles) != bool(shuffled)
        assert any(sorted(title) == sorted(one) for one in titles)
    assert found.shuffled.tolist() == [0, 1] * 30


def test_few_texts_give_what_combinations_they_have() -> None:
    found = recombine([("甲", "乙丙"), ("丁", "戊己"), ("庚", "辛")], 50, seed=0)
    # The title of one character has no other order: 3 queries × 2 titles, less the 2 that are pairs.
    assert 1 <= len(found.texts) <= 4
    assert recombine([("甲", "乙")], 5, seed=0).texts == ()


def test_nothing_to_fit_on_holds_a_text_of_validation(checkpoint_of: Build, tmp_path: Path) -> None:
    validation = pairs_of(20, 2)
    leaking = [
        Pair("新的查询", validation[0].title, (3,), "leak", 1, "3", {}),
        *pairs_of(30, 1),
    ]
    texts = tmp_path / "texts.tsv"
    further = [(f"查询{n}", f"上海高铁{n}") for n in range(9)] + [("别的查询", validation[1].title)]
    rows = "".join(f"{query}\t{title}\t3\n" for query, title in further)
    texts.write_text(f"query\ttitle\tgrade\n{rows}", encoding="utf-8")
    context = context_of(
        checkpoint_of("bert"), tmp_path, discovery=leaking, validation=validation, texts=texts
    )
    known = {text for pair in validation for text in (pair.query, pair.title)}
    fit, check = natural(context)
    mine, theirs = recombined(context)
    for one in (fit, mine):
        assert not known & {text for pair in one.texts for text in pair}
    assert {text for pair in check.texts for text in pair} <= known
    assert {query for query, _ in theirs.texts} <= known
    assert any("查询" in query for query, _ in fit.texts)  # further texts are there
    assert fit.grades[-1] is None and None not in check.grades


@pytest.fixture(scope="module")
def quick(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> ProbeResult:
    """The model and a base with other weights of the same shape."""
    folder = tmp_path_factory.mktemp("layers")
    base = checkpoint_of("bert", seed=5)
    return run_probe(PROBE, context_of(checkpoint_of("bert"), folder, base=base))


def test_every_claim_that_can_be_tested_stands_there(quick: ProbeResult) -> None:
    claims = [one for one in quick.findings if one.primary]
    assert "position_falls" in ids(quick) and "length_untrained" in ids(quick)
    assert all(one.ci_low is not None for one in claims)
    assert all(one.source.article == "what_bert_and_transformer_learn" for one in claims)
    assert "grade_read" in ids(quick, primary=False)
    assert {"grade_read_model", "grade_read_cls_model"} <= set(ids(quick, primary=False))
    assert quick.heads == () and quick.sets == {}


def test_scores_selectivity_centres_and_lengths_are_drawn(quick: ProbeResult) -> None:
    figures = {one.name: one for one in quick.figures}
    score = figures["score_pretrained"]
    assert isinstance(score, HeatMap) and score.columns[1:] == ("r0", "r1", "r2")
    bag = [row[0] for row in score.values]
    assert sum(value is not None for value in bag) == 3  # length, order and grade
    assert {"selectivity_pretrained", "score_model", "above_chance_surface_model"} <= set(figures)
    centres, lengths = figures["centres"], figures["length_without_pretraining"]
    assert isinstance(centres, Bars) and len(centres.series) == 2
    assert isinstance(lengths, Curve) and len(lengths.series) == 2


def test_what_it_did_without_is_said(quick: ProbeResult) -> None:
    for said in ("--treebank", "--texts", "--initialisations"):
        assert said in quick.summary.zh and said in quick.summary.en
    assert "dependency" not in quick.settings["examples"]
    assert quick.settings["untrained"] == 5 and quick.settings["tuned_from_random"] == 0


def test_without_a_base_no_claim_is_tested(checkpoint_of: Build, tmp_path: Path) -> None:
    result = run_probe(PROBE, context_of(checkpoint_of("bert"), tmp_path))
    assert ids(result) == []
    assert "position_falls_model" in ids(result, primary=False)
    assert "--base" in result.summary.zh and "--base" in result.summary.en


@pytest.mark.parametrize(
    ("family", "options"),
    [("xlm-roberta", {}), ("electra", {"labels": 1}), ("bert", {"layers": 1})],
)
def test_models_of_every_kind_are_read(
    family: str, options: dict[str, int], checkpoint_of: Build, tmp_path: Path
) -> None:
    folder = checkpoint_of(family, **options)
    result = run_probe(PROBE, context_of(folder, tmp_path, base=folder))
    assert {"position_falls", "length_untrained"} <= set(ids(result))


def test_coarse_labels_are_read_as_their_mean_grade(checkpoint_of: Build, tmp_path: Path) -> None:
    coarse = [
        Pair(one.query, one.title, (1, 2) if one.grades == (1,) else (3, 4), one.id, 1, "", {})
        for one in pairs_of(30, 1)
    ]
    fit, _ = natural(context_of(checkpoint_of("bert"), tmp_path, discovery=coarse))
    assert set(fit.grades) == {1.5, 3.5}


def test_few_pairs_are_enough_and_of_too_few_it_is_said(
    checkpoint_of: Build, tmp_path: Path
) -> None:
    folder = checkpoint_of("bert")
    few = {"discovery": pairs_of(5, 1), "validation": pairs_of(5, 2)}
    result = run_probe(PROBE, context_of(folder, tmp_path, base=folder, **few))
    assert "position_falls" in ids(result)
    none = {"discovery": pairs_of(2, 1), "validation": pairs_of(5, 2)}
    nothing = run_probe(PROBE, context_of(folder, tmp_path, **none))
    assert nothing.findings == () and "Too few pairs: 4 to fit on" in nothing.summary.en


def test_everything_has_a_mix_under_full(
    checkpoint_of: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = checkpoint_of("bert")
    context = context_of(folder, tmp_path, base=folder, full=True)
    for module, name, value in (
        (samples, "FULL", samples.QUICK._replace(recombined=40, recombined_validation=30)),
        (study_module, "FULL_DRAWS", 2),
        (mix, "MOST_EXAMPLES", 60),
        (mix, "STEPS", 3),
        (mix, "REFITS", 3),
    ):
        monkeypatch.setattr(module, name, value)
    study = study_module.study(context)
    assert study.base is not None and study.base.mixes.keys() == study.tasks.keys()
    found = {one.id: one for one in findings(study, context)}
    gravity = study.base.mixes
    surface = np.mean([gravity[name].gravity for name in ("position", "length")])
    syntax = np.mean([gravity[name].gravity for name in ("boundary", "pos")])
    assert found["surface_below_syntax"].value == pytest.approx(syntax - surface)
    assert found["surface_below_syntax"].primary
    entropies = {name: one.entropy for name, one in gravity.items()}
    few, many = (entropies["boundary"] + entropies["pos"]) / 2, entropies["matched"]
    if "grade" in entropies:
        many = (many + entropies["grade"]) / 2
    assert found["semantics_spread"].value == pytest.approx(many - few)
    assert found["semantics_spread"].primary
    json.dumps(result(study, context).to_json(), allow_nan=False)
