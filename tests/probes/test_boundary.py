"""The probe of word boundaries: a planted head, random ones, other families, texts without any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.pairs import ReaderOptions
from qt_bert.pairs.segmenters import SpanSegmenter
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results import ProbeResult, Text
from qt_bert.scoring.bulk import Scorer
from tests.probes.another_seed import tuned_again
from tests.probes.planted_boundary import (
    ENDS,
    HAN,
    PLANTED,
    coarsened,
    plant_word_ends,
    spans_of,
    words_of,
    write_pairs,
)
from tests.probes.planted_shift import untrained


@pytest.fixture
def made_pairs(tmp_path: Path) -> Path:
    """Forty pairs of characters in random order, of forty queries."""
    return write_pairs(tmp_path / "pairs.tsv", queries=40, titles=1)


COARSE = "0=1-3,1=4-5"


Run = Callable[..., ProbeResult]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the probe on a folder and pairs; `cut` stands in for jieba, by default the table."""

    def call(model: Path, pairs: Path, *, cut=spans_of, grades=None, **options) -> ProbeResult:
        context = ProbeContext(
            label="boundary",
            files=PairFiles(pairs=pairs, reader=ReaderOptions(grades=grades)),
            work=tmp_path / "work" / model.name,
            open_model=lambda: Scorer(open_checkpoint(model)),
            resamples=200,
            **options,
        )
        if cut is not None:
            context.segmenter = SpanSegmenter("jieba", cut)
        found = run_probe(probe_named("boundary"), context)
        found.write(tmp_path / "boundary.json")
        return ProbeResult.read(tmp_path / "boundary.json")

    return call


@pytest.fixture
def planted(tmp_path: Path, checkpoint_of) -> Path:
    return plant_word_ends(tmp_path / "planted", checkpoint_of(), ENDS)


def test_the_planted_head_is_named_and_no_other(run: Run, planted: Path, made_pairs: Path):
    found = run(planted, made_pairs)
    assert found.sets["boundary"] == (PLANTED,)
    assert [one.head for one in found.heads if one.selected] == [PLANTED]
    findings = {one.id: one for one in found.findings}
    assert findings["head_above_majority"].verdict == "reproduced"
    assert findings["head_balanced"].value == pytest.approx(1.0)
    assert findings["head_balanced"].verdict == "reproduced"
    assert findings["head_word_f1"].value == pytest.approx(1.0)
    assert findings["article_rule"].value == pytest.approx(1.0)
    assert findings["union_worth"].value == pytest.approx(1.0)
    assert findings["graded_over_random"].value > 30
    assert findings["left_out_zero_matched"].p is not None
    stable = found.stability["boundary"]
    assert (stable.overlap, stable.halves) == (1.0, 1.0)
    assert [(one.source.en, one.overlap) for one in stable.sources] == [("validation", 1.0)]
    assert found.settings["texts"]["segmenter"]["answers"]["characters"]["accuracy"] > 0.9
    assert "guards" in found.settings


def test_with_a_base_pretraining_is_compared(run: Run, planted: Path, made_pairs: Path):
    found = run(planted, made_pairs, base=planted)
    findings = {one.id: one for one in found.findings}
    assert findings["pretrained_over_random"].value > 30
    assert findings["graded_over_pretrained"].value == pytest.approx(0.0)
    assert run(planted, made_pairs).settings["pretrained"]["en"].startswith("No model before")


def test_another_seed_is_asked_for_the_same_heads(
    run: Run, planted: Path, made_pairs: Path, tmp_path: Path
):
    found = run(planted, made_pairs, second=tuned_again(planted, tmp_path / "second"))
    sources = found.stability["boundary"].sources
    assert [(one.source.en, one.overlap) for one in sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]


def test_a_gold_file_is_a_second_reference(
    run: Run, planted: Path, made_pairs: Path, tmp_path: Path
):
    rng = np.random.default_rng(5)
    lines = [words_of("".join(rng.choice(list(HAN), 12))) for _ in range(30)]
    gold = tmp_path / "gold.txt"
    gold.write_text("".join(" ".join(words) + "\n" for words in lines), encoding="utf-8")
    found = run(planted, made_pairs, gold=gold)
    findings = {one.id: one for one in found.findings}
    assert findings["gold_head_balanced"].value == pytest.approx(1.0)
    assert PLANTED in findings["gold_head_balanced"].claim.en
    assert found.settings["texts"]["gold"]["named"]["graded"] == 1


@pytest.mark.parametrize(
    ("family", "options"),
    [("bert", {"labels": 1}), ("xlm-roberta", {}), ("electra", {"layers": 4, "heads": 4})],
)
def test_other_families_shapes_and_one_logit(run: Run, checkpoint_of, made_pairs, family, options):
    found = run(checkpoint_of(family, **options), made_pairs, cut=None)
    sizes = found.settings["texts"]["segmenter"]["validation"]
    assert sizes["decisions"] > 100 and 0.5 < sizes["coverage"] <= 1
    assert {one.verdict for one in found.findings if one.primary} - {None}


def test_coarse_labels(run: Run, checkpoint_of, tmp_path: Path, made_pairs: Path):
    found = run(checkpoint_of(), coarsened(made_pairs, tmp_path / "coarse.tsv"), grades=COARSE)
    assert found.findings


def test_heads_are_left_out_on_coarse_labels(run: Run, planted: Path, made_pairs, tmp_path: Path):
    found = run(planted, coarsened(made_pairs, tmp_path / "coarse.tsv"), grades=COARSE)
    left_out = found.settings["leaving_out"]
    assert left_out["metric"] == "accuracy" and left_out["base"] is not None
    assert left_out["pairs"] == left_out["queries"]
    assert "accuracy changes by" in found.summary.en


def test_heads_are_left_out_of_a_one_logit_model_on_whole_queries(
    run: Run, tmp_path: Path, checkpoint_of
):
    model = plant_word_ends(tmp_path / "planted", checkpoint_of(), ENDS, labels=1)
    found = run(model, write_pairs(tmp_path / "pairs.tsv", queries=24, titles=4))
    assert found.sets["boundary"] == (PLANTED,)
    left_out = found.settings["leaving_out"]
    assert left_out["metric"] == "pairwise_accuracy" and left_out["base"] is not None
    assert left_out["pairs"] == 4 * left_out["queries"] == 24
    assert "pairwise accuracy changes by" in found.summary.en
    assert "24 pairs of 6 queries" in found.summary.en
    findings = {one.id: one for one in found.findings}
    assert findings["left_out_zero_matched"].value is not None
    assert findings["left_out_zero_matched"].p is not None


def test_labels_of_one_kind_leave_no_nan_in_the_texts(run: Run, planted: Path, made_pairs: Path):
    found = run(planted, made_pairs, cut=lambda text: [(at, at + 1) for at in range(len(text))])
    texts = [found.summary, *(one.claim for one in found.findings)]
    texts += [text for one in found.findings for text in one.conclusions.values()]
    assert not any("nan" in words for text in texts for words in (text.zh, text.en))
    assert "balanced accuracy of –" in found.summary.en


def test_a_segmenter_whose_words_overlap_is_not_the_reference(
    run: Run, planted: Path, made_pairs: Path
):
    found = run(planted, made_pairs, cut=None, segmenter_name="jieba-search")
    assert (found.settings["segmenter"], found.settings["reference"]) == ("jieba-search", "jieba")
    assert "against jieba" in found.summary.en
    [picture] = [one for one in found.figures if one.name == "boundary_texts"]
    assert [line.name for line in picture.lines][::2] == [
        Text("分词器 jieba", "segmenter jieba")
    ] * 3


def test_the_picture_cuts_where_its_colours_are_above_zero(
    run: Run, planted: Path, made_pairs: Path
):
    [picture] = [one for one in run(planted, made_pairs).figures if one.name == "boundary_texts"]
    assert {line.name for line in picture.lines[1::2]} == {PLANTED}
    assert all(line.tokens[-1].value is None for line in picture.lines[1::2])
    inner = [token for line in picture.lines[1::2] for token in line.tokens[:-1]]
    assert {token.value > 0 for token in inner} == {True, False}
    assert all((token.value > 0) == token.ends_word for token in inner)


def test_full_has_the_loud_control_and_mean_contexts(
    run: Run, planted: Path, made_pairs: Path, monkeypatch: pytest.MonkeyPatch
):
    from qt_bert.probes.word_ends import leaving_out, study

    monkeypatch.setattr(leaving_out, "MATCHED", (9, 9))
    monkeypatch.setattr(leaving_out, "FREE", (2, 2))
    monkeypatch.setattr(study, "FULL_SHIFTS", 5)
    found = run(planted, made_pairs, full=True)
    assert found.settings["random_draws"] == 3
    ids = {one.id for one in found.findings}
    assert {"left_out_zero_loud", "left_out_mean_matched", "left_out_mean_loud"} <= ids


def test_texts_without_chinese_say_so(run: Run, checkpoint_of, tmp_path: Path):
    path = tmp_path / "latin.tsv"
    rows = "".join(f"phone {n}\tcheap phone {n}\t{n % 5 + 1}\n" for n in range(12))
    path.write_text("query\ttitle\tgrade\n" + rows, encoding="utf-8")
    found = run(checkpoint_of(), path, cut=None)
    assert found.sets["boundary"] == () and "no neighbouring" in found.summary.en
    assert {one.verdict for one in found.findings if one.primary} == {"inconclusive"}


@pytest.mark.slow
def test_random_models_have_no_boundary_heads(tmp_path: Path, run: Run, checkpoint_of, made_pairs):
    naming = 0
    for seed in range(20):
        folder = untrained(checkpoint_of(), tmp_path / f"random{seed}", seed)
        naming += bool(run(folder, made_pairs, cut=None).sets["boundary"])
    assert naming <= 2
