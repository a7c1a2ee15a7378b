"""From what a user asks for to pairs, parts, variants and mean head outputs."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from qt_bert.ablation.folder import read_means, write_means
from qt_bert.ablation.interventions import MeanZ
from qt_bert.ablation.masks import HeadMask, Reference, SegmentBlock
from qt_bert.ablation.reference import PlainModel
from qt_bert.ablation.request import (
    discovery_pairs,
    interventions_with,
    load_pairs_for_sweep,
    mean_z,
    reference_means,
    requested_variants,
)
from qt_bert.data.reader import ReaderOptions, read_pairs
from qt_bert.data.splits import half_of
from qt_bert.errors import ArgumentError, PairFileError, RunFolderError
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FIVE

SHAPE = Shape(3, 2)
MEANS = MeanZ("ab", torch.zeros(3, 2, 4))


def no_means() -> MeanZ:
    raise AssertionError("nobody asked for mean head outputs")


PART_OF = interventions_with(Reference(no_means, no_means))


def names(*requested: str, **options: int) -> list[str]:
    result = requested_variants(requested, SHAPE, "zero", PART_OF, **options)
    return [variant.name for variant in result]


def test_each_mode_makes_its_part():
    calls = []

    def means():
        calls.append(1)
        return MEANS

    part_of, heads = interventions_with(Reference(means, no_means)), (Head(1, 0),)
    assert part_of("zero", heads) == HeadMask(heads)
    assert part_of("uniform", heads) == HeadMask(heads, "uniform")
    assert part_of("block", heads) == SegmentBlock(heads)
    assert not calls
    assert part_of("mean", heads) == part_of("mean", heads) == HeadMask(heads, "mean", MEANS)
    assert len(calls) == 1
    with pytest.raises(
        ArgumentError, match="'off': choose from zero, uniform, mean, resample, block"
    ):
        part_of("off", heads)


def test_families_heads_and_files_come_in_the_order_asked(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("name,family,mode,heads,draw,seed\nmine,own,block,L0H1 L2H0,,\n")
    assert names("layers", "L0H0,L1H1", str(path)) == ["L0", "L1", "L2", "L0H0+L1H1", "mine"]
    (variant,) = requested_variants([str(path)], SHAPE, "zero", PART_OF)
    assert variant.parts == (SegmentBlock((Head(0, 1), Head(2, 0))),)


def test_draws_and_seed_reach_the_family():
    assert set(names("random", draws=2)) < set(names("random", draws=3))
    one, other = (
        requested_variants(["random"], SHAPE, "zero", PART_OF, draws=2, seed=seed)
        for seed in (0, 1)
    )
    assert [v.heads for v in one] != [v.heads for v in other]


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ("singles", "--masks 'singles': 'singles' is no head"),
        ("L9H0", "there is no head L9H0: the model has 3 layers"),
        ("", "no head is named"),
        ("L0H0 " * 2000 + "L0Hx", "'L0Hx' is no head"),
    ],
)
def test_what_is_no_mask_is_refused(requested, message):
    with pytest.raises(ArgumentError, match=message):
        names(requested)
    with pytest.raises(PairFileError, match="none.csv: cannot be read"):
        names("none.csv")


def test_a_file_without_grades_gives_pairs_without_labels(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("query\ttitle\n狗\t猫\n \t猫\n", encoding="utf-8")
    pairs, rejected = load_pairs_for_sweep(path, ReaderOptions(), FIVE)
    assert ([pair.grades for pair in pairs], rejected) == ([None], 1)
    with pytest.raises(PairFileError, match="grade"):
        load_pairs_for_sweep(path, ReaderOptions(grades="0=1,1=5"), FIVE)


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_a_row_without_its_grade_is_a_reject(tmp_path, suffix):
    path = tmp_path / f"p{suffix}"
    if suffix == ".tsv":
        path.write_text("query\ttitle\tgrade\n狗\t猫\t2\n狗\t追\t\n", encoding="utf-8")
    else:
        path.write_text('{"query":"狗","title":"猫","grade":2}\n{"query":"狗","title":"追"}\n')
    rejects = tmp_path / "rejects.tsv"
    pairs, rejected = load_pairs_for_sweep(path, ReaderOptions(), FIVE, rejects_path=rejects)
    assert ([pair.grades for pair in pairs], rejected) == ([(2,)], 1)
    assert "missing grade" in rejects.read_text(encoding="utf-8")


def test_discovery_pairs_are_those_of_that_half(pair_file, tmp_path):
    result = discovery_pairs(pair_file, ReaderOptions())
    assert {pair.query for pair in result} == {
        pair.query for pair in read_pairs(pair_file) if half_of(pair.query) == "discovery"
    }
    other = next(pair for pair in read_pairs(pair_file) if half_of(pair.query) == "validation")
    (tmp_path / "one.tsv").write_text(f"query\ttitle\n{other.query}\t猫\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match="--reference FILE"):
        discovery_pairs(tmp_path / "one.tsv", ReaderOptions())


# Mean head outputs, and their file.


TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("京东小哥", "小"), ("狗", "猫追狗" * 9)]


def batches(checkpoint: Checkpoint, budget: int = 512) -> list[Batch]:
    return list(batches_of(checkpoint.pair_tokenizer().encode(TEXTS), budget, pad=checkpoint.pad))


@torch.no_grad()
def hooked_means(checkpoint: Checkpoint) -> torch.Tensor:
    """Averages of what reaches W_O, one unpadded pair at a time, in float64."""
    plain = PlainModel(checkpoint.model, checkpoint.family)
    runs = [plain.plain(batch).record() for batch in batches(checkpoint, 1)]
    layers = range(checkpoint.layers)
    tokens = [torch.cat([run.z(layer, 0) for run in runs], 1).double() for layer in layers]
    return torch.stack([z.mean(1) for z in tokens])


@pytest.mark.parametrize("family", ["bert", "electra", "xlm-roberta"])
@pytest.mark.parametrize("budget", [1, 512])
def test_every_real_token_weighs_alike(checkpoint_of, family, budget):
    checkpoint = open_checkpoint(checkpoint_of(family, layers=3, heads=4))
    made = batches(checkpoint, budget)
    assert any(batch.mask is not None for batch in made) == (budget > 1)
    means, exact = mean_z(checkpoint.encoder(), made), hooked_means(checkpoint)
    assert means.vectors.dtype == torch.float32 and means.vectors.shape == (3, 4, 4)
    torch.testing.assert_close(means.vectors.double(), exact, atol=1e-6, rtol=1e-5)


def test_bfloat16_is_averaged_in_wider_numbers(checkpoint_of):
    exact, short = (open_checkpoint(checkpoint_of(), dtype=d) for d in ("float32", "bfloat16"))
    means = mean_z(short.encoder(), batches(short))
    assert means.vectors.dtype == torch.float32
    torch.testing.assert_close(means.vectors.double(), hooked_means(exact), atol=0.05, rtol=0)


def test_means_of_no_pair_and_of_a_scorer(checkpoint_of, pair_file):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    with pytest.raises(ArgumentError, match="at least one pair"):
        mean_z(scorer.encoder, [])
    means = reference_means(scorer, read_pairs(pair_file))
    assert means.vectors.shape == (2, 2, 8) and scorer.counts.pairs == 0


def test_what_is_written_is_read_again_and_a_flipped_bit_is_noticed(checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of())
    made, path = batches(checkpoint, 1), tmp_path / "means.safetensors"
    means = mean_z(checkpoint.encoder(), made)
    assert means != mean_z(checkpoint.encoder(), made[:1])
    write_means(path, means)
    read = read_means(path)
    assert read == means and torch.equal(read.vectors, means.vectors)
    assert [file.name for file in tmp_path.iterdir()] == ["means.safetensors"]
    damaged = np.frombuffer(path.read_bytes(), np.uint8).copy()
    damaged[-1] ^= 1
    path.write_bytes(damaged.tobytes())
    with pytest.raises(RunFolderError, match="damaged"):
        read_means(path)


def test_a_file_that_holds_no_means_is_refused(tmp_path):
    (tmp_path / "text").write_text("no tensors")
    save_file({"other": torch.zeros(2)}, tmp_path / "other")
    for name in ("gone", "text", "other"):
        with pytest.raises(RunFolderError, match=f"{name}: no mean head outputs"):
            read_means(tmp_path / name)
