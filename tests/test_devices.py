"""Everything that runs a model leaves each tensor on the model's device."""

import ast
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import qt_bert
from qt_bert import request
from qt_bert.ablation.engine import Reduction, View, sweep
from qt_bert.ablation.importance import importance
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.patches import Patch, donor_batches
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models import devices
from qt_bert.models.devices import DTYPES, open_device, stack_tokens
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from tests.ablation.test_loop import OPTIONS, TEXTS, batches, masks, other_parts, run
from tests.ablation.test_parts import COUPLES
from tests.conftest import FAMILIES
from tests.fake_gpu import DEVICE, fake_gpu, on_fake_gpu

# The forward, the engine and importance on a GPU that computes nothing.


def _mean(view: View) -> torch.Tensor:
    return view.values.flatten(2).mean(-1)


REDUCTIONS = [
    Reduction("maps", "attention", (0, 2), lambda view: view.values),
    Reduction("first", "attention", (1,), _mean, first_row=True),
    Reduction("z", "z", (0, 1, 2), _mean),
    Reduction("hidden", "hidden", (2,), lambda view: view.values[:, 0]),
]


@pytest.mark.parametrize(
    ("family", "dtype"),
    [
        *((family, torch.float32) for family in FAMILIES),
        *((family, torch.float16) for family in ("bert", "modernbert", "qwen3", "deberta-v2")),
    ],
)
def test_scoring(checkpoint_of, monkeypatch, family: str, dtype: torch.dtype) -> None:
    opened = open_checkpoint(checkpoint_of(family, **OPTIONS))
    opened.model.to(dtype)
    with fake_gpu(monkeypatch) as mode:
        scorer = Scorer(on_fake_gpu(opened, mode))
        assert scorer.encoder.device == DEVICE
        assert scorer.logits(TEXTS).shape == (len(TEXTS), opened.model.config.num_labels)


UNLIKE = ("bert", "gte", "modernbert", "qwen3", "deberta-v2")
"""Families whose layers differ."""


@pytest.mark.parametrize(
    ("family", "reductions"), [*((family, ()) for family in UNLIKE), ("bert", REDUCTIONS)]
)
def test_every_intervention(checkpoint_of, monkeypatch, family: str, reductions: list) -> None:
    opened = open_checkpoint(checkpoint_of(family, **OPTIONS))
    with fake_gpu(monkeypatch) as mode:
        given, variants = batches(opened), [NONE, *masks(), *other_parts(family)]
        if reductions:  # layers left out have no attention to read
            variants = [v for v in variants if not any(c.skipped for c in v.changes.values())]
        encoder = on_fake_gpu(opened, mode).encoder()
        tokens = (
            60 if family == "bert" and not reductions else None
        )  # in parts; else as a GPU would
        for swept in sweep(encoder, given, variants, reductions, tokens=tokens):
            assert swept.logits.shape[:2] == (len(variants), len(swept.rows))
            assert set(swept.reduced) == {one.name for one in reductions}


def test_importance(checkpoint_of, monkeypatch) -> None:
    opened = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    with fake_gpu(monkeypatch) as mode:
        given, sets = batches(opened), np.ones((len(TEXTS), 5), bool)
        encoder = on_fake_gpu(opened, mode).encoder()
        assert np.shape(importance(encoder, given, sets)) == (3, 4)
        assert len(importance(encoder, given, sets, units=True)) == 3


def test_a_tensor_on_the_cpu_is_caught(checkpoint_of, monkeypatch) -> None:
    opened = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    stray = Reduction(
        "stray", "hidden", (0,), lambda view: view.values + torch.ones(view.values.shape)
    )
    with fake_gpu(monkeypatch) as mode:
        encoder = on_fake_gpu(opened, mode).encoder()
        with pytest.raises(RuntimeError, match="device"):
            list(sweep(encoder, batches(opened), [NONE], [stray]))


# Out of memory: smaller parts, nothing lost, nothing twice.


@pytest.fixture
def short_of_memory(monkeypatch) -> Callable[[int], list[int]]:
    """From then on, products of more than so many rows raise; what was tried is listed."""
    from qt_bert.models import forward

    tried: list[int] = []
    plain = forward.Layer.feed_forward

    def install(most: int) -> list[int]:
        def limited(self, mixed: torch.Tensor, hidden: torch.Tensor, **more: Any) -> torch.Tensor:
            tried.append(mixed.shape[:-1].numel())
            if tried[-1] > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return plain(self, mixed, hidden, **more)

        monkeypatch.setattr(forward.Layer, "feed_forward", limited)
        return tried

    return install


def test_a_sweep_goes_on_in_smaller_parts(checkpoint_of, short_of_memory, capsys) -> None:
    opened = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    given, variants = batches(opened), [NONE, *masks()]
    reductions = [Reduction("z", "z", (1,), _mean)]
    (want,) = sweep(opened.encoder(), given, variants, reductions)
    tried, done = short_of_memory(40), []
    shown = SimpleNamespace(advance=lambda amount=1, note="": done.append(amount))
    (got,) = sweep(opened.encoder(), given, variants, reductions, shown=shown)
    assert max(tried) > 40 and sum(rows > 40 for rows in tried) < 10
    np.testing.assert_array_equal(got.rows, want.rows)
    np.testing.assert_allclose(got.logits, want.logits, atol=1e-5)
    np.testing.assert_allclose(got.reduced["z"], want.reduced["z"], atol=1e-5)
    assert sum(done) == len(variants) * len(TEXTS)


def test_patches_come_in_smaller_parts(checkpoint_of, short_of_memory) -> None:
    opened = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    encoded = opened.pair_tokenizer().encode(COUPLES)
    given = list(donor_batches(encoded, 1000, pad=opened.pad))
    variants = [NONE, Variant("patch", (Patch((Head(1, 2),)),))]
    want = run(opened.encoder(), given, variants, len(encoded))
    tried = short_of_memory(40)
    got = run(opened.encoder(), given, variants, len(encoded))
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert any(rows > 40 for rows in tried)


def test_scores_come_in_smaller_parts(checkpoint_of, short_of_memory) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of("bert", **OPTIONS)))
    want = scorer.logits(TEXTS)
    tried = short_of_memory(40)
    np.testing.assert_allclose(scorer.fresh().logits(TEXTS), want, atol=1e-5)
    assert any(rows > 40 for rows in tried)


def test_a_pair_too_large_is_an_error_of_one_line(checkpoint_of, short_of_memory) -> None:
    encoder = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    short_of_memory(0)
    with pytest.raises(ArgumentError, match="no memory for a single pair"):
        list(sweep(encoder.encoder(), batches(encoder), [NONE, Variant("z", masks()[2].parts)]))


# Devices and number types that are not there: one line, status 2.


@pytest.mark.parametrize(
    ("device", "dtype", "words"),
    [
        ("gpu", "float32", "choose from auto, cpu, cuda, cuda:1, mps"),
        ("cuda:x", "float32", "choose from auto|finds no CUDA|this machine has"),
        ("cuda:97", "float32", "finds no CUDA device here|this machine has cuda:0"),
        ("cpu", "float16", "needs a GPU; on a CPU take float32 or bfloat16"),
        ("cpu", "tf32", "needs a GPU"),
        ("auto", "int4", "choose from float32, tf32, bfloat16, float16"),
    ],
)
def test_what_is_not_there_is_refused(checkpoint_of, device, dtype, words) -> None:
    if torch.cuda.is_available() and device == "auto":
        pytest.skip("auto takes the GPU here")
    with pytest.raises(ArgumentError, match=words):
        open_checkpoint(checkpoint_of(), dtype=dtype, device=device)


def test_names_without_torch_are_those_with_it() -> None:
    assert tuple(DTYPES) == request.DTYPES
    for device in ("gpu", "cuda:", "cuda:-1", "CUDA", "cpu:0"):
        with pytest.raises(ArgumentError, match="choose from auto"):
            request.check_device(device)


def test_auto_takes_the_first_gpu_and_says_so_once(monkeypatch, capsys) -> None:
    assert open_device("auto").type in ("cpu", "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    assert [open_device("auto") for _ in range(2)] == [torch.device("cuda", 0)] * 2
    assert capsys.readouterr().err.count("running on Some GPU") == 1
    assert open_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ArgumentError, match="this machine has cuda:0, cuda:1"):
        open_device("cuda:2")


def test_the_stack_follows_free_memory(checkpoint_of, monkeypatch) -> None:
    model = open_checkpoint(checkpoint_of("bert", layers=3, heads=4, hidden=16)).model
    assert stack_tokens(model) == devices.GPU_BATCH_TOKENS  # no CUDA device to ask
    kept, at_work = 6 * 16 * 3, 3 * 32 + 3 * 4 * 128
    free = 5000 * (kept + at_work) * 4 * 2
    monkeypatch.setattr(type(model), "device", torch.device("cuda", 0))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    assert stack_tokens(model) == 5000
    monkeypatch.setattr(devices, "_MOST", 2000)
    assert stack_tokens(model) == 2000


# Tensor makers name the device they make for.


MAKERS = {"zeros", "ones", "full", "empty", "arange", "tensor", "as_tensor", "eye", "from_numpy"}
MAKERS |= {"rand", "randn", "linspace", "randperm", "tril", "triu"}
ROOMS = ("models", "ablation", "scoring", "training")


def strays(source: str) -> list[int]:
    """Lines that make a tensor without a device, without `.to(…)`, and without saying `on the CPU`."""
    tree = ast.parse(source)
    sent = {
        id(node.func.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
    }
    lines = source.splitlines()
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "torch"
        and node.func.attr in MAKERS
        and "device" not in {keyword.arg for keyword in node.keywords}
        and id(node) not in sent
        and "on the CPU" not in "".join(lines[node.lineno - 1 : node.end_lineno])
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_no_tensor_is_made_without_a_device(room: str) -> None:
    folder = Path(qt_bert.__file__).parent / room
    found = {path.name: strays(path.read_text("utf-8")) for path in sorted(folder.rglob("*.py"))}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("line", "caught"),
    [
        ("torch.zeros(3)", True),
        ("torch.zeros(3, device=x.device)", False),
        ("torch.from_numpy(a).to(x)", False),
        ("torch.from_numpy(a) + b", True),
        ("torch.ones(3)  # on the CPU: saved", False),
    ],
)
def test_makers_are_found(line: str, caught: bool) -> None:
    assert bool(strays(line)) is caught
