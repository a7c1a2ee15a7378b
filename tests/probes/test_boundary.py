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
from qt_bert.results import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.planted_boundary import PLANTED, plant_word_ends

HAN = "北京到上海高铁票价时刻表查询怎么去除衣服的油渍沾了洗掉红烧排骨家常做法小哥最近在干嘛我伊朗长大假期电影苹果手机"
ENDS = set(HAN[::2])


def words_of(text: str) -> list[str]:
    """The words of a text by the table: each ends with a character of `ENDS`, or with the text."""
    cuts = [0, *(at for at in range(1, len(text)) if text[at - 1] in ENDS), len(text)]
    return [text[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]


def spans_of(text: str) -> list[tuple[int, int]]:
    ends = np.cumsum([0, *map(len, words_of(text))]).tolist()
    return list(zip(ends, ends[1:], strict=False))


@pytest.fixture
def made_pairs(tmp_path: Path) -> Path:
    """Forty pairs of characters in random order, graded at random."""
    rng = np.random.default_rng(3)
    path = tmp_path / "pairs.tsv"
    with open(path, "w", encoding="utf-8") as handle:
        handle.write("query\ttitle\tgrade\n")
        for row in range(40):
            query, title = ("".join(rng.choice(list(HAN), size)) for size in (6, 10))
            handle.write(f"{query}\t{title}\t{row % 5 + 1}\n")
    return path


Run = Callable[..., ProbeResult]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the probe on a folder and pairs; `table` cuts words by the table of word ends."""

    def call(
        model: Path, pairs: Path, *, table: bool = True, grades=None, **options
    ) -> ProbeResult:
        context = ProbeContext(
            label="boundary",
            files=PairFiles(pairs=pairs, reader=ReaderOptions(grades=grades)),
            work=tmp_path / "work" / model.name,
            open_model=lambda: Scorer(open_checkpoint(model)),
            resamples=200,
            **options,
        )
        if table:
            context.segmenter = SpanSegmenter("jieba", spans_of)
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
    assert found.settings["comes_back"]["boundary"]["share"] == pytest.approx(1.0)
    assert found.settings["texts"]["segmenter"]["answers"]["characters"]["accuracy"] > 0.9
    assert "guards" in found.settings


def test_with_a_base_pretraining_is_compared(run: Run, planted: Path, made_pairs: Path):
    found = run(planted, made_pairs, base=planted)
    findings = {one.id: one for one in found.findings}
    assert findings["pretrained_over_random"].value > 30
    assert findings["graded_over_pretrained"].value == pytest.approx(0.0)
    assert run(planted, made_pairs).settings["pretrained"]["en"].startswith("No model before")


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
    found = run(checkpoint_of(family, **options), made_pairs, table=False)
    sizes = found.settings["texts"]["segmenter"]["validation"]
    assert sizes["decisions"] > 100 and 0.5 < sizes["coverage"] <= 1
    assert {one.verdict for one in found.findings if one.primary} - {None}


def test_coarse_labels(run: Run, checkpoint_of, tmp_path: Path, made_pairs: Path):
    path = tmp_path / "coarse.tsv"
    text = made_pairs.read_text(encoding="utf-8")
    rows = [line.rsplit("\t", 1) for line in text.splitlines()[1:]]
    coarse = [f"{row}\t{'1' if int(grade) > 3 else '0'}" for row, grade in rows]
    path.write_text("query\ttitle\tgrade\n" + "\n".join(coarse) + "\n", encoding="utf-8")
    found = run(checkpoint_of(), path, grades="0=1-3,1=4-5")
    assert found.findings


def test_full_has_the_loud_control_and_mean_contexts(
    run: Run, planted: Path, made_pairs: Path, monkeypatch: pytest.MonkeyPatch
):
    from qt_bert.probes.word_ends import leaving_out

    monkeypatch.setattr(leaving_out, "MATCHED", (9, 9))
    monkeypatch.setattr(leaving_out, "FREE", (2, 2))
    found = run(planted, made_pairs, full=True)
    ids = {one.id for one in found.findings}
    assert {"left_out_zero_loud", "left_out_mean_matched", "left_out_mean_loud"} <= ids


def test_texts_without_chinese_say_so(run: Run, checkpoint_of, tmp_path: Path):
    path = tmp_path / "latin.tsv"
    rows = "".join(f"phone {n}\tcheap phone {n}\t{n % 5 + 1}\n" for n in range(12))
    path.write_text("query\ttitle\tgrade\n" + rows, encoding="utf-8")
    found = run(checkpoint_of(), path, table=False)
    assert found.sets["boundary"] == () and "no neighbouring" in found.summary.en
    assert {one.verdict for one in found.findings if one.primary} == {"inconclusive"}


@pytest.mark.slow
def test_random_models_have_no_boundary_heads(tmp_path: Path, run: Run, checkpoint_of, made_pairs):
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(checkpoint_of())
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        num_labels=5,
    )
    naming = 0
    for seed in range(20):
        torch.manual_seed(seed)
        folder = tmp_path / f"random{seed}"
        BertForSequenceClassification(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        naming += bool(run(folder, made_pairs, table=False).sets["boundary"])
    assert naming <= 2
