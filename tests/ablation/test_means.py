"""Mean head outputs against hooks on the Hugging Face model, pair by pair; their file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from qt_bert.ablation.request import mean_z, read_means, write_means
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.checkpoint import Checkpoint, open_checkpoint
from qt_bert.models.forward import Encoder

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("京东小哥", "小"), ("狗", "猫追狗" * 9)]


def batches(checkpoint: Checkpoint, budget: int) -> list[Batch]:
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    return list(batches_of(encoded, budget, pad=checkpoint.tokenizer.pad_token_id))


def hooked_means(checkpoint: Checkpoint) -> torch.Tensor:
    """Averages of what reaches W_O, one unpadded pair at a time, in float64."""
    tokens: dict[int, list[torch.Tensor]] = {}
    backbone = getattr(checkpoint.model, checkpoint.family.backbone)
    for number, layer in enumerate(backbone.encoder.layer):
        layer.attention.output.dense.register_forward_pre_hook(
            lambda _, inputs, number=number: tokens.setdefault(number, []).append(inputs[0][0])
        )
    with torch.no_grad():
        for query, title in TEXTS:
            checkpoint.model(**checkpoint.tokenizer(query, title, return_tensors="pt"))
    means = [torch.cat(tokens[layer]).double().mean(0) for layer in sorted(tokens)]
    return torch.stack(means).unflatten(1, (checkpoint.heads, -1))


@pytest.mark.parametrize("family", ["bert", "electra", "xlm-roberta"])
@pytest.mark.parametrize("budget", [1, 512])
def test_every_real_token_weighs_alike(
    checkpoint_of: Callable[..., Path], family: str, budget: int
) -> None:
    checkpoint = open_checkpoint(checkpoint_of(family, layers=3, heads=4))
    made = batches(checkpoint, budget)
    assert any(batch.mask is not None for batch in made) == (budget > 1)
    means = mean_z(Encoder(checkpoint.model, checkpoint.family), made)
    assert means.vectors.dtype == torch.float32 and means.vectors.shape == (3, 4, 4)
    torch.testing.assert_close(
        means.vectors.double(), hooked_means(checkpoint), atol=1e-6, rtol=1e-5
    )


def test_no_pair_has_no_mean(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    with pytest.raises(ArgumentError, match="at least one pair"):
        mean_z(Encoder(checkpoint.model, checkpoint.family), [])


def test_bfloat16_is_averaged_in_wider_numbers(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of(), dtype="bfloat16")
    encoder = Encoder(checkpoint.model, checkpoint.family)
    means = mean_z(encoder, batches(checkpoint, 512))
    assert means.vectors.dtype == torch.float32
    exact = hooked_means(open_checkpoint(checkpoint_of()))
    torch.testing.assert_close(means.vectors.double(), exact, atol=0.05, rtol=0)


def test_what_is_written_is_read_again(checkpoint_of: Callable[..., Path], tmp_path: Path) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    encoder = Encoder(checkpoint.model, checkpoint.family)
    means = mean_z(encoder, batches(checkpoint, 512))
    write_means(tmp_path / "means.safetensors", means)
    read = read_means(tmp_path / "means.safetensors")
    assert read == means and torch.equal(read.vectors, means.vectors)
    assert [file.name for file in tmp_path.iterdir()] == ["means.safetensors"]


def test_other_vectors_have_another_hash(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    encoder = Encoder(checkpoint.model, checkpoint.family)
    made = batches(checkpoint, 1)
    assert mean_z(encoder, made) == mean_z(encoder, made)
    assert mean_z(encoder, made) != mean_z(encoder, made[:1])


def test_a_file_that_holds_no_means_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"gone\.safetensors: no mean head outputs"):
        read_means(tmp_path / "gone.safetensors")
    (tmp_path / "text").write_text("no tensors")
    with pytest.raises(RunFolderError, match="no mean head outputs"):
        read_means(tmp_path / "text")
    save_file({"other": torch.zeros(2)}, tmp_path / "other")
    with pytest.raises(RunFolderError, match="no mean head outputs"):
        read_means(tmp_path / "other")


def test_a_flipped_bit_is_noticed(checkpoint_of: Callable[..., Path], tmp_path: Path) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    encoder = Encoder(checkpoint.model, checkpoint.family)
    path = tmp_path / "means.safetensors"
    write_means(path, mean_z(encoder, batches(checkpoint, 512)))
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(RunFolderError, match="damaged"):
        read_means(path)
