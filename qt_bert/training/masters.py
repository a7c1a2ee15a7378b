"""Bfloat16 weights with float32 masters, on any device; the schedule of the learning rate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


class MasterWeights:
    """Float32 copies of a model's parameters, on their device, and their AdamW: products run in `dtype`,
    updates add up in float32.

    With `dtype=torch.float32` the masters are the parameters themselves. Weight decay acts on
    matrices only, not on biases and LayerNorms (Devlin et al. 2019, A.2). With `average` > 0 an
    exponential moving average of the masters is kept, decay `average` a step (Polyak & Juditsky
    1992); `averaged()` puts it into the model.
    """

    def __init__(
        self,
        model: nn.Module,
        dtype: torch.dtype,
        *,
        lr: float,
        weight_decay: float = 0.01,
        average: float = 0.0,
    ) -> None:
        named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        self.names = [n for n, _ in named]
        self.masters: list[torch.Tensor] = [p.detach().float().clone() for _, p in named]
        self.shared = dtype == torch.float32
        model.to(dtype)
        self.params: list[torch.Tensor] = [dict(model.named_parameters())[n] for n in self.names]
        if self.shared:
            self.masters = list(self.params)
        self.decay = average
        self.average = [m.detach().clone() for m in self.masters] if average else self.masters
        self.lr = lr
        matrices = [m for m in self.masters if m.ndim > 1]
        vectors = [m for m in self.masters if m.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=lr,
            betas=(0.9, 0.98),
            eps=1e-6,
            fused=True,
        )

    @property
    def device(self) -> torch.device:
        """Where weights and masters are."""
        return self.masters[0].device

    def step(self, factor: float) -> torch.Tensor:
        """Clip the gradient to norm 1 and update at rate lr × `factor`. Returns its norm [], on the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * factor
        if not self.shared:
            for master, param in zip(self.masters, self.params, strict=True):
                master.grad = None if param.grad is None else param.grad.float()
        norm = torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        if not self.shared:
            with torch.no_grad():
                torch._foreach_copy_(self.params, self.masters)
        if self.decay:
            with torch.no_grad():
                torch._foreach_lerp_(self.average, self.masters, 1 - self.decay)
        self.clear()
        return norm

    def clear(self) -> None:
        """Forget every gradient."""
        for tensor in (*self.params, *self.masters):
            tensor.grad = None

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model holds the averaged weights while the block runs."""
        if not self.decay:
            yield
            return
        with torch.no_grad():
            kept = [p.detach().clone() for p in self.params]
            torch._foreach_copy_(self.params, self.average)
            try:
                yield
            finally:
                torch._foreach_copy_(self.params, kept)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Masters and AdamW's moments and steps, by parameter name, on the CPU, to resume from."""
        out: dict[str, torch.Tensor] = {}
        for name, master in zip(self.names, self.masters, strict=True):
            out[f"master/{name}"] = master.detach().cpu()
            state = self.optimizer.state.get(master, {})
            moments = {k: v for k, v in state.items() if torch.is_tensor(v)}
            out.update({f"{k}/{name}": v.detach().cpu() for k, v in moments.items()})
        if self.decay:
            averages = zip(self.names, self.average, strict=True)
            out.update({f"average/{name}": value.cpu() for name, value in averages})
        return out

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Restore the state of `tensors()` exactly, from any device."""
        with torch.no_grad():
            for name, master, param in zip(self.names, self.masters, self.params, strict=True):
                master.copy_(tensors[f"master/{name}"])
                param.copy_(master)
                state = {  # fused, AdamW keeps `step` on the device, too
                    k: tensors[f"{k}/{name}"].to(master.device, copy=True)
                    for k in ("step", "exp_avg", "exp_avg_sq")
                    if f"{k}/{name}" in tensors
                }
                if state:
                    self.optimizer.state[master] = state
            if self.decay:
                for name, value in zip(self.names, self.average, strict=True):
                    value.copy_(tensors[f"average/{name}"])

    def float32_state(self, model: nn.Module) -> dict[str, torch.Tensor]:
        """The state dict on the CPU, float32 masters (or averages) for bf16 weights."""
        masters = {id(p): m for p, m in zip(self.params, self.average, strict=True)}
        out = {}
        for name, value in model.state_dict(keep_vars=True).items():
            weight = masters.get(id(value), value).detach()
            out[name] = weight.to("cpu", torch.float32, copy=True)
        return out


def linear_schedule(step: int, *, warmup: int, total: int) -> float:
    """Factor of the peak rate at `step` (from 0): linear up over `warmup`, linear down to 0 at `total`."""
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (total - step) / max(1, total - warmup))
