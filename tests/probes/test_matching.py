"""The probe of term matching: cells and scores by hand, planted heads, random models, odd inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qt_bert.ablation.reduction import View
from qt_bert.ablation.variant import Variant
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.batches import to_batch
from qt_bert.encoder.heads import Head
from qt_bert.pairs import Pair, ReaderOptions, segmenter
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.probe import run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.probes.term_matching import scores as scoring
from qt_bert.probes.term_matching.attention import SINK_FREE, CellSums, sink_free
from qt_bert.probes.term_matching.cells import (
    CHARACTERS,
    DIAGONAL,
    KINDS,
    OTHER,
    OWN,
    PUNCTUATION,
    QUERY_TO_TITLE,
    STOP,
    SYNONYMS,
    TERMS,
    TITLE_TO_QUERY,
    Cells,
    cells_of,
    channel_of,
)
from qt_bert.probes.term_matching.changes import Figure
from qt_bert.probes.term_matching.replacement import Replacements
from qt_bert.probes.term_matching.scores import matching_heads, score_heads
from qt_bert.probes.term_matching.slices import by_grade, overlap, overlap_name
from qt_bert.probes.term_matching.study import study
from qt_bert.probes.term_matching.synonyms import Aligned, alignments
from qt_bert.results import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.planted_matching import MATCHING, OFFSET, pairs_of, plant_matching, write_pairs

Build = Callable[..., ProbeContext]


@pytest.fixture
def context(checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path) -> Build:
    """A context around a tiny model and the eight pairs, any of its fields changed by keyword."""

    def build(model: Path | None = None, **changes: Any) -> ProbeContext:
        facts: dict[str, Any] = {
            "label": "matching",
            "files": PairFiles(pairs=pair_file),
            "work": tmp_path / "sweeps" / "matching",
            "open_model": lambda: Scorer(open_checkpoint(model or checkpoint_of())),
            "resamples": 50,
        }
        return ProbeContext(**(facts | changes))

    return build


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant_matching(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps as in the profile, each of a few draws."""
    from qt_bert.probes.term_matching import study as room

    monkeypatch.setattr(room, "QUICK", room.Draws(matched=5, free=3, beside=3, curve=2))
    monkeypatch.setattr(room, "FULL", room.Draws(matched=5, free=3, beside=3, curve=2))


# Cells


def encoded(folder: Path, query: str, title: str) -> EncodedPair:
    return open_checkpoint(folder).pair_tokenizer(None).encode([(query, title)])[0]


def of_channel(cells: Cells, kind: int, direction: int, part: int) -> set[tuple[int, int]]:
    chosen = cells.channel == channel_of(kind, direction, part)
    return set(zip(cells.row[chosen].tolist(), cells.column[chosen].tolist(), strict=True))


def test_cells_of_characters(checkpoint_of: Callable[..., Path]) -> None:
    # [CLS] 苹 果 的 [SEP] 果 的 苹 手 [SEP]: tokens 0 … 9
    pair = "苹果的", "果的苹手"
    cells = cells_of(encoded(checkpoint_of(), *pair), *pair, segmenter("jieba"), ())
    assert of_channel(cells, CHARACTERS, QUERY_TO_TITLE, OWN) == {(1, 7), (2, 5)}
    assert of_channel(cells, CHARACTERS, QUERY_TO_TITLE, OTHER) == {
        *((1, at) for at in (5, 6, 8)),
        *((2, at) for at in (6, 7, 8)),
    }
    assert of_channel(cells, CHARACTERS, TITLE_TO_QUERY, OWN) == {(5, 2), (7, 1)}
    assert of_channel(cells, STOP, TITLE_TO_QUERY, OWN) == {(6, 3)}
    # 果 stands first in the title, 苹 third: their own offsets in the query are 1 and 3.
    assert of_channel(cells, DIAGONAL, TITLE_TO_QUERY, OWN) == {(5, 1), (7, 3)}
    assert cells.rows[CHARACTERS].tolist() == [2, 2]
    assert cells.counts[CHARACTERS].tolist() == [[2, 4], [2, 6]]


def test_cells_of_words_synonyms_and_punctuation(checkpoint_of: Callable[..., Path]) -> None:
    # [CLS] 手 机 , [SEP] 北 京 手 机 , [SEP]
    pair = "手机,", "北京手机,"
    aligned = Aligned(0, 2, 0, 2)
    cells = cells_of(encoded(checkpoint_of(), *pair), *pair, segmenter("jieba"), [aligned])
    assert of_channel(cells, TERMS, QUERY_TO_TITLE, OWN) == {(1, 7), (1, 8), (2, 7), (2, 8)}
    assert of_channel(cells, TERMS, QUERY_TO_TITLE, OTHER) == {
        (row, at) for row in (1, 2) for at in (5, 6, 9)
    }
    assert of_channel(cells, SYNONYMS, TITLE_TO_QUERY, OWN) == {(5, 1), (5, 2), (6, 1), (6, 2)}
    assert of_channel(cells, PUNCTUATION, QUERY_TO_TITLE, OWN) == {(3, 9)}


def test_a_pair_without_a_shared_character_has_no_cells(checkpoint_of: Callable[..., Path]) -> None:
    pair = "手机", "北京"
    cells = cells_of(encoded(checkpoint_of(), *pair), *pair, segmenter("jieba"), ())
    assert len(cells.channel) == 0
    assert not cells.speak_of(CHARACTERS, TERMS, SYNONYMS)


def test_shipped_alignments_are_found_by_text() -> None:
    found = alignments()["跑步膝盖疼", "一跑起来膝关节就痛，是怎么搞的？"]
    assert found == (Aligned(2, 4, 4, 7), Aligned(4, 5, 8, 9))


def test_replacements_are_as_long_and_share_nothing(checkpoint_of: Callable[..., Path]) -> None:
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(None)
    pool = Replacements(tokenizer, ["北京", "上海", "手机", "苹果", "红烧肉", "手机"])
    assert sorted(pool.draw("北京的手", 2, 9, (0, 0))) == ["上海", "苹果"]
    assert len(pool.draw("北京的手", 2, 1, (0, 0))) == 1
    assert pool.draw("北京的手", 4, 3, (0, 0)) == []


# Sums and scores


def attention_of(pair: EncodedPair, heads: int = 2) -> tuple[torch.Tensor, View]:
    torch.manual_seed(0)
    values = torch.softmax(torch.randn(1, heads, len(pair), len(pair)), -1)
    return values, View(values, to_batch(np.array([0]), [pair], pad=0), 0)


def test_sums_over_cells_by_hand(checkpoint_of: Callable[..., Path]) -> None:
    pair = "苹果的", "果的苹手"
    one = encoded(checkpoint_of(), *pair)
    values, view = attention_of(one)
    sums = CellSums([cells_of(one, *pair, segmenter("jieba"), ())])(view)
    assert sums.shape == (1, 2, len(KINDS) * 4 + 4)
    own = sums[0, 1, channel_of(CHARACTERS, QUERY_TO_TITLE, OWN)]
    other = sums[0, 1, channel_of(CHARACTERS, QUERY_TO_TITLE, OTHER)]
    row, last = values[0, 1, 1], values[0, 1, 2]
    assert own == pytest.approx(float(row[7] + last[5]), rel=1e-5)
    assert other == pytest.approx(float(row[[5, 6, 8]].sum() + last[[6, 7, 8]].sum()), rel=1e-5)


def test_weight_added_to_separators_changes_nothing_between_the_texts(
    checkpoint_of: Callable[..., Path],
) -> None:
    pair = "苹果的", "果的苹手"
    one = encoded(checkpoint_of(), *pair)
    values, view = attention_of(one)
    taken = torch.rand(1, 2, len(one), 1) * 0.9  # a share of every row goes to the last separator
    sunk = values * (1 - taken)
    sunk[..., -1] += taken[..., 0]
    compute = CellSums([cells_of(one, *pair, segmenter("jieba"), ())])
    before, after = compute(view)[0], compute(View(sunk, view.batch, 0))[0]
    torch.testing.assert_close(before[:, -4:], after[:, -4:])
    assert not torch.allclose(before[:, SINK_FREE], after[:, SINK_FREE], rtol=0.01)


def test_attention_between_the_texts_alone_sums_to_one() -> None:
    texts = torch.tensor([[False, True, True, False, True]])
    found = sink_free(torch.full((1, 1, 5, 5), 0.2), texts)
    assert found[0, 0, 1].tolist() == pytest.approx([0, 0, 0.5, 0, 0.5])


def test_the_planted_head_is_the_only_one_named(planted: Path) -> None:
    pairs = [_pair(q, t, g) for q, t, g in pairs_of(30)]
    found = score_heads(
        Scorer(open_checkpoint(planted)), pairs, segmenter("jieba"), [p.query for p in pairs]
    )
    assert found.named() == [MATCHING]
    assert found.best(1) == [MATCHING]
    assert found.score[MATCHING] > 20
    # The offset's head finds every character, and the replaced one just as well.
    assert found.matched()[(*OFFSET, QUERY_TO_TITLE)] > 20
    assert found.score[OFFSET] == pytest.approx(1, abs=0.05)
    assert found.score[0, 0] == pytest.approx(1, abs=0.05)
    back = found.comes_back([MATCHING], resamples=20, seed=0)
    assert back is not None and (back.share, back.chance) == (1, 1 / 8)
    assert found.sample.used == 30 and found.sample.coverage == 1


def test_scores_are_the_ratio_of_ratios(checkpoint_of: Callable[..., Path]) -> None:
    """The whole score of one pair from the Hugging Face model's own attention."""
    from transformers import AutoModel

    folder = checkpoint_of()
    scorer = Scorer(open_checkpoint(folder))
    found = score_heads(scorer, [_pair("苹果的", "果的苹手", 5)], segmenter("jieba"), ["北京到"])
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def m(query: str) -> float:
        one = scorer.tokenizer.encode([(query, "果的苹手")])[0]
        with torch.no_grad():
            maps = model(
                input_ids=torch.tensor([one.input_ids]),
                token_type_ids=torch.tensor([one.token_type_ids]),
                output_attentions=True,
            ).attentions
        a = maps[1][0, 0]
        own = (a[1, 7] + a[2, 5]) / 2
        other = (a[1, [5, 6, 8]].sum() + a[2, [6, 7, 8]].sum()) / 6
        return float(own / other)

    ratio = found.ratio()[1, 0, QUERY_TO_TITLE]
    assert ratio == pytest.approx(m("苹果的") / m("北京到"), rel=1e-3)
    excess = found.excess()[0, 1, 0, QUERY_TO_TITLE]
    assert excess == pytest.approx(np.log(ratio), rel=1e-6)


def _pair(query: str, title: str, grade: int) -> Pair:
    return Pair(query, title, (grade,), "", 0, str(grade), {})


def test_nothing_to_match_scores_nothing(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    found = score_heads(scorer, [_pair("手机", "北京", 1)], segmenter("jieba"), ["手机"])
    assert np.isnan(found.score).all() and found.best(3) == [] and found.named() == []
    assert found.sample.nothing_shared == 1
    alone = score_heads(scorer, [_pair("手机", "手机多少钱", 5)], segmenter("jieba"), ["手机"])
    assert alone.best(3) == [] and alone.sample.no_replacement == 1


def test_discovery_is_scored_once(
    context: Build, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(30)))
    assert matching_heads(context(planted, files=files), 1) == [MATCHING]

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("scored again")

    monkeypatch.setattr(scoring, "scores_on", refuse)
    assert matching_heads(context(planted, files=files), 2)[0] == MATCHING


# Slices and figures


def test_overlap_counts_content_characters() -> None:
    assert overlap("苹果的价", "苹果") == pytest.approx(2 / 3)
    assert overlap("的", "的") is None
    assert overlap_name(_pair("苹果价", "苹果", 1)) == "high"
    assert overlap_name(_pair("苹果价", "苹", 1)) == "mid"
    assert overlap_name(_pair("苹果价", "手", 1)) == "low"
    assert overlap_name(_pair("的", "手", 1)) is None


def test_quotients_have_no_value_over_nothing() -> None:
    found = Figure(-10.0, np.array([-5.0, 1.0])).over(Figure(20.0, np.array([10.0, 0.0])))
    assert found.value == -0.5
    assert found.samples[0] == -0.5 and np.isnan(found.samples[1])


# The whole probe


def run(made: ProbeContext, tmp_path: Path) -> ProbeResult:
    """Run the probe, and read its result back."""
    found = run_probe(probe_named("matching"), made)
    found.write(tmp_path / "matching.json")
    return ProbeResult.read(tmp_path / "matching.json")


def test_the_probe_on_a_planted_model(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(40)))
    found = run(context(planted, files=files), tmp_path)
    assert found.sets["named"] == (str(MATCHING),)
    assert found.sets["named_query_to_title"] + found.sets["named_title_to_query"] == (
        str(MATCHING),
    )
    assert found.sets["matching"][0] == str(MATCHING)
    assert found.findings[0].id == "matching_found"
    assert found.findings[0].verdict == "reproduced"
    assert found.settings["comes_back"]["named"] == {"share": 1.0, "chance": 1 / 8}
    assert {figure.name for figure in found.figures} == {
        "matching_scores",
        "matching_kinds",
        "matching_curve",
        "matching_by_grade",
        "matching_by_overlap",
        "matching_kept",
        "matching_cut",
    }


def test_claims_are_set_against_controls(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(40)))
    made = context(planted, files=files)
    done = study(made)
    assert done.contests is not None and done.changes is not None
    changes, out = done.changes, done.contests.out
    loss, p = changes.against(out.target, out.matched)
    values = changes.values([out.target, *out.matched])
    assert loss.value == pytest.approx(values[0] - values[1:].mean())
    assert p == pytest.approx((1 + (values[1:] <= values[0]).sum()) / (1 + len(out.matched)))
    base = changes.base
    assert base.value == pytest.approx(100 * (changes.effects.base("accuracy") or 0))
    kept, low = done.contests.kept, done.contests.low_off
    assert kept is not None and low is not None
    assert {head.layer for head in kept.target.heads} == {0}
    assert set(kept.target.heads) | set(done.low) == {Head(0, head) for head in range(4)}
    whole = Variant("low:off")
    assert low.name == whole.name and len(low.heads) == 4
    grades = by_grade(changes, out.target, out.matched)
    assert sum(one.n_pairs for one in grades) == len(done.pairs)
    weighted = sum((one.change or 0) * one.n_pairs for one in grades) / len(done.pairs)
    assert weighted == pytest.approx(changes.of(out.target).value)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("bert", {}),
        ("bert", {"labels": 1}),
        ("electra", {"layers": 4, "heads": 4}),
        ("xlm-roberta", {}),
        ("bert", {"layers": 1, "heads": 1}),
        ("bert", {"layers": 3, "heads": 1}),
    ],
)
def test_any_model_is_answered(
    family: str,
    options: dict[str, int],
    checkpoint_of: Callable[..., Path],
    context: Build,
    tmp_path: Path,
    few_draws: None,
) -> None:
    found = run(context(checkpoint_of(family, **options)), tmp_path)
    assert found.findings[0].id == "matching_found"
    assert 0 < found.settings["scored"]["discovery"]["coverage"] <= 1


def test_full_adds_the_louder_controls_and_means(
    context: Build, planted: Path, tmp_path: Path, few_draws: None
) -> None:
    files = PairFiles(pairs=write_pairs(tmp_path / "p.tsv", pairs_of(20)))
    found = run(context(planted, files=files, full=True), tmp_path)
    assert {"matching_loud", "matching_mean"} <= {one.id for one in found.findings}


def test_coarse_labels_and_texts_without_han_characters(
    context: Build, tmp_path: Path, few_draws: None
) -> None:
    rows = [("abc", "abd"), ("xyz", "zyw"), ("k9", "9k"), ("qrs", "qr1"), ("def", "fed")]
    path = tmp_path / "p.tsv"
    lines = [f"{q}{n}\t{t}{n}\t{n % 2}" for n, (q, t) in enumerate(rows * 3)]
    path.write_text("query\ttitle\tgrade\n" + "\n".join(lines) + "\n", encoding="utf-8")
    files = PairFiles(pairs=path, reader=ReaderOptions(grades="0=1-2,1=4-5"))
    found = run(context(files=files), tmp_path)
    assert found.settings["scored"]["discovery"]["coverage"] == 1


def test_pairs_that_share_nothing_leave_the_claims_open(
    context: Build, tmp_path: Path, few_draws: None
) -> None:
    path = tmp_path / "p.tsv"
    rows = [("北京", "手机", 1), ("上海", "苹果", 2), ("红烧", "电影", 3), ("排骨", "高铁", 5)]
    found = run(context(files=PairFiles(pairs=write_pairs(path, rows))), tmp_path)
    assert [one.verdict for one in found.findings] == ["inconclusive"]
    assert found.sets["matching"] == ()
    assert found.summary.en.startswith("No pair")


@pytest.mark.slow
def test_random_models_have_no_matching_heads(tmp_path: Path) -> None:
    """Of 20 models initialised as for pretraining, at most two have a head named."""
    from transformers import BertConfig, BertForSequenceClassification

    from tests.conftest import wordpiece

    pairs = [_pair(q, t, g) for q, t, g in pairs_of(30)]
    named = 0
    for seed in range(20):
        folder = tmp_path / str(seed)
        wordpiece(folder)
        size = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=size,
            hidden_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            intermediate_size=256,
            num_labels=5,
        )
        BertForSequenceClassification(config).save_pretrained(folder)
        found = score_heads(
            Scorer(open_checkpoint(folder)), pairs, segmenter("jieba"), [p.query for p in pairs]
        )
        named += bool(found.named())
    assert named <= 2
