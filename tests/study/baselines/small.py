"""A table of tiny models on a few made pairs, by the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CHARACTERS = list(
    "北京到上海高铁票价时刻表查询怎么去除衣服上的油渍沾了洗掉红烧排骨家常做法苹果手机多少钱一斤"
)


def texts(count: int, seed: int, length: int = 10) -> list[str]:
    """Made texts of known characters, all different."""
    rng = np.random.default_rng(seed)
    return [f"{i}{''.join(rng.choice(CHARACTERS, length))}" for i in range(count)]


def graded(path: Path, count: int, seed: int) -> Path:
    """Pairs of two titles a query: a title shares as many characters with its query as its grade says."""
    rng, rows = np.random.default_rng(seed), []
    for query in texts(count, seed):
        for grade in (int(rng.integers(1, 4)), int(rng.integers(4, 6))):
            title = query[: 2 * grade] + "".join(rng.choice(CHARACTERS, 6))
            rows.append(f"{query}\t{title}\t{grade}\n")
    path.write_text("query\ttitle\tgrade\n" + "".join(rows), encoding="utf-8")
    return path


RECIPE = """
[job]
max_length = 48
stop_on = "spearman"
[settings]
max_steps = 3
slots = 256
evaluations = 1
compile = false
dtype = "float32"
save_every = 1
[trials]
rates = [1e-3, 3e-3]
steps = 2
[models.lstm-attention]
slots = 300
[dev]
file = "dev.tsv"
[[pairs]]
file = "train.tsv"
[pretraining]
text = ["text.txt"]
[pretraining.settings]
steps = 4
lr = 1e-3
warmup = 1
compile = false
dtype = "float32"
save_every = 1
log_every = 2
shape = {slots = 256, short = 16, long = 48}
grown = {layers = 1, steps = 3}
[pretraining.models.words]
steps = 3
[[pretraining.pairs]]
file = "train.tsv"
"""


def write_data(folder: Path) -> Path:
    """A recipe with its data, and `test.tsv` to judge on."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, seed in (("train", 40, 100), ("dev", 15, 200), ("test", 40, 300)):
        graded(folder / f"{name}.tsv", count, seed)
    (folder / "text.txt").write_text("\n".join(texts(400, 400, 24)), encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    return folder


def command(data: Path, base: Path, out: Path, *more: str) -> list[str]:
    """The arguments of the command."""
    return [
        "baselines",
        *("--recipe", str(data / "recipe.toml"), "--data", str(data), "--base", str(base)),
        *("--pairs", str(data / "test.tsv")),
        *("--layers", "2", "--heads", "2", "--hidden", "16", "--words", "60"),
        *("--out", str(out), *more),
    ]
