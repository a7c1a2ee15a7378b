"""Master weights against plain AdamW, and the rate's schedule."""

import pytest
import torch
from torch import nn

from qt_bert.training.masters import MasterWeights, linear_schedule


def steps(model, masters, batches, start=0):
    for step, batch in enumerate(batches, start):
        model(batch).float().pow(2).mean().backward()
        masters.step(1.0 - step / 10)


def test_float32_masters_are_plain_adamw():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    plain = nn.Linear(4, 3)
    plain.load_state_dict(model.state_dict())
    batches = torch.randn(4, 8, 4, generator=torch.Generator().manual_seed(1))
    steps(model, MasterWeights(model, torch.float32, lr=0.01), batches)
    weight = {"params": [plain.weight], "weight_decay": 0.01}
    bias = {"params": [plain.bias], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([weight, bias], lr=0.01, betas=(0.9, 0.98), eps=1e-6)
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (1.0 - step / 10)
        optimizer.zero_grad()
        plain(batch).pow(2).mean().backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimizer.step()
    torch.testing.assert_close(model.weight, plain.weight)
    torch.testing.assert_close(model.bias, plain.bias)


def test_small_updates_add_up_in_the_masters_though_bf16_would_drop_them():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    masters = MasterWeights(model, torch.bfloat16, lr=1e-4, weight_decay=0.0)
    for _ in range(100):
        model.weight.grad = torch.ones_like(model.weight)
        masters.step(1.0)
    assert float(masters.masters[0]) == pytest.approx(0.99, abs=1e-4)
    assert float(model.weight.detach()) == pytest.approx(0.99, abs=4e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_stored_state_goes_on_bit_for_bit(dtype):
    torch.manual_seed(0)
    models = [nn.Linear(4, 3) for _ in range(3)]
    models[1].load_state_dict(models[0].state_dict())
    whole, first, second = (MasterWeights(model, dtype, lr=0.01, average=0.5) for model in models)
    batches = torch.randn(6, 8, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    steps(models[0], whole, batches)
    steps(models[1], first, batches[:3])
    second.load({k: v.clone() for k, v in first.tensors().items()})
    steps(models[2], second, batches[3:], start=3)
    for a, b in zip(whole.masters + whole.average, second.masters + second.average, strict=True):
        assert torch.equal(a, b)


def test_schedule_by_hand():
    rates = [linear_schedule(s, warmup=2, total=6) for s in range(6)]
    assert rates == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
