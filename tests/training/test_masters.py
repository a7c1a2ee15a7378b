"""Master weights against plain AdamW, and the rate's schedule."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from qt_bert.training.devices import MasterWeights, linear_schedule


def steps(model, masters, n):
    generator = torch.Generator().manual_seed(1)
    for step in range(n):
        batch = torch.randn(8, 4, generator=generator).to(next(model.parameters()).dtype)
        model(batch).float().pow(2).mean().backward()
        masters.step(1.0 - step / 10)


def test_float32_masters_are_plain_adamw():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    plain = nn.Linear(4, 3)
    plain.load_state_dict(model.state_dict())
    steps(model, MasterWeights(model, torch.float32, lr=0.01, clip=1e9), 4)
    optimizer = torch.optim.AdamW(
        [
            {"params": [plain.weight], "weight_decay": 0.01},
            {"params": [plain.bias], "weight_decay": 0.0},
        ],
        lr=0.01,
        betas=(0.9, 0.98),
        eps=1e-6,
    )
    generator = torch.Generator().manual_seed(1)
    for step in range(4):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * (1.0 - step / 10)
        optimizer.zero_grad()
        plain(torch.randn(8, 4, generator=generator)).pow(2).mean().backward()
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
    whole, model = nn.Linear(4, 3), nn.Linear(4, 3)
    model.load_state_dict(whole.state_dict())
    undisturbed = MasterWeights(whole, dtype, lr=0.01)
    steps(whole, undisturbed, 6)

    first = MasterWeights(model, dtype, lr=0.01)
    generator = torch.Generator().manual_seed(1)
    batches = [torch.randn(8, 4, generator=generator).to(dtype) for _ in range(6)]

    def go(masters, module, part, start):
        for step, batch in enumerate(part, start):
            module(batch).float().pow(2).mean().backward()
            masters.step(1.0 - step / 10)

    go(first, model, batches[:3], 0)
    stored = {k: v.clone() for k, v in first.tensors().items()}
    again = nn.Linear(4, 3)
    second = MasterWeights(again, dtype, lr=0.01)
    second.load(stored)
    go(second, again, batches[3:], 3)
    for a, b in zip(undisturbed.masters, second.masters, strict=True):
        assert torch.equal(a, b)


def test_schedule_by_hand():
    rates = [linear_schedule(s, warmup=2, total=6) for s in range(6)]
    assert rates == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
