"""From what a user asks for to pairs, parts and variants."""

from __future__ import annotations

import pytest
import torch

from qt_bert.ablation.interventions import MeanZ
from qt_bert.ablation.masks import HeadMask, SegmentBlock
from qt_bert.ablation.request import (
    discovery_pairs,
    interventions_with,
    load_pairs_for_sweep,
    reference_means,
    variants_asked,
)
from qt_bert.data.pairs import GRADES
from qt_bert.data.reader import ReaderOptions, read_pairs
from qt_bert.data.splits import half_of
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head, Shape
from qt_bert.scoring.bulk import Scorer

SHAPE = Shape(3, 2)
GRADED = ModelLabels(5, tuple((grade,) for grade in GRADES))
MEANS = MeanZ("ab", torch.zeros(3, 2, 4))


def no_means() -> MeanZ:
    raise AssertionError("nobody asked for mean head outputs")


def names(*asked: str, mode: str = "zero", **options: int) -> list[str]:
    found = variants_asked(asked, SHAPE, mode, interventions_with(no_means), **options)
    return [variant.name for variant in found]


def test_each_mode_makes_its_part():
    calls = []

    def means() -> MeanZ:
        calls.append(1)
        return MEANS

    part_of, heads = interventions_with(means), (Head(1, 0),)
    assert part_of("zero", heads) == HeadMask(heads)
    assert part_of("uniform", heads) == HeadMask(heads, "uniform")
    assert part_of("block", heads) == SegmentBlock(heads)
    assert not calls
    assert part_of("mean", heads) == part_of("mean", heads) == HeadMask(heads, "mean", MEANS)
    assert len(calls) == 1


def test_an_unknown_mode_names_the_known_ones():
    with pytest.raises(ArgumentError, match="'off': choose from zero, uniform, mean, block"):
        interventions_with(no_means)("off", [Head(0, 0)])


def test_families_heads_and_files_come_in_the_order_asked(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("name,family,mode,heads,draw,seed\nmine,own,block,L0H1 L2H0,,\n")
    assert names("layers", "L0H0,L1H1", str(path)) == ["L0", "L1", "L2", "L0H0+L1H1", "mine"]
    (variant,) = variants_asked([str(path)], SHAPE, "zero", interventions_with(no_means))
    assert variant.parts == (SegmentBlock((Head(0, 1), Head(2, 0))),)


def test_draws_and_seed_reach_the_family():
    few, more = names("random", draws=2), names("random", draws=3)
    assert set(few) < set(more)
    drawn = [
        variants_asked(["random"], SHAPE, "zero", interventions_with(no_means), draws=2, seed=seed)
        for seed in (0, 1)
    ]
    assert [v.heads for v in drawn[0]] != [v.heads for v in drawn[1]]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("singles", "--masks 'singles': 'singles' is no head"),
        ("L9H0", "there is no head L9H0: the model has 3 layers"),
        ("", "no head is named"),
        ("none.csv", "none.csv cannot be read"),
        ("L0H0 " * 2000 + "L0Hx", "'L0Hx' is no head"),
    ],
)
def test_what_is_no_mask_is_refused(asked, said):
    with pytest.raises(ArgumentError, match=said):
        names(asked)


def test_a_file_without_grades_gives_pairs_without_labels(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("query\ttitle\n狗\t猫\n \t猫\n", encoding="utf-8")
    pairs, rejected = load_pairs_for_sweep(path, ReaderOptions(), GRADED)
    assert ([pair.grades for pair in pairs], rejected) == ([None], 1)


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_a_row_without_its_grade_is_a_reject(tmp_path, suffix):
    path = tmp_path / f"p{suffix}"
    if suffix == ".tsv":
        path.write_text("query\ttitle\tgrade\n狗\t猫\t2\n狗\t追\t\n", encoding="utf-8")
    else:
        path.write_text('{"query":"狗","title":"猫","grade":2}\n{"query":"狗","title":"追"}\n')
    rejects = tmp_path / "rejects.tsv"
    pairs, rejected = load_pairs_for_sweep(path, ReaderOptions(), GRADED, rejects_path=rejects)
    assert ([pair.grades for pair in pairs], rejected) == ([(2,)], 1)
    assert "missing grade" in rejects.read_text(encoding="utf-8")


def test_meanings_of_labels_that_are_not_there_are_no_silent_nothing(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("query\ttitle\n狗\t猫\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="grade"):
        load_pairs_for_sweep(path, ReaderOptions(grades="0=1,1=5"), GRADED)


def test_discovery_pairs_are_those_of_that_half(pair_file, tmp_path):
    found = discovery_pairs(pair_file, ReaderOptions())
    assert {pair.query for pair in found} == {
        pair.query for pair in read_pairs(pair_file) if half_of(pair.query) == "discovery"
    }
    other = next(pair for pair in read_pairs(pair_file) if half_of(pair.query) == "validation")
    (tmp_path / "one.tsv").write_text(f"query\ttitle\n{other.query}\t猫\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match="--reference FILE"):
        discovery_pairs(tmp_path / "one.tsv", ReaderOptions())


def test_reference_means_count_for_nobody(checkpoint_of, pair_file):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    means = reference_means(scorer, read_pairs(pair_file))
    assert means.vectors.shape == (2, 2, 8) and scorer.counts.pairs == 0
