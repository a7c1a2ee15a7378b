"""A student's loss: by hand, against plain transformers pair by pair."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import DistillationModule
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import layer_map
from qt_bert.training.batches import (
    BatchLayout,
    LabelledExample,
    plan_epoch,
    to_tensors,
)
from qt_bert.training.losses import Losses, LossWeights
from tests.conftest import FAMILIES

TEXTS = [("狗追猫", "猫追狗"), ("京东小哥", "小哥最近在干嘛"), ("狗", "猫" * 9), ("苹果", "手机")]
LABELS = [(1, 0, 0, 0, 0), (0, 0, 1, 1, 0), (0, 0, 0, 0, 0), (0, 0, 0, 0, 1)]  # the third has none
ALL = LossWeights(soft=0.5, hidden=2.0, temperature=2.0)
SHAPE = {"layers": 3, "heads": 4, "hidden": 32}
KEPT = (
    KeptLayer(layer=0, heads=(1, 3), units=40),
    KeptLayer(layer=1, heads=()),
    KeptLayer(layer=2, heads=(0, 1, 2, 3)),
)
UNITS = {0: range(40)}
GROUPS = (KeptLayer(layer=0, heads=(2, 3), units=40), *KEPT[1:])


class Case:
    """A teacher, its student, and one batch of the four pairs."""

    def __init__(self, folder, kept=KEPT, units=UNITS, weights=ALL):
        self.teacher = open_checkpoint(folder)
        self.small = smaller_checkpoint(self.teacher, kept, units=units)
        self.map = layer_map(kept, 3)
        self.examples = []
        rows = self.teacher.pair_tokenizer(48).encode(TEXTS)
        for row, label in zip(rows, np.array(LABELS, np.float32), strict=True):
            ids, types = np.array(row.input_ids), np.array(row.token_type_ids)
            self.examples.append(LabelledExample(ids, types, label, (-1, 0), 1.0, at=row.at))
        self.layout = BatchLayout.of(self.teacher.family, self.teacher.pad, 48, 192)
        self.model = DistillationModule(
            self.small.model,
            open_checkpoint(folder).model,
            self.teacher.family,
            layer_map=self.map,
            losses=Losses(weights),
            dtype=torch.float32,
        ).train()
        (self.plan,) = plan_epoch(self.examples, self.layout, 0, 0)

    def batch(self):
        return to_tensors(self.plan, self.examples, self.layout)

    def plain(self, model, example):
        """transformers' own forward of one pair: its logits, and what each layer gives."""
        inputs = {"input_ids": torch.from_numpy(example.input_ids)[None]}
        if self.teacher.family.segments:
            inputs["token_type_ids"] = torch.from_numpy(example.token_type_ids)[None]
        states = []

        def keep(module, args, output):
            states.append(output[0] if isinstance(output, tuple) else output)

        layers = self.teacher.family.layers_of(model)
        handles = [layer.register_forward_hook(keep) for layer in layers]
        logits = model(**inputs).logits
        for handle in handles:
            handle.remove()
        return logits[0], states

    def expected(self):
        """The weighted parts, computed pair by pair."""
        parts = []
        for example in self.examples:
            ours, target = (self.plain(c.model, example) for c in (self.small, self.teacher))
            log_p = F.log_softmax(ours[0], -1)
            allowed = torch.from_numpy(example.allowed) > 0
            grades = -log_p[allowed].logsumexp(0) if allowed.any() else torch.tensor(0.0)
            soft = [F.log_softmax(logits / 2, -1) for logits, _ in (ours, target)]
            distance = 4 * F.kl_div(*soft, reduction="sum", log_target=True)
            hidden = []
            for match in self.map:
                states = ours[1][match.student], target[1][match.imitates]
                hidden.append(F.mse_loss(*(F.layer_norm(s, s.shape[-1:]) for s in states)))
            parts.append(torch.stack((grades, distance, torch.stack(hidden).mean())))
        return torch.stack(parts).mean(0) * torch.tensor([1.0, 0.5, 2.0])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_and_their_gradients_are_those_of_plain_transformers(checkpoint_of, family):
    if "qwen" in family:  # two heads share one key and value
        case = Case(checkpoint_of(family, **SHAPE, num_key_value_heads=2), GROUPS)
    else:
        case = Case(checkpoint_of(family, **SHAPE))
    case.small.model.eval()
    parts, expected = case.model.loss(case.batch()), case.expected()
    torch.testing.assert_close(parts, expected, atol=2e-5, rtol=1e-4)
    names, weights = zip(*case.model.named_parameters(), strict=True)
    ours = torch.autograd.grad(parts.sum(), weights, allow_unused=True)
    plain = torch.autograd.grad(expected.sum(), weights, allow_unused=True)
    for name, *both in zip(names, ours, plain, strict=True):
        a, b = (torch.zeros(1) if g is None or not g.numel() else g for g in both)
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3, msg=name)


def test_the_teacher_is_neither_trained_nor_stored(checkpoint_of):
    case = Case(checkpoint_of("bert", **SHAPE))
    assert all(name.startswith("model.") for name in case.model.state_dict())
    assert not any("_teacher" in name for name, _ in case.model.named_parameters())
    case.model.loss(case.batch()).sum().backward()
    assert all(p.grad is None for p in case.model._teacher[0].parameters())


def test_without_the_teacher_only_the_grades_count(checkpoint_of):
    folder = checkpoint_of("bert", **SHAPE)
    case, alone = Case(folder), Case(folder, weights=LossWeights())
    grades = case.model.loss(case.batch())[:1]
    torch.testing.assert_close(alone.model.loss(alone.batch()), grades)
