"""Commands killed at random moments end in the same bytes as undisturbed runs."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.common.command import QT_BERT
from qt_bert.models.opening import open_checkpoint
from qt_bert.results.kept import KeptLayer
from tests.conftest import PAIRS, write_pairs
from tests.planning.conftest import plan_by_hand

KNOWN = "北京到上海高铁票价怎么去除衣服油渍"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def start(*arguments: str | Path) -> subprocess.Popen[bytes]:
    command = [*QT_BERT, *map(str, arguments)]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=ENVIRONMENT, **streams)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err.decode()


def kill_at(arguments: list[str | Path], state: Path, delay: float) -> bool:
    """Start, wait until `state` was written anew, then `delay` seconds, then SIGKILL.

    Returns False where the run had ended by itself.
    """
    before = _stamp(state)
    process = start(*arguments)
    while process.poll() is None and _stamp(state) in (before, 0):
        time.sleep(0.005)
    time.sleep(delay)
    return kill(process)


def kill(process: subprocess.Popen[bytes]) -> bool:
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def kill_and_resume(arguments: list[str | Path], state: Path, kills: int, seed: int) -> None:
    """Kill once at any moment of the start, then at random moments of the work; then let it end."""
    rng = random.Random(seed)
    process = start(*arguments)
    time.sleep(rng.uniform(0.5, 4))
    assert kill(process)
    for _ in range(kills - 1):
        assert kill_at([*arguments, "--resume"], state, rng.uniform(0, 0.2)), "ended too early"
    finish(start(*arguments, "--resume"))
    finish(start(*arguments, "--resume"))  # asked again, a finished run says so and stays


@pytest.fixture
def training_file(tmp_path) -> Path:
    rng = random.Random(0)
    texts = [["".join(rng.choices(KNOWN, k=k)) for k in (6, 9)] for _ in range(60)]
    rows = ((f"{text}{i}", other, 1 + i % 5) for i, (text, other) in enumerate(texts))
    return write_pairs(tmp_path / "train.tsv", rows)


def train_arguments(base: Path, file: Path, out: Path, epochs: int = 12) -> list[str | Path]:
    recipe = file.with_name("recipe.toml")
    recipe.write_text(
        f'[[pairs]]\nfile = "{file.name}"\n\n[settings]\nepochs = {epochs}\nlr = 1e-3\nslots = 96\n'
        "save_every = 1\npatience = 0\ncompile = false\n\n[job]\nmax_length = 48\n",
        encoding="utf-8",
    )
    return ["train", "--recipe", recipe, "--data", file.parent, "--base", base, "--out", out]


def check(
    arguments: Callable[[Path], list[str | Path]], tmp_path: Path, kills: int, seed: int, *more: str
) -> None:
    """A run that was killed ends in the same bytes as one that was not."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(start(*arguments(whole)))
    state = tmp_path / "killed.training" / "state.safetensors"
    kill_and_resume(arguments(killed), state, kills, seed)
    for name in ("model.safetensors", "training.json", *more):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name


MORE = pytest.param(10, 2, marks=pytest.mark.nightly)


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "seed"), [(3, 1), MORE])
def test_train_survives_kills(checkpoint_of, training_file, tmp_path, kills, seed):
    base = checkpoint_of("bert", layers=2, hidden=32)
    arguments = partial(train_arguments, base, training_file, epochs=4 * kills)
    check(arguments, tmp_path, kills, seed, "training_log.jsonl", "qt_bert.json")


@pytest.mark.nightly
def test_distill_survives_kills(checkpoint_of, training_file, tmp_path):
    teacher = checkpoint_of("bert", layers=3, heads=4, hidden=32)
    kept = (KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=1, heads=()))
    plan = tmp_path / "plan.json"
    plan_by_hand(open_checkpoint(teacher), kept).write(plan)

    def arguments(out):
        options = train_arguments(teacher, training_file, out)[1:]
        options[options.index("--base")] = "--model"
        return ["distill", "--plan", plan, "--unlabelled", training_file, *options, "--steps", "40"]

    check(arguments, tmp_path, 2, 4, "training_log.jsonl", "kept.json")


@pytest.mark.nightly
def test_pretrain_survives_kills(checkpoint_of, tmp_path):
    rng = random.Random(3)
    lines = ("".join(rng.choices(KNOWN, k=12)) for _ in range(3000))
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    recipe = tmp_path / "pretrain.toml"
    recipe.write_text(
        'text = ["text.txt"]\n[settings]\nsteps = 200\nwarmup = 5\nsave_every = 1\nlog_every = 5\n'
        "compile = false\n[settings.shape]\nslots = 256\nshort = 16\nlong = 32\n"
    )
    asked = ["pretrain", "--recipe", recipe, "--data", tmp_path, "--init", checkpoint_of()]
    asked += ["--layers", "2", "--heads", "2", "--hidden", "16", "--out"]
    check(lambda out: [*asked, out], tmp_path, 5, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "seed"), [(2, 1), MORE])
def test_score_survives_kills(checkpoint_of, tmp_path, kills, seed):
    model, rng = checkpoint_of(layers=1), random.Random(seed)
    rows = (("京东小哥", "狗追猫" * rng.randint(1, 9)) for _ in range(25_000 * kills))
    pairs = write_pairs(tmp_path / "many.tsv", [("", "没有查询"), *rows])
    whole, killed = tmp_path / "whole.tsv", tmp_path / "killed.tsv"
    finish(start("score", pairs, "--model", model, "--out", whole))
    state = tmp_path / ".killed.tsv.progress.json"
    kill_and_resume(["score", pairs, "--model", model, "--out", killed], state, kills, seed)
    assert killed.read_bytes() == whole.read_bytes()
    assert [*tmp_path.glob("*.rejects.tsv")] and not [*tmp_path.glob(".*.tmp")]


@pytest.mark.slow
def test_a_run_that_replaces_a_finished_one_goes_on_too(checkpoint_of, training_file, tmp_path):
    base = checkpoint_of("bert", layers=2, hidden=32)
    out = tmp_path / "model"
    arguments = train_arguments(base, training_file, out)
    finish(start(*arguments))
    first = (out / "model.safetensors").read_bytes()
    state = tmp_path / "model.training" / "state.safetensors"
    assert kill_at([*arguments, "--seed", "7", "--overwrite"], state, 0.1)
    assert (out / "model.safetensors").read_bytes() == first
    finish(start(*arguments, "--seed", "7", "--resume"))
    assert (out / "model.safetensors").read_bytes() != first


# The commands that run a model many times: which stage a kill meets depends on the moment alone.


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("report --only redundancy,matching,behaviour,plan --base {base}", "probes/*.json"),
        ("probe ladder", "probes/*.json"),
        ("sweep --masks single --masks layers --masks halves", "*.csv"),
        ("plan --pairs-to-train {train} --trial 20", "sweeps/**/logits.npy"),
    ],
    ids=["report", "probe", "sweep", "plan"],
)
def test_a_command_survives_kills(checkpoint_of, training_file, tmp_path, command, files):
    size = {"layers": 3, "heads": 4, "hidden": 32}
    command = command.format(base=checkpoint_of(seed=1, **size), train=training_file)
    pairs = write_pairs(
        tmp_path / "pairs.tsv", [(f"{q}{copy}", t, g) for copy in range(30) for q, t, g in PAIRS]
    )
    asked = [*command.split(), "--model", checkpoint_of(**size), "--pairs", pairs, "--out"]
    rng = random.Random(command)
    before, killed = time.monotonic(), 0
    finish(start(*asked, tmp_path / "whole"))
    took = time.monotonic() - before
    for number in range(10):
        process = start(*asked, tmp_path / "killed", *(["--resume"] if number else []))
        time.sleep(rng.uniform(0.1, 0.7) * took)  # the machine may be faster than it was
        if not kill(process):
            break
        killed += 1
    finish(start(*asked, tmp_path / "killed", "--resume"))
    names = {path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").glob(files)}
    assert killed and names
    for name in names:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
