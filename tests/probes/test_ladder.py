"""The interaction ladder: planted layers, offline models, any model and labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.models.heads import Shape
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.ladder.probe import PROBE
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.conftest import PAIRS
from tests.probes.judged import outcome
from tests.probes.matching_found import matching_found
from tests.wired import WORDS, wired_checkpoint

Build = Callable[..., Path]
TEXTS = [(query, title) for query, title, _ in PAIRS]


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., Context]:
    """A context around a model and pairs, which are discovery and validation alike."""

    def build(model: Path, pairs: list[Pair], **facts: Any) -> Context:
        made: dict[str, Any] = {
            "label": "ladder",
            "files": PairFiles(pairs=pair_file),
            "read_pairs": lambda labels: Split(pairs, pairs, 0),
            "work": tmp_path / "sweeps",
            "open_model": lambda: Scorer(open_checkpoint(model)),
            "resamples": 200,
            "find": matching_found(open_checkpoint(model).shape, ("L0H0",), ("L0H0",)),
        }
        return Context(**(made | facts))

    return build


def numbered(texts: list[tuple[str, str]], sets: list[tuple[int, ...]]) -> list[Pair]:
    return [
        Pair(query, title, grades, str(i), i + 1, "", {})
        for i, ((query, title), grades) in enumerate(zip(texts, sets, strict=True))
    ]


def texts_of(count: int) -> list[tuple[str, str]]:
    """Queries of three words with one, two or none of them in the title."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        words, shared = [WORDS[i] for i in rng.permutation(len(WORDS))], number % 3
        found.append((" ".join(words[:3]), " ".join(words[3 : 6 - shared] + words[:shared])))
    return found


def as_the_model_says(model: Path, texts: list[tuple[str, str]]) -> list[Pair]:
    """Pairs labelled by the model's own likeliest grade, so that uncut it makes no mistake."""
    said = Scorer(open_checkpoint(model)).logits(texts).argmax(axis=1)
    return numbered(texts, [(int(one) + 1,) for one in said])


def many_texts(count: int) -> list[tuple[str, str]]:
    """Queries that differ by a number, with titles of the same characters."""
    return [
        (f"{query}{number}", f"{title}{number % 7}")
        for number in range(count)
        for query, title in [TEXTS[number % len(TEXTS)]]
    ]


def by_id(result: ProbeResult) -> dict[str, Finding]:
    return {finding.id: finding for finding in result.findings}


@pytest.fixture(scope="module")
def matches_in_the_middle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three layers: the heads of L0 give nothing, L1 matches the texts, L2 reads what is marked."""
    from transformers import BertForSequenceClassification

    folder = wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")
    model = BertForSequenceClassification.from_pretrained(folder)
    first, second, _ = (layer.attention for layer in model.bert.encoder.layer)
    with torch.no_grad():
        second.load_state_dict(first.state_dict())
        for part in (first.self.query, first.self.key, first.self.value, first.output.dense):
            part.weight.zero_()
            part.bias.zero_()
    model.save_pretrained(folder)
    return folder


def test_lower_layers_that_never_mix_the_texts_are_free(
    matches_in_the_middle: Path, context: Callable[..., Context]
) -> None:
    pairs = as_the_model_says(matches_in_the_middle, texts_of(30))
    assert {pair.grades for pair in pairs} == {(1,), (5,)}
    asked = matching_found(Shape(3, 4), ("L1H1",), ("L1H1",))
    made = context(matches_in_the_middle, pairs, find=asked)
    result = run_probe(PROBE, made)
    said = result.settings["first_layer"]
    assert said == {"discovery": 1, "validation": 1, "layers": 3, "confirmed": True, "bar": 2.0}
    assert result.settings["measured_on"]["validation"]["uncut"]["accuracy"] == 1
    # With its own text alone to see each character matches itself, so that every pair gets grade 5.
    wrong = 100 * sum(pair.grades == (1,) for pair in pairs) / len(pairs)
    assert result.settings["rungs"]["all"]["loss"] == pytest.approx([0, wrong, wrong])
    found = by_id(result)
    assert found["ladder_free"].value == 0 and not found["ladder_free"].primary
    assert found["ladder_first_layer"].value == pytest.approx(wrong)
    step = found["ladder_step"]
    assert (step.value, step.ci_low, step.ci_high, step.margin) == (0, 0, 0, 1)
    assert outcome(step) == "reproduced"
    assert "The first layer that must see both texts is L1" in result.summary.en
    assert "第一个必须同时看到两段文本的层是 L1" in result.summary.zh
    assert "confirms it" in result.summary.en and "not named" not in result.summary.en
    assert [one.id for one in result.findings if one.primary] == [
        "ladder_cls",
        "ladder_direction",
        "ladder_step",
    ]


def test_the_block_of_an_offline_model_is_the_floor(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    folder = offline(checkpoint_of(layers=4, seed=3), tmp_path / "offline", layers=2)
    pairs = as_the_model_says(folder, many_texts(60))
    assert len({pair.grades for pair in pairs}) > 1
    result = run_probe(PROBE, context(folder, pairs))
    assert result.settings["offline_layers"] == 2
    assert result.settings["first_layer"]["discovery"] == 2
    for name, rungs in result.settings["rungs"].items():
        idle = [loss for at, loss in zip(rungs["layers"], rungs["loss"], strict=True) if at <= 2]
        assert idle == ([] if name == "to_cls" else [0, 0]), name
    assert result.settings["rungs"]["all"]["loss"][2] > 2
    assert "lowest 2 layers of this model read the texts apart by themselves" in result.summary.en


def offline(model: Path, folder: Path, layers: int) -> Path:
    """The checkpoint as an offline model."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    block = {"layers": layers, "title_start": 24, "title_tokens": 30}
    card = {"schema": 1, "grades": [[1], [2], [3], [4], [5]], "max_length": 64, "offline": block}
    (folder / "qt_bert.json").write_text(json.dumps(card), encoding="utf-8")
    return folder


def test_a_model_that_looks_at_one_text_alone_must_see_both_nowhere(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    """No head gives anything, so the grade is that of [CLS] alone: no rung costs anything."""
    from transformers import BertForSequenceClassification

    folder = tmp_path / "silent"
    model = BertForSequenceClassification.from_pretrained(checkpoint_of(seed=5))
    with torch.no_grad():
        for layer in model.bert.encoder.layer:
            layer.attention.output.dense.weight.zero_()
    for file in checkpoint_of(seed=5).iterdir():
        folder.mkdir(exist_ok=True)
        (folder / file.name).write_bytes(file.read_bytes())
    model.save_pretrained(folder)
    pairs = numbered(TEXTS, [(1 + i % 5,) for i in range(len(TEXTS))])
    result = run_probe(PROBE, context(folder, pairs))
    assert result.settings["first_layer"]["discovery"] == 2
    assert "No layer must see both texts (none)" in result.summary.en
    assert "没有一层必须同时看到两段文本" in result.summary.zh
    assert "ladder_first_layer" not in by_id(result)
    step = by_id(result)["ladder_step"]
    assert step.value is None and outcome(step) == "inconclusive"
    assert "cannot be told from 0" in result.summary.en


@pytest.mark.parametrize(
    ("family", "options", "full"),
    [
        ("bert", {"labels": 3, "layers": 4}, False),
        ("xlm-roberta", {"labels": 1, "layers": 3}, True),
        ("electra", {"layers": 1}, True),
        ("roberta", {"layers": 5, "heads": 1}, False),
        ("ernie", {"labels": 4}, False),
    ],
)
def test_any_model(
    checkpoint_of: Build,
    context: Callable[..., Context],
    tmp_path: Path,
    family: str,
    options: dict[str, int],
    full: bool,
) -> None:
    labels, layers = options.get("labels", 5), options.get("layers", 2)
    texts = [(TEXTS[i // 2 % 8][0], f"{TEXTS[i % 8][1]}{i}") for i in range(20)]
    levels = max(labels, 2)
    pairs = numbered(texts, [(1 + i % levels,) for i in range(20)])
    shape = Shape(layers, options.get("heads", 2))
    made = context(
        checkpoint_of(family, **options), pairs, full=full, find=matching_found(shape, ("L0H0",))
    )
    result = run_probe(PROBE, made)
    expected = "pairwise_accuracy" if labels == 1 else "accuracy"
    assert result.settings["metric"] == expected
    rungs = result.settings["rungs"]
    assert rungs["all"]["layers"] == list(range(1, layers + 1))
    assert ("all_after" in rungs) == full
    assert {"ladder_cls", "ladder_direction", "ladder_step"} <= by_id(result).keys()
    assert by_id(result)["ladder_direction"].p is not None
    assert "heads not named" in by_id(result)["ladder_step"].claim.en
    assert result.heads == () and result.sets == {}
    names = [figure.name for figure in result.figures]
    assert len(set(names)) == len(names) == (9 if full else 6)
    result.write(tmp_path / "ladder.json")
    assert ProbeResult.read(tmp_path / "ladder.json").figures == result.figures


def test_coarse_labels_of_other_scales(
    checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    for scale in ([(1, 2), (3, 4), (5,)], [(1,), (2,), (3, 4), (5,)]):
        pairs = numbered(many_texts(20), [scale[i % len(scale)] for i in range(20)])
        work = context(checkpoint_of(), pairs).work / str(len(scale))
        result = run_probe(PROBE, context(checkpoint_of(), pairs, work=work))
        assert result.settings["metric"] == "accuracy"
        assert result.settings["measured_on"]["discovery"]["pairs"] == 20
        assert "about 15.0 points (20 pairs)" in result.settings["resolution"]["en"]


def test_one_query_and_texts_that_share_nothing(
    checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    pairs = numbered([("a b", f"c d{i}") for i in range(6)], [(1 + i % 5,) for i in range(6)])
    none = matching_found(Shape(2, 2), scored=False)
    result = run_probe(PROBE, context(checkpoint_of(), pairs, find=none))
    assert result.settings["first_layer"]["discovery"] == 0  # without an interval nothing is shown
    assert result.settings["step"]["matching_heads"] is None
    found = by_id(result)
    assert found["ladder_step"].value is None
    assert {outcome(found[one]) for one in ("ladder_cls", "ladder_step")} == {"inconclusive"}


def test_a_pruned_model_is_asked_like_any(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    kept = tuple(KeptLayer(layer=number, heads=(0, 2)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4, seed=3)), kept)
    folder = save_smaller(tmp_path / "small", small)
    pairs = numbered(TEXTS, [(1 + i % 5,) for i in range(len(TEXTS))])
    result = run_probe(PROBE, context(folder, pairs))
    assert result.settings["rungs"]["all"]["layers"] == [1, 2]


def test_a_run_goes_on_where_it_stopped_and_the_seed_fixes_it(
    checkpoint_of: Build, context: Callable[..., Context], tmp_path: Path
) -> None:
    pairs = numbered(TEXTS, [(1 + i % 5,) for i in range(len(TEXTS))])
    first = run_probe(PROBE, context(checkpoint_of(), pairs))
    assert run_probe(PROBE, context(checkpoint_of(), pairs)) == first
    anew = run_probe(PROBE, context(checkpoint_of(), pairs, work=tmp_path / "anew"))
    assert anew.findings == first.findings


def test_a_quick_run_takes_a_sample_of_either_half(
    checkpoint_of: Build, context: Callable[..., Context]
) -> None:
    def split(labels: ModelLabels) -> Split:
        pairs = numbered(many_texts(300), [(1 + i % labels.logits,) for i in range(300)])
        return Split(pairs, [replace(one, id=f"v{one.id}") for one in pairs], 0)

    result = run_probe(PROBE, context(checkpoint_of(labels=3), [], read_pairs=split))
    sizes = {name: one["pairs"] for name, one in result.settings["measured_on"].items()}
    assert sizes == {"discovery": 160, "validation": 128} and result.pairs.n_pairs == 128
