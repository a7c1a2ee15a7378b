"""Any sequence classifier of transformers in its own forward, heads ablated by a hook: exact and slow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import torch

from qt_bert.errors import CheckpointError
from qt_bert.heads import Head, by_layer
from qt_bert.models.batches import Batch
from qt_bert.models.families import Family, needs_fast

_OUTPUT = re.compile(
    r"(attention\.output\.dense|attention\.attn\.o|attention\.(out_lin|dense|o_proj)"
    r"|(self_attn|attn)\.(o_proj|out_proj|Wo))$"
)
"""Names of attention output matrices; heads are slices of their input."""


class PlainEncoder:
    """A Hugging Face classifier as the scorer runs it: batches of pairs to logits.

    `types`: whether it gets token types (for XLNet type 0 differs from none). `layers` raises
    CheckpointError: only the fast engine has them.
    """

    def __init__(self, model: Any, family: Family, *, types: bool) -> None:
        self.model, self.family, self._types = model, family, types

    @property
    def device(self) -> torch.device:
        """Where the weights are; batches are moved there."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def layers(self) -> NoReturn:
        raise CheckpointError(needs_fast(self.family.model_type))

    def logits_of(self, batch: Batch) -> torch.Tensor:
        """Logits [B, labels] of a batch of pairs."""
        batch = batch.to(self.device)
        types = {"token_type_ids": batch.token_type_ids} if self._types else {}
        mask = batch.real.long()
        return self.model(  # type: ignore[no-any-return]
            input_ids=batch.input_ids, attention_mask=mask, **types
        ).logits

    def without(self, heads: Sequence[Head]) -> Callable[[Batch], torch.Tensor]:
        """A forward pass, batch → logits, in which these heads give zeros.

        Raises CheckpointError where the attention output matrices of the model cannot be found.
        """
        outputs = self._outputs()

        def forward(batch: Batch) -> torch.Tensor:
            with self._zeroed(outputs, by_layer(heads)):
                return self.logits_of(batch)

        return forward

    def _outputs(self) -> list[Any]:
        """The attention output matrix of each layer; a shared one is repeated."""
        layers = int(self.model.config.num_hidden_layers)
        matrices = [
            module
            for name, module in self.model.named_modules()
            if _OUTPUT.search(name) and isinstance(module, torch.nn.Linear)
        ]
        if len(matrices) == 1:
            matrices *= layers
        heads = int(getattr(self.model.config, "num_attention_heads", 0))
        if (
            not heads
            or len(matrices) != layers
            or any(matrix.in_features % heads for matrix in matrices)
        ):
            raise CheckpointError(
                f"heads of a {self.family.model_type} cannot be left out: {len(matrices)} attention output "
                f"matrices are known for its {layers} layers"
            )
        return matrices

    @contextmanager
    def _zeroed(self, outputs: list[Any], heads: dict[int, tuple[int, ...]]) -> Iterator[None]:
        count, calls = int(self.model.config.num_attention_heads), 0

        def hook(module: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            nonlocal calls
            layer = calls if outputs.count(module) > 1 else outputs.index(module)
            calls += 1
            if layer not in heads:
                return inputs
            z = inputs[0].clone().unflatten(-1, (count, -1))
            z[..., list(heads[layer]), :] = 0
            return (z.flatten(-2),)

        handles = [module.register_forward_pre_hook(hook) for module in dict.fromkeys(outputs)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
