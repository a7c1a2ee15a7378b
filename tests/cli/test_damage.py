"""Two hundred damaged files and folders: a command refuses them in a line, or gives the right numbers."""

import contextlib
import io
import json
import random
import shutil
import sys
import traceback
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from qt_bert.models.folder import write_manifest
from tests.conftest import PAIRS, make_checkpoint, write_pairs

DAMAGED = 200
VALUES = [None, True, -1, 0, 10**9, 1.5, "", "x", [], [None], {}, {"x": 1}]


def cut(path: Path, rng: random.Random) -> None:
    """A download or a copy that ended early."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


def flipped(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def zeroed(path: Path, rng: random.Random) -> None:
    """A disk's block lost."""
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content))
    end = min(len(content), start + rng.randrange(1, 4096))
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


def removed(path: Path, rng: random.Random) -> None:
    path.unlink()


def made_a_folder(path: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()


def another_value(path: Path, rng: random.Random) -> None:
    """One value of a JSON file, at any depth, is another or is gone; of other files a byte is."""
    if path.suffix != ".json":
        return flipped(path, rng)
    whole = json.loads(path.read_text(encoding="utf-8"))
    inside = whole
    while True:
        keys = list(inside) if isinstance(inside, dict) else range(len(inside))
        key = rng.choice(list(keys))
        if isinstance(inside[key], dict | list) and inside[key] and rng.random() < 0.8:
            inside = inside[key]
            continue
        if rng.random() < 0.2:
            del inside[key]
        else:
            inside[key] = rng.choice(VALUES)
        break
    path.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    return None


DAMAGES = (cut, flipped, zeroed, removed, made_a_folder, another_value, another_value)


@dataclass(frozen=True)
class Kind:
    """One kind of input: its files, the command that reads them, and what that must then say."""

    files: str
    command: str
    right: str = ""
    """A file that has its bytes of the undamaged run wherever the command succeeds."""


KINDS = (
    Kind("model/*", "score pairs.tsv --model model --out scored.tsv", right="scored.tsv"),
    Kind("bare/*", "score pairs.tsv --model bare --out scored.tsv"),
    Kind("onnx/*", "score pairs.tsv --model onnx/model.onnx --out scored.tsv", right="scored.tsv"),
    Kind("pairs.*", "evaluate --pairs {} --model model"),
    Kind("log.tsv", "compare log.tsv:score model --pairs pairs.tsv --gate gate.toml"),
    Kind("gate.toml", "compare log.tsv:score model --pairs pairs.tsv --gate gate.toml"),
    Kind("calibration.json", "score pairs.tsv --model model --calibration {} --out scored.tsv"),
    Kind("calibration.json", "evaluate --pairs pairs.tsv --model model --calibration {}"),
    Kind(
        "run/**/*",
        "report --model model --pairs pairs.tsv --only matching --out run --resume",
        right="run/probes/matching.json",
    ),
    Kind(
        "sweep/*",
        "sweep --model model --pairs pairs.tsv --masks layers --out sweep --resume",
        right="sweep/effects.csv",
    ),
    Kind(
        "plan/*.json", "prune --plan plan/frontier.json --shape layers=2 --model model --out small"
    ),
    Kind("model/heads.json", "explain 京东小哥 京东小哥最近在干嘛 --model model"),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder with one of every kind."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(
        make_checkpoint(folder / "bare", layers=3, heads=4, hidden=32), folder / "model"
    )
    write_manifest(folder / "model")
    pairs = [
        (f"{query}{copy}", title, grade) for copy in range(12) for query, title, grade in PAIRS
    ]
    table = pd.read_csv(write_pairs(folder / "pairs.tsv", pairs), sep="\t")
    table.to_csv(folder / "pairs.csv", index=False)
    table.to_json(folder / "pairs.jsonl", orient="records", lines=True, force_ascii=False)
    table.to_parquet(folder / "pairs.parquet")
    table.assign(score=np.linspace(-1, 1, len(table))).to_csv(
        folder / "log.tsv", sep="\t", index=False
    )
    (folder / "gate.toml").write_text("[metrics]\nspearman = 2.0\nndcg_at_5 = 0.5\n")
    for command in (
        "calibrate --model model --pairs pairs.tsv --out calibration.json",
        "report --model model --pairs pairs.tsv --only matching --out run --save-heads model/heads.json",
        "sweep --model model --pairs pairs.tsv --masks layers --out sweep",
        "plan --model model --pairs pairs.tsv --out plan",
        "export --onnx --model model --out onnx",
    ):
        status, err = called(folder, command)
        assert status == 0, err
    return folder


def called(folder: Path, command: str) -> tuple[int, str]:
    """Run a command in `folder`; its exit status and standard error."""
    from qt_bert.cli import main

    err = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(SystemExit) as ended,
    ):
        patch.setattr(sys, "argv", ["qt-bert", *command.split()])
        try:
            main()
        except Exception:
            traceback.print_exc()
            raise SystemExit(1) from None
        raise SystemExit(0)
    return int(ended.value.code or 0), err.getvalue()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "kind", KINDS, ids=[f"{kind.command.split()[0]}-{kind.files}" for kind in KINDS]
)
def test_what_is_damaged_is_refused_or_makes_no_difference(whole, tmp_path, kind):
    seed = f"{date.today()} {kind.command}"  # other damages each night
    rng = random.Random(seed)
    right, faults = b"", []
    for number in range(-1, DAMAGED // len(KINDS)):
        folder = shutil.copytree(whole, tmp_path / str(number))
        files = sorted(path for path in folder.glob(kind.files) if path.is_file())
        path, damage = rng.choice(files), rng.choice(DAMAGES)
        if number >= 0:
            damage(path, rng)
        status, err = called(folder, kind.command.format(path.relative_to(folder)))
        made = (folder / kind.right).read_bytes() if kind.right and status == 0 else b""
        if number < 0:
            assert status == 0, err
            right = made
        elif not fair(status, err, made == right):
            faults.append(f"{damage.__name__} {path.relative_to(folder)}: {status} {err}")
        shutil.rmtree(folder)
    assert not faults, "\n".join([seed, *faults])


def fair(status: int, err: str, same: bool) -> bool:
    """Whether a command succeeded with the right numbers, or refused its input in a line."""
    return same if status == 0 else status == 2 and err.splitlines()[-1].startswith("error: ")
