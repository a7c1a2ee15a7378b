"""Training off the CPU, on a fake device that refuses a tensor left behind; and batches in parts."""

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

from qt_bert.errors import ArgumentError
from qt_bert.models.loading import open_for_tuning
from qt_bert.training.batches import (
    UNLABELLED,
    BatchLayout,
    LabelledExample,
    plan_epoch,
    to_tensors,
)
from qt_bert.training.finetune import TuningModel
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.masters import MasterWeights
from qt_bert.training.packing import on_device
from qt_bert.training.pretrain import (
    BatchShape,
    PairExample,
    SpecialTokens,
    _masked,
    losses,
    new_model,
)
from qt_bert.training.recipes import TrainingOptions
from qt_bert.training.steps import Gradients, training_device, weights_dtype
from tests.conftest import FAMILIES

GPU = torch.device("meta")
"""Stands for a GPU: torch without CUDA has no backward there, of fake tensors either."""
OUTPUTS = ("nll", "ordinal", "margin", "listwise", "soft", "mse", "margin_mse")
SPECIAL = SpecialTokens(cls=2, sep=3, pad=0, mask=4, vocabulary=50)


def examples(labels: int = 5, auxiliary: int = 0) -> list[LabelledExample]:
    """Twelve pairs of 8 to 30 tokens; the first `auxiliary` of an auxiliary source, one unlabelled."""
    rng, drawn = np.random.default_rng(0), []
    for place in range(12):
        length = int(rng.integers(8, 31))
        allowed = np.zeros(labels, np.float32)
        if auxiliary <= place < 11:
            allowed[place % labels] = allowed[0] = 1
        ids, types = rng.integers(5, 50, length), np.repeat([0, 1], [5, length - 5])
        source = (0, place % 2) if place < auxiliary else (-1, 0)
        drawn.append(LabelledExample(ids, types, allowed, source, 1.0 + place % 3))
    return drawn


def graded(labels: int = 5, auxiliary: int = 0) -> dict[str, torch.Tensor]:
    """One batch of them all, in ten rows of 32 slots."""
    layout = BatchLayout((32,), 320, 0, 0)
    chosen = examples(labels, auxiliary)
    (plan,) = plan_epoch(chosen, layout, 0, 0)
    return to_tensors(plan, chosen, layout)


def masked() -> dict[str, torch.Tensor]:
    """Eight rows of 32 slots for pretraining."""
    rng = np.random.default_rng(1)

    def pair(belongs):
        ids = np.concatenate([[2], rng.integers(5, 50, 8), [3]])
        return PairExample(ids, np.zeros(10, int), bool(belongs))

    rows = [[pair(n) for n in range(1 + row % 3)] for row in range(8)]
    return _masked(rows, 32, SPECIAL, BatchShape(slots=256, short=16, long=32), rng).tensors


def summed(parts: torch.Tensor) -> torch.Tensor:
    return parts[0] + parts[1]


Case = tuple[torch.nn.Module, Callable, dict[str, torch.Tensor], Callable]


def tuned(folder, labels: int = 5, auxiliaries: int = 0, family: str = "bert") -> Case:
    outputs = {"clicks": ["0", "1"]} if auxiliaries else {}
    model = TuningModel(*open_for_tuning(folder(family, layers=3, labels=labels), labels), outputs)
    batch = graded(labels, auxiliaries)
    batch["token_type_ids"] %= max(1, getattr(model.model.config, "type_vocab_size", 1))
    return model, model.loss, batch, torch.sum


def compared(folder) -> Case:
    """Every loss of outputs at once, of four queries with three titles, some over several rows."""
    weights = LossWeights(**{name: 0.5 for name in OUTPUTS}, temperature=2.0)
    made = [
        replace(
            example,
            query=place // 3,
            bounds=(place % 3, place % 3) if example.allowed.any() else UNLABELLED,
            taught=np.full(5, np.nan if place == 2 else place % 4, np.float32) * np.arange(5),
        )
        for place, example in enumerate(examples())
    ]
    layout = BatchLayout((32,), 320, 0, 0, by_query=True)
    (plan,) = plan_epoch(made, layout, 0, 0)
    losses = Losses(weights, (1.0, 2.0, 3.0, 4.0, 5.0))
    model = TuningModel(*open_for_tuning(folder("bert", layers=3), 5), {}, losses)
    assert model.parts == OUTPUTS
    return model, model.loss, to_tensors(plan, made, layout), torch.sum


def pretrained(_) -> Case:
    model = new_model(vocabulary=50, layers=2, heads=2, hidden=16, positions=32, seed=0)
    return model, lambda batch: losses(model, batch), masked(), summed


CASES: dict[str, Callable[..., Case]] = {
    **{family: lambda f, family=family: tuned(f, family=family) for family in FAMILIES},
    "mean of tokens": lambda f: tuned(partial(f, classifier_pooling="mean"), family="modernbert"),
    "levels": lambda f: tuned(f, labels=3),
    "one output": lambda f: tuned(f, labels=1),
    "auxiliary": lambda f: tuned(f, auxiliaries=4),
    "titles compared": compared,
    "pretraining": pretrained,
}


# A fake device: every tensor says where it is, and none holds a number.


@pytest.fixture
def mode(monkeypatch) -> FakeTensorMode:
    """Fake tensors for a test, in which modules replace their weights; torch would swap them in place,
    which fake ones refuse."""

    def applied(self, function, recurse=True):
        done: dict[int, torch.nn.Parameter] = {}  # tied weights stay tied
        for module in self.modules():
            for name, weight in module._parameters.items():
                if weight is not None and id(weight) not in done:
                    new, grad = function(weight).detach(), weight.requires_grad
                    done[id(weight)] = torch.nn.Parameter(new, requires_grad=grad)
                module._parameters[name] = None if weight is None else done[id(weight)]
            for name, buffer in module._buffers.items():
                module._buffers[name] = None if buffer is None else function(buffer)
        return self

    monkeypatch.setattr(torch.nn.Module, "_apply", applied)
    adam = sys.modules["torch.optim.adam"]  # which knows no fused kernel for the stand-in
    monkeypatch.setattr(adam, "_device_dtype_check_for_fused", lambda *_, **__: None)
    return FakeTensorMode(allow_non_fake_inputs=False)


def faked(case: Callable[..., Case], folder, mode: FakeTensorMode) -> Case:
    """A case whose weights are on the fake device, and its batch on the fake host."""
    model, loss, batch, aim = case(folder)
    with mode:
        model._apply(mode.from_tensor)
        on_device(model, GPU, "float32")
        return model, loss, tree_map(mode.from_tensor, batch), aim


UNLIKE = [name for name in CASES if name not in ("ernie", "roberta", "xlm-roberta", "qwen2")]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "float32") for name in UNLIKE),
        *((name, "bfloat16") for name in ("bert", "titles compared", "pretraining")),
    ],
)
def test_a_step_leaves_nothing_on_the_host(checkpoint_of, mode, name, dtype):
    model, loss, batch, aim = faked(CASES[name], checkpoint_of, mode)
    with mode:
        masters = MasterWeights(model.train(), weights_dtype(dtype), lr=1e-3, average=0.9)
        gradients = Gradients(loss, masters, 320, compile=False, aim=aim)
        for factor in (0.5, 1.0):
            assert gradients.of(batch).device == GPU
            assert masters.step(factor).device == GPU
        stored = masters.tensors()
        assert {tensor.device.type for tensor in stored.values()} == {"cpu"}
        assert any(key.startswith("step/") for key in stored)
        kept = masters.float32_state(model)
        assert {(t.device.type, t.dtype) for t in kept.values()} == {("cpu", torch.float32)}
        masters.load(stored)
        states = masters.optimizer.state.values()
        assert {t.device for state in states for t in state.values()} == {GPU}
        gradients.of(batch)
        masters.step(1.0)


# Parts of a batch where memory is short.


class Short:
    """A loss that finds no memory at some calls, before or, through a hook, within the backward."""

    def __init__(self, loss, at: set[int], backward: bool = False) -> None:
        self.loss, self.at, self.backward = loss, at, backward
        self.rows: list[int] = []

    def __call__(self, batch):
        self.rows.append(len(batch["segment"]))
        if len(self.rows) not in self.at:
            return self.loss(batch)
        if not self.backward:
            self._fail()
        loss = self.loss(batch)
        loss.register_hook(self._fail)
        return loss

    def _fail(self, *_) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


def gradients_of(case: Case, at: set[int] = frozenset(), backward: bool = False):
    model, loss, batch, aim = copy.deepcopy(case[0]), case[1], case[2], case[3]
    loss = getattr(model, "loss", None) or (lambda batch: losses(model, batch))
    short = Short(loss, at, backward)
    masters = MasterWeights(model.train(), torch.float32, lr=1e-3)
    made = Gradients(short, masters, batch["segment"].numel(), compile=False, aim=aim)
    total = made.of(batch)
    return total, [p.grad for p in masters.params], short.rows, made


def assert_equal(result, expected) -> None:
    torch.testing.assert_close(result[0], expected[0], atol=1e-6, rtol=1e-6)
    pairs = list(zip(result[1], expected[1], strict=True))
    assert all((a is None) == (b is None) for a, b in pairs)
    ours, theirs = zip(
        *((a.flatten(), b.flatten()) for a, b in pairs if b is not None), strict=True
    )
    assert (torch.cat(ours) - torch.cat(theirs)).norm() <= 1e-6 * torch.cat(theirs).norm()


@pytest.mark.parametrize(
    ("name", "backward"),
    [
        *((name, False) for name in UNLIKE),
        *((name, True) for name in ("bert", "titles compared", "pretraining")),
    ],
)
def test_parts_add_up_whenever_memory_ran_out(checkpoint_of, name, backward):
    case = CASES[name](checkpoint_of)
    if name == "titles compared":
        with pytest.raises(ArgumentError, match="fewer --slots"):
            gradients_of(case, {1}, backward)
        return
    whole = gradients_of(case)
    # At once, then at the second half, then at the third of what is left in quarters.
    parts = gradients_of(case, {1, 3, 6}, backward)
    assert_equal(parts, whole)
    rows, filled = len(case[2]["segment"]), int(case[2]["segment"].any(1).sum())
    assert whole[2] == [rows] and parts[2][:2] == [rows, rows // 2]
    assert sum(parts[2][6:]) == filled and parts[3].memory.halved


def test_later_batches_are_computed_in_parts_at_once(checkpoint_of):
    _, _, rows, made = gradients_of(tuned(checkpoint_of), {1})
    made.masters.clear()
    made.of(graded())
    assert rows == [10, 5, 5, 5, 5]


def test_a_row_that_is_too_much_alone_is_said(checkpoint_of):
    with pytest.raises(ArgumentError, match="no memory for a single pair"):
        gradients_of(tuned(checkpoint_of), set(range(1, 50)))


# What is asked for.


def test_number_types_that_train():
    assert weights_dtype("tf32") == weights_dtype("float32") == torch.float32
    for dtype, message in (("float16", "train in bfloat16"), ("int8", "choose from")):
        with pytest.raises(ArgumentError, match=message):
            weights_dtype(dtype)
    with pytest.raises(ArgumentError, match="needs a GPU"):
        training_device("cpu", "tf32")
    assert training_device("cpu", "bfloat16").type == "cpu"


def test_the_device_is_no_setting():
    assert TrainingOptions(device="cuda", seed=3).over({"lr": 0.1}) == {"lr": 0.1, "seed": 3}
