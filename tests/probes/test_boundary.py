"""The probe of word boundaries: a planted head, random ones, other families, texts without any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.segmenters import SpanSegmenter
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.base import Context, run_probe
from qt_bert.probes.registry import probe_named
from qt_bert.probes.split import PairFiles
from qt_bert.results.probe import ProbeResult, SourcedClaim
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

COARSE = "0=1-3,1=4-5"
Run = Callable[..., ProbeResult]


@pytest.fixture
def made_pairs(tmp_path: Path) -> Path:
    """Pairs of characters in random order, of eighty queries."""
    return write_pairs(tmp_path / "pairs.tsv", queries=80, titles=1)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the probe on a folder and pairs; `cut` stands in for jieba, by default the table."""

    def call(
        model: Path,
        pairs: Path,
        *,
        cut: Any = spans_of,
        grades: str | None = None,
        discovery: Path | None = None,
        max_length: int | None = None,
        **options: Any,
    ) -> ProbeResult:
        context = Context(
            label="boundary",
            files=PairFiles(pairs=pairs, discovery=discovery, reader=ReaderOptions(grades=grades)),
            work=tmp_path / "work" / model.name,
            open_model=lambda: Scorer(open_checkpoint(model), max_length=max_length),
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
def planted(tmp_path: Path, checkpoint_of: Callable[..., Path]) -> Path:
    return plant_word_ends(tmp_path / "planted", checkpoint_of(), ENDS)


def values(found: ProbeResult) -> dict[str, float | None]:
    return {one.id: one.value for one in found.measurements}


def claim(found: ProbeResult) -> SourcedClaim:
    (one,) = found.claims
    assert one.id == "boundary.beyond_characters"
    return one


def test_the_planted_head_is_named_and_no_other(run: Run, planted: Path, made_pairs: Path) -> None:
    found = run(planted, made_pairs)
    assert found.sets["boundary"] == (PLANTED,)
    assert [one.head for one in found.heads if one.selected] == [PLANTED]
    assert found.facts["rule_head"] == found.facts["head"] == PLANTED
    measured = values(found)
    for name in ("rule_accuracy", "head_accuracy", "head_balanced", "head_word_f1", "union"):
        assert measured[name] == pytest.approx(1.0)
    assert (measured["characters_accuracy"] or 0) > 0.9
    assert 0.4 < (measured["majority_accuracy"] or 0) < 0.7
    assert 0.5 < (measured["random_balanced"] or 0) < 0.8
    assert "pretrained_balanced" not in measured
    stable = found.stability["boundary"]
    assert (stable.overlap, stable.halves) == (1.0, 1.0)
    assert [(one.source.en, one.overlap) for one in stable.sources] == [("validation", 1.0)]
    assert [one.name for one in found.figures] == [
        "heads",
        "rule",
        "answers",
        "models",
        "union",
        "texts",
    ]


def test_a_head_that_knows_less_than_the_characters_is_not_beyond_them(
    run: Run, tmp_path: Path, checkpoint_of: Callable[..., Path], made_pairs: Path
) -> None:
    """In the table a character alone says whether a word ends; the head misses some of them."""
    few = plant_word_ends(tmp_path / "few", checkpoint_of(), set(sorted(ENDS)[6:]))
    one = claim(run(few, made_pairs))
    assert one.verdict == "not reproduced" and one.n_queries >= 20
    assert one.ci_high is not None and one.ci_high < one.margin == 2.0


def test_a_head_that_says_what_the_characters_say_is_not_told_from_them(
    run: Run, planted: Path, made_pairs: Path
) -> None:
    one = claim(run(planted, made_pairs))
    assert (one.verdict, one.reason, one.value) == ("not testable", "zero_width", 0.0)


def test_on_characters_that_were_never_seen_the_head_is_beyond_them(
    run: Run, planted: Path, tmp_path: Path
) -> None:
    known = write_pairs(tmp_path / "dev.tsv", queries=40, titles=1, characters=HAN[:24])
    other = write_pairs(tmp_path / "test.tsv", queries=40, titles=1, characters=HAN[24:])
    found = run(planted, other, discovery=known)
    one = claim(found)
    assert one.verdict == "reproduced" and one.ci_low is not None and one.ci_low > 20
    measured = values(found)
    gap = 100 * ((measured["rule_accuracy"] or 0) - (measured["characters_accuracy"] or 0))
    assert one.value == pytest.approx(gap)


def test_with_a_base_pretraining_is_measured(run: Run, planted: Path, made_pairs: Path) -> None:
    found = run(planted, made_pairs, base=planted)
    assert values(found)["pretrained_balanced"] == values(found)["head_balanced"]
    (bars,) = [one for one in found.figures if one.name == "models"]
    names = [getattr(label, "en", label) for label in bars.categories]  # type: ignore[union-attr]
    assert names == ["tuned", "pretrained", "random weights"]


def test_another_seed_is_asked_for_the_same_heads(
    run: Run, planted: Path, made_pairs: Path, tmp_path: Path
) -> None:
    found = run(planted, made_pairs, second=tuned_again(planted, tmp_path / "second"))
    sources = found.stability["boundary"].sources
    assert [(one.source.en, one.overlap) for one in sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]


def test_a_gold_file_is_a_second_reference(
    run: Run, planted: Path, made_pairs: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    lines = [words_of("".join(rng.choice(list(HAN), 12))) for _ in range(30)]
    gold = tmp_path / "gold.txt"
    gold.write_text("".join(" ".join(words) + "\n" for words in lines), encoding="utf-8")
    measured = values(run(planted, made_pairs, gold=gold))
    assert measured["gold_rule_accuracy"] == measured["gold_head_word_f1"] == 1.0
    assert 0.5 < (measured["gold_characters_accuracy"] or 0) <= 1


@pytest.mark.parametrize(
    ("family", "options"),
    [("bert", {"labels": 1}), ("xlm-roberta", {}), ("electra", {"layers": 4, "heads": 4})],
)
def test_other_families_shapes_and_one_logit(
    run: Run,
    checkpoint_of: Callable[..., Path],
    made_pairs: Path,
    family: str,
    options: dict[str, int],
) -> None:
    found = run(checkpoint_of(family, **options), made_pairs, cut=None)
    assert found.facts["decisions"] > 100 and 0.5 < found.facts["coverage"] <= 1
    assert claim(found).verdict in ("not reproduced", "inconclusive")


def test_a_one_logit_model_with_a_planted_head(
    run: Run, tmp_path: Path, checkpoint_of: Callable[..., Path], made_pairs: Path
) -> None:
    model = plant_word_ends(tmp_path / "planted", checkpoint_of(), ENDS, labels=1)
    assert run(model, made_pairs).sets["boundary"] == (PLANTED,)


def test_coarse_labels_change_nothing(
    run: Run, planted: Path, tmp_path: Path, made_pairs: Path
) -> None:
    found = run(planted, coarsened(made_pairs, tmp_path / "coarse.tsv"), grades=COARSE)
    assert values(found)["rule_accuracy"] == pytest.approx(1.0)


def test_labels_of_one_kind_leave_no_nan_in_the_texts(
    run: Run, planted: Path, made_pairs: Path
) -> None:
    found = run(planted, made_pairs, cut=lambda text: [(at, at + 1) for at in range(len(text))])
    assert "nan" not in found.summary.zh and "nan" not in found.summary.en
    assert values(found)["head_balanced"] is None and found.sets["boundary"] == ()


def test_a_segmenter_whose_words_overlap_is_not_the_reference(
    run: Run, planted: Path, made_pairs: Path
) -> None:
    """Its finest reading ends a word wherever any word ends: jieba's partition stands in."""
    overlapping = run(planted, made_pairs, cut=None, segmenter_name="jieba-search")
    plain = run(planted, made_pairs, cut=None)
    assert overlapping.settings["segmenter"] == "jieba-search"
    assert values(overlapping) == values(plain)


def test_the_picture_cuts_where_its_colours_are_above_zero(
    run: Run, planted: Path, made_pairs: Path
) -> None:
    [picture] = [one for one in run(planted, made_pairs).figures if one.name == "texts"]
    lines = picture.lines  # type: ignore[union-attr]
    assert {line.name for line in lines[1::2]} == {PLANTED}
    assert {getattr(line.name, "en", "") for line in lines[::2]} == {"segmenter"}
    assert all(line.tokens[-1].value is None for line in lines[1::2])
    inner = [token for line in lines[1::2] for token in line.tokens[:-1]]
    assert {token.value > 0 for token in inner} == {True, False}
    assert all((token.value > 0) == token.ends_word for token in inner)


def test_quick_takes_two_pairs_of_a_query_and_full_all(
    run: Run, planted: Path, tmp_path: Path
) -> None:
    pairs = write_pairs(tmp_path / "many.tsv", queries=40, titles=4)
    sizes = {
        full: run(planted, pairs, full=full).settings["texts"]["validation"]["pairs"]
        for full in (False, True)
    }
    # A query's text is read in its first pair: two titles a query, or all four.
    assert 0 < 2 * sizes[False] == sizes[True]


def test_too_few_characters_of_their_own_test_nothing(
    run: Run, planted: Path, made_pairs: Path
) -> None:
    found = run(planted, made_pairs, max_length=9)
    assert found.facts["coverage"] < 0.5
    assert (claim(found).verdict, claim(found).reason) == ("not testable", "coverage")
    assert values(found)["rule_accuracy"] is not None


def test_texts_without_chinese_say_so(
    run: Run, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "latin.tsv"
    rows = "".join(f"phone {n}\tcheap phone {n}\t{n % 5 + 1}\n" for n in range(12))
    path.write_text("query\ttitle\tgrade\n" + rows, encoding="utf-8")
    found = run(checkpoint_of(), path, cut=None)
    assert "no neighbouring" in found.summary.en and found.measurements == ()
    assert found.sets == {} and found.heads == ()
    assert (claim(found).verdict, claim(found).reason) == ("not testable", "no_characters")


@pytest.mark.slow
def test_random_models_have_no_boundary_heads(
    tmp_path: Path, run: Run, checkpoint_of: Callable[..., Path], made_pairs: Path
) -> None:
    naming = 0
    for seed in range(20):
        folder = untrained(checkpoint_of(), tmp_path / f"random{seed}", seed)
        naming += bool(run(folder, made_pairs, cut=None).sets["boundary"])
    assert naming <= 2
