"""Tiny checkpoints of every family, made at random once a session, and a small pair file."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# A background job of a shell starts deaf to Ctrl-C, and so do the commands that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# No test is timed: a busy machine is slow now and then.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

FAMILIES = (
    "bert",
    "ernie",
    "roberta",
    "xlm-roberta",
    "electra",
    "gte",
    "modernbert",
    "qwen2",
    "qwen3",
    "deberta-v2",
)
LEARNED = ("bert", "ernie", "roberta", "xlm-roberta", "electra")
"""Those whose positions are added to the embeddings."""
GROUPED = ("qwen2", "qwen3")
"""Those whose heads share keys and values."""
CHARACTERS = (
    "北京到上海高铁票价时刻表查询怎么去除衣服上的油渍沾了洗掉红烧排骨家常做法小哥最近在干嘛"
    "我伊朗长大假期电影苹果手机多少钱一斤狗追猫先后能吃不开通关闭0123456789abcdefghijklmnopqrstuvwxyz"
)


def wordpiece(folder: Path) -> None:
    """Save a character WordPiece tokenizer that BERT, ERNIE, ELECTRA and RoBERTa tests share."""
    from benchmarks.make_models import wordpiece as of_characters

    characters = sorted(set(CHARACTERS))
    of_characters(folder, [*characters, *(f"##{c}" for c in characters)], 0)


def sentencepiece(folder: Path) -> None:
    """Save an XLM-R style Unigram tokenizer: `<s> q </s></s> t </s>`, pad id 1."""
    from benchmarks.make_models import sentencepiece as of_characters

    of_characters(folder, sorted(set(CHARACTERS)))


def byte_level(folder: Path) -> None:
    """Save a byte-level BPE tokenizer without special tokens in a pair, as Qwen has it, trained on a line."""
    from benchmarks.make_models import byte_level as trained_on

    trained_on(folder, [CHARACTERS, "yes", "no", "高铁票价 高铁票价 上海 上海"], 420)


TOKENIZERS = {
    "xlm-roberta": sentencepiece,
    "gte": sentencepiece,
    "qwen2": byte_level,
    "qwen3": byte_level,
}
OWN = {
    "gte": {"type_vocab_size": 1},
    # Half a window of four tokens: the tests' texts are longer.
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "qwen2": {"num_key_value_heads": 1},
    "qwen3": {"num_key_value_heads": 1},
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 6,
        "pos_att_type": ["c2p", "p2c"],
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
}
"""What the tiny config of a family says besides."""
UNTYPED = ("modernbert", "qwen2", "qwen3")
"""Those without types of tokens."""


def make_checkpoint(
    folder: Path,
    family: str = "bert",
    *,
    labels: int = 5,
    layers: int = 2,
    heads: int = 2,
    hidden: int = 16,
    positions: int = 64,
    seed: int = 0,
    biases: float = 0.0,
    **own: Any,
) -> Path:
    """Save a random sequence classifier of `family` with its tokenizer; returns the folder.

    `biases`: their standard deviation (transformers starts them at 0). `own` are further settings of the
    config.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    from qt_bert.models.families import counts_behind_padding

    TOKENIZERS.get(family, wordpiece)(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    named = {"head_dim": hidden // heads} if family == "qwen3" else {}
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden,
        max_position_embeddings=positions
        + (tokenizer.pad_token_id + 1 if counts_behind_padding(family) else 0),
        num_labels=labels,
        **{"initializer_range": 0.4, "pad_token_id": tokenizer.pad_token_id}
        | ({} if family in UNTYPED else {"type_vocab_size": 1 if family == "xlm-roberta" else 2})
        | named
        | OWN.get(family, {})
        | own,
    )
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_config(config)
    for name, parameter in model.named_parameters():
        if biases and name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=biases)
    model.save_pretrained(folder)
    return folder


@contextmanager
def edited(folder: Path, out: Path | None = None) -> Iterator[Any]:
    """The classifier of `folder`, to be changed; then saved to `out`, beside a copy of all else."""
    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder)
    if out is not None:
        shutil.copytree(folder, out)
    with torch.no_grad():
        yield model
    model.save_pretrained(out or folder)


@pytest.fixture(autouse=True)
def lines_anew(monkeypatch) -> None:
    """A line on standard error that is printed once in a process is printed once in each test."""
    from qt_bert import progress

    monkeypatch.setattr(progress, "_noted", set())


@pytest.fixture(autouse=True)
def forecasts_at_once(monkeypatch) -> None:
    """A run's time is forecast from one pass of the model, not from two seconds of passes."""
    monkeypatch.setattr("qt_bert.run.folder.TIMED_SECONDS", 1e-6)


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory) -> Callable[..., Path]:
    """`checkpoint_of("electra", labels=1)`: a folder, made once for each set of arguments."""
    made: dict[str, Path] = {}

    def build(family="bert", **options):
        key = f"{family}-{sorted(options.items())}"
        if key not in made:
            folder = tmp_path_factory.mktemp("models") / f"{family}-{len(made)}"
            made[key] = make_checkpoint(folder, family, **options)
        return made[key]

    return build


@pytest.fixture
def fresh_checkpoint(checkpoint_of, tmp_path) -> Callable[..., Path]:
    """A checkpoint of one's own, to damage."""
    return lambda family="bert", **options: shutil.copytree(
        checkpoint_of(family, **options), tmp_path / "model", dirs_exist_ok=True
    )


FIVE, THREE, ONE = (
    ModelLabels(5, ((1,), (2,), (3,), (4,), (5,))),
    ModelLabels(3, None),
    ModelLabels(1, None),
)
"""The outputs of a model of grades, of one of levels, of one logit."""

PAIRS = [
    ("怎么去除衣服上的油渍", "衣服沾了油怎么洗掉", 5),
    ("怎么去除衣服上的油渍", "红烧排骨的家常做法", 1),
    ("北京到上海高铁票价", "北京到上海高铁时刻表查询", 3),
    ("北京到上海高铁票价", "上海到北京高铁票价", 2),
    ("北京到上海高铁票价", "北京上海高铁票多少钱", 5),
    ("京东小哥", "京东小哥最近在干嘛", 4),
    ("苹果多少钱一斤", "苹果手机多少钱", 2),
    ("狗追猫", "猫追狗", 2),
]


@pytest.fixture
def write(tmp_path) -> Callable[[str, str | bytes], Path]:
    """Write text (as UTF-8, line ends untouched) or bytes to a file of the test's folder."""

    def to_file(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return path

    return to_file


def pair_of(query: str, title: str, grade: int = 3, line: int = 1) -> Pair:
    """A graded pair."""
    return Pair(query, title, (grade,), str(line), line, str(grade), {})


def write_pairs(
    path: Path, pairs: Iterable[tuple[Any, ...]], *more: str, label: str = "grade"
) -> Path:
    """Write query, title, `label` and the columns `more` as TSV; pairs may have the first two alone."""
    rows = list(pairs)
    head = ("query", "title", label, *more)[: len(rows[0]) if rows else None]
    lines = ("\t".join(map(str, row)) + "\n" for row in (head, *rows))
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def pair_file(tmp_path) -> Path:
    """Eight graded pairs."""
    return write_pairs(tmp_path / "pairs.tsv", PAIRS)


@pytest.fixture
def more_pairs(tmp_path) -> Path:
    """Three copies of the eight pairs, with different queries."""
    rows = [(f"{q}{copy}", t, g) for copy in range(3) for q, t, g in PAIRS]
    return write_pairs(tmp_path / "more.tsv", rows)


@pytest.fixture
def fake_probe(monkeypatch) -> Iterator[None]:
    """The modules of `tests/probes/room` stand in the room of the probes, as a new file would."""
    from qt_bert import probes
    from qt_bert.probes import base, texts

    room = Path(__file__).parent / "probes" / "room"
    monkeypatch.setattr(probes, "__path__", [*probes.__path__, str(room)])
    monkeypatch.setattr(texts, "FOLDERS", [*texts.FOLDERS, room])
    base.probes.cache_clear()
    yield
    base.probes.cache_clear()
    for file in room.glob("*.py"):
        sys.modules.pop(f"{probes.__name__}.{file.stem}", None)
        vars(probes).pop(file.stem, None)
