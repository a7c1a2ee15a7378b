"""Character MLM plus segment-pair prediction (Devlin et al. 2019, 3.1) on packed rows."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from transformers import AutoModelForPreTraining, BertConfig, BertForPreTraining

from qt_bert.encoder import DTYPES
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.progress import progress
from qt_bert.training.compiling import compiled
from qt_bert.training.corpus import Corpus
from qt_bert.training.masters import MasterWeights, linear_schedule
from qt_bert.training.packing import packed_hidden
from qt_bert.training.pretrain_batches import BatchShape, PretrainBatch, Special, batches
from qt_bert.training.runlog import RunLog
from qt_bert.training.state import load_state, same_settings, save_state


@dataclass(frozen=True)
class PretrainSettings:
    """What fixes a pretraining run. Schedules count steps, never minutes.

    Without `pair_objective` the batches stay what they are, and the segment-pair loss is no part of
    what is made small.
    """

    steps: int
    lr: float = 8e-4
    warmup: int = 600
    seed: int = 0
    dtype: str = "bfloat16"
    save_every: int = 200
    log_every: int = 20
    compile: bool = True
    pair_objective: bool = True
    shape: BatchShape = BatchShape()


def new_model(
    *, vocabulary: int, layers: int, heads: int, hidden: int, positions: int, seed: int
) -> BertForPreTraining:
    """A `BertForPreTraining` with random weights (normal, 0.02), no dropout, eager attention.

    The backward of the fused attention kernel in bfloat16 is several times slower on a CPU where
    heads are narrow.

    Raises ArgumentError where `hidden` is not a multiple of `heads`.
    """
    if min(layers, heads, hidden) < 1:
        raise ArgumentError("--layers, --heads and --hidden must be 1 or more")
    if hidden % heads:
        raise ArgumentError(f"--hidden {hidden} is not a multiple of --heads {heads}")
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        max_position_embeddings=positions,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model: BertForPreTraining = AutoModelForPreTraining.from_config(
        config, attn_implementation="eager"
    )
    return model


def losses(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """[MLM loss, segment-pair loss, MLM accuracy, segment-pair accuracy] of one batch, in float32."""
    hidden = packed_hidden(model.bert, batch)
    guessed = model.cls.predictions(hidden[batch["masked_slot"]]).float()
    pooled = model.bert.pooler(hidden[batch["cls_slot"]][:, None])
    paired = model.cls.seq_relationship(pooled).float()
    out = []
    for logits, labels, weight in (
        (guessed, batch["masked_label"], batch["masked_weight"]),
        (paired, 1 - batch["belongs"], batch["cls_weight"]),
    ):
        total = weight.sum()
        out.append((F.cross_entropy(logits, labels, reduction="none") * weight).sum() / total)
        out.append(((logits.argmax(-1) == labels) * weight).sum() / total)
    return torch.stack([out[0], out[2], out[1], out[3]])


def as_tensors(batch: PretrainBatch) -> dict[str, torch.Tensor]:
    """The arrays a step reads, as tensors."""
    rows = ("input_ids", "token_type_ids", "position_ids", "segment")
    own = ("masked_slot", "masked_label", "masked_weight", "cls_slot", "belongs", "cls_weight")
    arrays = {n: getattr(batch.rows, n) for n in rows} | {n: getattr(batch, n) for n in own}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def pretrain(
    model: BertForPreTraining,
    corpus: Corpus,
    special: Special,
    settings: PretrainSettings,
    out: Path,
    *,
    save: Callable[[dict[str, torch.Tensor], dict[str, Any]], None],
    stop_at: int | None = None,
    identity: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Train for `settings.steps` steps, from where `out` stopped if it holds a state.

    `stop_at` ends the run before its schedule does.

    `save` receives the float32 state dict and the last figures. Returns the last averaged figures. The log
    is `out/log.jsonl`; the state is replaced every `save_every` steps, so that a kill costs at most
    these. Raises RunFolderError where `out` holds a run with other settings.
    """
    if special.vocabulary != model.config.vocab_size:
        raise CheckpointError(
            f"the tokenizer knows {special.vocabulary} tokens, the model {model.config.vocab_size}"
        )
    check_settings(settings, stop_at)
    model.train()
    masters = MasterWeights(model, getattr(torch, settings.dtype), lr=settings.lr)
    asked = json.loads(json.dumps(plain_settings(settings) | (identity or {})))
    done, tokens, characters = 0, 0, 0
    if (stored := load_state(out)) is not None:
        tensors, values = stored
        same_settings(out, values["settings"], asked)
        masters.load(tensors)
        done, tokens = values["step"], values["tokens"]
        characters = values.get("characters", 0)
    log = RunLog(out / "log.jsonl", keep_until=done)
    step_losses = compiled(lambda batch: losses(model, batch), settings.compile)
    stream = batches(corpus, special, settings.shape, settings.seed, skip=done)
    window: list[torch.Tensor] = []
    figures: dict[str, Any] = log.last()
    started, since = time.monotonic(), tokens
    end = min(settings.steps, stop_at or settings.steps)
    with progress(end, "pretraining", "steps", done=done) as shown:
        for step in range(done, end):
            batch = next(stream)
            tokens += batch.real_tokens
            characters += batch.characters
            measured = step_losses(as_tensors(batch))
            (measured[0] + settings.pair_objective * measured[1]).backward()
            factor = linear_schedule(step, warmup=settings.warmup, total=settings.steps)
            norm = masters.step(factor)
            window.append(measured.detach())
            last = step + 1 == end
            if (step + 1) % settings.log_every == 0 or last:
                seen = {"step": step + 1, "tokens": tokens, "characters": characters}
                figures = seen | _figures(torch.stack(window).mean(0), factor, norm)
                figures["tokens_per_second"] = round(
                    (tokens - since) / (time.monotonic() - started), 1
                )
                started, since = time.monotonic(), tokens
                log.add(figures)
                window.clear()
            if (step + 1) % settings.save_every == 0 or last:
                seen = {"step": step + 1, "tokens": tokens, "characters": characters}
                save_state(out, masters.tensors(), {"settings": asked} | seen)
            shown.advance(1, f"loss {figures.get('mlm_loss', 0):.3f}" if figures else "")
    save(masters.float32_state(model), figures)
    return figures


def plain_settings(settings: PretrainSettings) -> dict[str, Any]:
    """What a run is told apart by. The pair objective is named where it is left out: folders from
    before it could be do not speak of it."""
    plain = asdict(settings)
    if settings.pair_objective:
        del plain["pair_objective"]
    return plain


def check_settings(settings: PretrainSettings, stop_at: int | None = None) -> None:
    """Raise ArgumentError for a setting that cannot be meant."""
    counts = {
        "--steps": settings.steps,
        "--stop-at": stop_at,
        "--warmup": settings.warmup,
        "save_every": settings.save_every,
        "log_every": settings.log_every,
    }
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ArgumentError(f"{name} is {count}; it must be 1 or more")
    if settings.dtype not in DTYPES:
        raise ArgumentError(f"--dtype {settings.dtype!r}: choose from {', '.join(DTYPES)}")
    if not 0 < settings.lr < 1 or settings.seed < 0:
        raise ArgumentError("--lr must lie between 0 and 1, --seed at 0 or above")
    shape = settings.shape
    if not 8 <= shape.short <= shape.long <= shape.slots:
        raise ArgumentError(
            f"shape: rows of {shape.short} and {shape.long} tokens in {shape.slots} slots; give "
            "8 ≤ short ≤ long ≤ slots"
        )


def _figures(mean: torch.Tensor, factor: float, norm: float) -> dict[str, Any]:
    names = ("mlm_loss", "pair_loss", "mlm_accuracy", "pair_accuracy")
    rounded = {n: round(float(v), 5) for n, v in zip(names, mean, strict=True)}
    return {"rate": factor, "norm": round(norm, 4)} | rounded
