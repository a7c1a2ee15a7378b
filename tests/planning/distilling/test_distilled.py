"""A student's loss, of layers that differ in heads and units: against plain transformers pair by pair."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.batches import BatchLayout, LabelledExample, plan_epoch, to_tensors
from qt_bert.training.finetune import TuningModel
from qt_bert.training.losses import Losses, LossWeights
from tests.conftest import FAMILIES, GROUPED

TEXTS = [("狗追猫", "猫追狗"), ("京东小哥", "小哥最近在干嘛"), ("狗", "猫" * 9), ("苹果", "手机")]
LABELS = [(1, 0, 0, 0, 0), (0, 0, 1, 1, 0), (0, 0, 0, 0, 0), (0, 0, 0, 0, 1)]  # the third has none
WEIGHTS = LossWeights(soft=0.5, temperature=2.0)
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

    def __init__(self, folder, kept=KEPT, units=UNITS):
        self.teacher = open_checkpoint(folder)
        self.small = smaller_checkpoint(self.teacher, kept, units=units)
        self.examples = []
        rows = self.teacher.pair_tokenizer(48).encode(TEXTS)
        taught = Scorer(self.teacher).logits(TEXTS)
        for row, label, of_pair in zip(rows, np.array(LABELS, np.float32), taught, strict=True):
            ids, types = np.array(row.input_ids), np.array(row.token_type_ids)
            example = LabelledExample(ids, types, label, (-1, 0), 1.0, at=row.at, taught=of_pair)
            self.examples.append(example)
        pad = self.teacher.pad
        layout = BatchLayout((48,), 192, pad, self.teacher.family.first_position(pad))
        self.model = TuningModel(self.small.model, self.teacher.family, {}, Losses(WEIGHTS)).train()
        (plan,) = plan_epoch(self.examples, layout, 0, 0)
        self.batch = to_tensors(plan, self.examples, layout)

    def plain(self, model, example):
        """transformers' own forward of one pair."""
        inputs = {"input_ids": torch.from_numpy(example.input_ids)[None]}
        if self.teacher.family.segments:
            inputs["token_type_ids"] = torch.from_numpy(example.token_type_ids)[None]
        return model(**inputs).logits[0]

    def expected(self):
        """The weighted parts, computed pair by pair."""
        parts = []
        for example in self.examples:
            ours, target = (self.plain(c.model, example) for c in (self.small, self.teacher))
            log_p = F.log_softmax(ours, -1)
            allowed = torch.from_numpy(example.allowed) > 0
            grades = -log_p[allowed].logsumexp(0) if allowed.any() else torch.tensor(0.0)
            soft = [F.log_softmax(logits / 2, -1) for logits in (ours, target.detach())]
            parts.append(
                torch.stack((grades, 4 * F.kl_div(*soft, reduction="sum", log_target=True)))
            )
        return torch.stack(parts).mean(0) * torch.tensor([1.0, 0.5])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parts_and_their_gradients_are_those_of_plain_transformers(checkpoint_of, family):
    if family in GROUPED:  # two heads share one key and value
        case = Case(checkpoint_of(family, **SHAPE, num_key_value_heads=2), GROUPS)
    else:
        case = Case(checkpoint_of(family, **SHAPE))
    case.small.model.eval()
    parts, expected = case.model.loss(case.batch), case.expected()
    torch.testing.assert_close(parts, expected, atol=2e-5, rtol=1e-4)
    names, weights = zip(*case.model.named_parameters(), strict=True)
    ours = torch.autograd.grad(parts.sum(), weights, allow_unused=True)
    plain = torch.autograd.grad(expected.sum(), weights, allow_unused=True)
    for name, *both in zip(names, ours, plain, strict=True):
        a, b = (torch.zeros(1) if g is None or not g.numel() else g for g in both)
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3, msg=name)
