"""Character MLM plus segment-pair prediction (Devlin et al. 2019, 3.1) on packed rows; and
`qt-bert pretrain`, from shards and pair files to a saved `BertForPreTraining` folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from transformers import AutoModelForPreTraining, BertConfig, BertForPreTraining

from qt_bert.errors import ArgumentError, CheckpointError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.models.card import ModelLabels, tuned_settings
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.devices import device_name
from qt_bert.models.families import FAMILIES
from qt_bert.models.folder import folder_sha256, verify_folder
from qt_bert.models.loading import open_for_pretraining, stored_dtype
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.progress import note_once, progress
from qt_bert.request import SEED
from qt_bert.training.corpus import Corpus, TokenStore, load_corpus
from qt_bert.training.masters import MasterWeights, linear_schedule
from qt_bert.training.packing import Example, best_fit, filled, lay_out, on_device, packed_hidden
from qt_bert.training.recipes import PairSource
from qt_bert.training.state import (
    RunLog,
    close_workspace,
    finished_facts,
    load_state,
    open_workspace,
    save_state,
    training_texts,
)
from qt_bert.training.steps import Gradients, training_device, weights_dtype

# The order of a pretraining run: which examples, packed how, masked where: all from (seed, step).


ROWS = ("input_ids", "token_type_ids", "position_ids", "segment")
EXAMPLES_A_CHUNK = 20_000
"""Examples are drawn, packed and shuffled in chunks of this many."""


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the tokenizer's special tokens and the size of its vocabulary.

    `lengths` [vocabulary] are the characters of each token; None counts one each.
    """

    cls: int
    sep: int
    pad: int
    mask: int
    vocabulary: int
    lengths: np.ndarray | None = None

    @cached_property
    def ordinary(self) -> np.ndarray:
        """The ids that may replace a masked character."""
        return np.setdiff1d(np.arange(self.vocabulary), [self.cls, self.sep, self.pad, self.mask])


@dataclass(frozen=True)
class BatchShape:
    """The size of a batch: its slots, in rows of one of two lengths, and its shares of examples."""

    slots: int = 6144
    short: int = 64
    long: int = 128
    pair_share: float = 0.25
    negative_share: float = 0.30
    masked_share: float = 0.15


@dataclass(frozen=True)
class PairExample(Example):
    """An example with its label for segment-pair prediction."""

    belongs: bool


@dataclass(frozen=True)
class PretrainBatch:
    """A batch, with its numbers of real tokens and of characters of text.

    `tensors` are the rows of `lay_out`, and `masked_slot`, `masked_label`, `masked_weight`
    [predictions], `cls_slot`, `belongs`, `cls_weight` [examples], padded with weight 0 to the same
    length in every batch.
    """

    tensors: dict[str, torch.Tensor]
    tokens: int
    characters: int


def batches(
    corpus: Corpus, special: SpecialTokens, shape: BatchShape, seed: int, skip: int = 0
) -> Iterator[PretrainBatch]:
    """Endless batches; `skip` leaves out the first ones (a resumed run). Raises ArgumentError where the first
    chunk of examples does not fill a batch."""
    chunk = 0
    while True:
        rng = np.random.default_rng([seed, chunk])
        packed = _pack_chunk(_examples(corpus, special, shape, seed, chunk, rng), shape, rng)
        if not packed and not chunk:
            raise ArgumentError(
                f"shape: {EXAMPLES_A_CHUNK:,} examples do not fill a batch of {shape.slots:,} slots; give fewer"
            )
        for slots, group in packed:
            if skip:
                skip -= 1
                rng.random()  # one draw a batch, so that the other masks stay the same
                continue
            mask_rng = np.random.default_rng([seed, chunk, int(rng.random() * 2**53)])
            yield _masked(group, slots, special, shape, mask_rng)
        chunk += 1


def _order(seed: int, name: int, start: int, count: int, population: int) -> np.ndarray:
    """Items start … start + count of an endless sequence of permutations of the population."""
    out = []
    while count:
        epoch, offset = divmod(start, population)
        order = np.random.default_rng([seed, name, epoch]).permutation(population)
        part = order[offset : offset + count]
        out.append(part)
        start, count = start + len(part), count - len(part)
    return np.concatenate(out)


def _examples(
    corpus: Corpus,
    special: SpecialTokens,
    shape: BatchShape,
    seed: int,
    chunk: int,
    rng: np.random.Generator,
) -> list[PairExample]:
    n_pairs = int(EXAMPLES_A_CHUNK * shape.pair_share) if len(corpus.first) else 0
    n_text = EXAMPLES_A_CHUNK - n_pairs
    halves = [
        _cut(corpus.fragments, i, shape, rng)
        for i in _order(seed, 1, chunk * n_text, n_text, len(corpus.fragments))
    ]
    together = [
        _fit(corpus.first[i], corpus.second[i], shape.long - 3)
        for i in (_order(seed, 2, chunk * n_pairs, n_pairs, len(corpus.first)) if n_pairs else ())
    ]
    drawn = _with_negatives(halves, shape, rng) + _with_negatives(together, shape, rng)
    examples = []
    for first, second, belongs in drawn:
        ids = np.concatenate([[special.cls], first, [special.sep], second, [special.sep]])
        types = np.repeat([0, 1], [len(first) + 2, len(second) + 1])
        examples.append(PairExample(ids, types, belongs))
    return examples


def _cut(
    store: TokenStore, index: int, shape: BatchShape, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A fragment in two parts, cut at a fifth to four fifths; of a long one, a random window."""
    ids = store[index]
    room = (shape.long if rng.random() < 0.5 else shape.short) - 3
    if len(ids) > room:
        start = int(rng.integers(0, len(ids) - room + 1))
        ids = ids[start : start + room]
    cut = max(1, int(len(ids) * rng.uniform(0.2, 0.8)))
    return ids[:cut], ids[cut:]


def _fit(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Both texts within `room` tokens; the second is shortened first."""
    first = first[: room - 1]
    return first, second[: room - len(first)]


def _with_negatives(
    texts: list[tuple[np.ndarray, np.ndarray]], shape: BatchShape, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray, bool]]:
    """Replace the second text of a share of the pairs by another's: (first, second, belong together)."""
    out = []
    for i, (first, second) in enumerate(texts):
        belongs = bool(rng.random() >= shape.negative_share) or len(texts) < 2
        if not belongs:
            second = texts[(i + int(rng.integers(1, len(texts)))) % len(texts)][1]
        out.append((*_fit(first, second, shape.long - 3), belongs))
    return out


def _pack_chunk(
    examples: list[PairExample], shape: BatchShape, rng: np.random.Generator
) -> list[tuple[int, list[list[PairExample]]]]:
    """(row length, rows) for each batch of the chunk, in shuffled order; remainders are dropped."""
    out: list[tuple[int, list[list[PairExample]]]] = []
    for low, slots in ((0, shape.short), (shape.short, shape.long)):
        chosen = [e for e in examples if low < len(e) <= slots]
        rows = best_fit([len(e) for e in chosen], slots)
        order = rng.permutation(len(rows))
        size = shape.slots // slots
        if 0 < len(rows) < size:
            note_once(
                f"shape: examples of {low + 1} to {slots} tokens do not fill a batch of {shape.slots:,} slots and are left "
                "out; give fewer"
            )
        for start in range(0, len(rows) - size + 1, size):
            out.append((slots, [[chosen[i] for i in rows[r]] for r in order[start : start + size]]))
    return [out[i] for i in rng.permutation(len(out))]


def _masked(
    group: list[list[PairExample]],
    slots: int,
    special: SpecialTokens,
    shape: BatchShape,
    rng: np.random.Generator,
) -> PretrainBatch:
    """Mask the shape's share of the text tokens, one at least: 80 % [MASK], 10 % a random token, 10 % as they were."""
    rows = lay_out(group, slots, pad=special.pad)
    ids, real = rows["input_ids"].reshape(-1), rows["segment"].reshape(-1) > 0
    text = real & (ids != special.cls) & (ids != special.sep)
    characters = text.sum() if special.lengths is None else special.lengths[ids[text]].sum()
    drawn = rng.random(ids.size)
    chosen = np.flatnonzero(text & (drawn <= max(shape.masked_share, drawn[text].min(initial=1.0))))
    room = max(1, int(ids.size * (shape.masked_share + 0.01)))
    chosen = np.sort(rng.permutation(chosen)[:room])
    labels = ids[chosen].copy()
    kind = rng.random(len(chosen))
    ids[chosen[kind < 0.8]] = special.mask
    swapped = chosen[kind >= 0.9]
    ids[swapped] = rng.choice(special.ordinary, len(swapped))
    examples = shape.slots // 4
    belongs = np.array([e.belongs for row in group for e in row], np.int64)
    arrays = {name: rows[name] for name in ROWS} | {
        "masked_slot": filled(room, chosen),
        "masked_label": filled(room, labels),
        "masked_weight": filled(room, np.ones(len(chosen), np.float32)),
        "cls_slot": filled(examples, rows["first_slot"]),
        "belongs": filled(examples, belongs),
        "cls_weight": filled(examples, np.ones(len(belongs), np.float32)),
    }
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}  # on the CPU
    return PretrainBatch(tensors, int(real.sum()), int(characters))


@dataclass(frozen=True)
class PretrainSettings:
    """The settings of a pretraining run; schedules count steps.

    Without `pair_objective` the batches stay the same, and only the MLM loss is minimised.
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


def losses(model: Any, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """[MLM loss, segment-pair loss, MLM accuracy, segment-pair accuracy] of one batch, in float32.

    Those of the parts of a batch, with the weights of the whole, add up to that of the batch.
    """
    hidden = packed_hidden(model, FAMILIES["bert"], batch)
    mlm = model.cls.predictions(hidden[batch["masked_slot"]]).float()
    pooled = model.bert.pooler(hidden[batch["cls_slot"]][:, None])
    paired = model.cls.seq_relationship(pooled).float()
    out = []
    for logits, labels, name in (
        (mlm, batch["masked_label"], "masked_weight"),
        (paired, 1 - batch["belongs"], "cls_weight"),
    ):
        weight = batch[name]
        total = batch.get(f"{name}_total", weight.sum())
        out.append((F.cross_entropy(logits, labels, reduction="none") * weight).sum() / total)
        out.append(((logits.argmax(-1) == labels) * weight).sum() / total)
    return torch.stack([out[0], out[2], out[1], out[3]])


def pretrain(
    model: BertForPreTraining,
    corpus: Corpus,
    special: SpecialTokens,
    settings: PretrainSettings,
    out: Path,
    *,
    stop_at: int | None = None,
    identity: dict[str, Any],
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Train for `settings.steps` steps on the device of `model`, from the state in `out` if there is one.

    `stop_at` ends the run before its schedule. Returns the float32 state dict and the last averaged
    figures. The log is `out/log.jsonl`; the state is saved every `save_every` steps. Raises
    CheckpointError where model and tokenizer differ in size, RunFolderError where `out` holds a run with
    other settings, another `identity` (hashes of start and corpus) or more steps than `stop_at`.
    """
    if special.vocabulary != model.config.vocab_size:
        raise CheckpointError(
            f"the tokenizer has {special.vocabulary} tokens, the model {model.config.vocab_size}"
        )
    model.train()
    masters = MasterWeights(model, weights_dtype(settings.dtype), lr=settings.lr)
    key = json.loads(json.dumps(plain_settings(settings) | identity))
    done, tokens, characters = 0, 0, 0
    if (stored := load_state(out, key)) is not None:
        tensors, values = stored
        masters.load(tensors)
        done, tokens, characters = (values[name] for name in ("step", "tokens", "characters"))
    log = RunLog(out / "log.jsonl", keep_until=done)
    gradients = Gradients(
        lambda batch: losses(model, batch),
        masters,
        settings.shape.slots,
        compile=settings.compile,
        aim=lambda measured: measured[0] + settings.pair_objective * measured[1],
    )
    stream = batches(corpus, special, settings.shape, settings.seed, skip=done)
    window: list[torch.Tensor] = []
    figures: dict[str, Any] = log.last()
    started, since = time.monotonic(), tokens
    end = min(settings.steps, stop_at or settings.steps)
    if done > end:
        raise RunFolderError(
            f"{out} is at step {done:,}, beyond --stop-at {end:,}; give a later one, or start anew with --overwrite"
        )
    with progress(end, "pretraining", "steps", done=done) as shown:
        for step in range(done, end):
            batch = next(stream)
            tokens += batch.tokens
            characters += batch.characters
            window.append(gradients.of(batch.tensors))
            factor = linear_schedule(step, warmup=settings.warmup, total=settings.steps)
            norm = masters.step(factor)
            saved = (step + 1) % settings.save_every == 0 or step + 1 == end
            seen = {"step": step + 1, "tokens": tokens, "characters": characters}
            # A save ends a mean, for the batches behind a mean are not saved.
            if saved or (step + 1) % settings.log_every == 0:
                figures = seen | _figures(torch.stack(window).mean(0), factor, norm)
                figures["tokens_per_second"] = round(
                    (tokens - since) / (time.monotonic() - started), 1
                )
                started, since = time.monotonic(), tokens
                log.add(figures)
                window.clear()
            if saved:
                save_state(out, masters.tensors(), {"settings": key} | seen)
            shown.advance(1, f"loss {figures.get('mlm_loss', 0):.3f}" if figures else "")
    return masters.float32_state(model), figures


def plain_settings(settings: PretrainSettings) -> dict[str, Any]:
    """The settings as plain data; `pair_objective` only where it is off, as in older folders."""
    plain = asdict(settings)
    if settings.pair_objective:
        del plain["pair_objective"]
    return plain


def check_settings(settings: PretrainSettings, stop_at: int | None = None) -> None:
    """Raise ArgumentError for an invalid setting."""
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
    weights_dtype(settings.dtype)
    if not (0 < settings.lr < 1 and SEED["min"] <= settings.seed <= SEED["max"]):
        raise ArgumentError("--lr must lie between 0 and 1, --seed at 0 or above, below 2**32")
    shape = settings.shape
    shares = (shape.pair_share < 1, shape.negative_share <= 1, 0 < shape.masked_share <= 1)
    if not all(shares) or min(shape.pair_share, shape.negative_share) < 0:
        raise ArgumentError(
            "shape: give 0 ≤ pair_share < 1, 0 ≤ negative_share ≤ 1 and 0 < masked_share ≤ 1"
        )
    if not 8 <= shape.short <= shape.long <= shape.slots:
        raise ArgumentError(
            f"shape: rows of {shape.short} and {shape.long} tokens in {shape.slots} slots; give "
            "8 ≤ short ≤ long ≤ slots"
        )


def _figures(mean: torch.Tensor, factor: float, norm: torch.Tensor) -> dict[str, Any]:
    names = ("mlm_loss", "pair_loss", "mlm_accuracy", "pair_accuracy")
    rounded = {n: round(float(v), 5) for n, v in zip(names, mean, strict=True)}
    return {"rate": factor, "norm": round(float(norm), 4)} | rounded


@dataclass(frozen=True)
class NewShape:
    """The size of a model with random weights."""

    layers: int
    heads: int
    hidden: int
    positions: int = 128


def run_pretrain(
    init: Path,
    shards: list[Path],
    pairs: list[PairSource],
    out: Path,
    settings: PretrainSettings,
    *,
    shape: NewShape | None = None,
    device: str = "cpu",
    stop_at: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Pretrain from `init` (weights and tokenizer; with `shape` only its tokenizer) into `out`.

    `device` as in `open_device`; a run may resume on another. Returns `training.json` and the last
    figures of the log. Raises ArgumentError without text or for a missing device, CheckpointError for a
    folder that is no BERT, RunFolderError as `open_workspace` does.
    """
    if not shards:
        raise ArgumentError("pretraining needs text: give --text SHARD or a --recipe with `text`")
    check_settings(settings, stop_at)
    verify_folder(init)
    inputs = {
        "init": folder_sha256(init) if shape is None else None,
        "tokenizer": sha256_file(init / "tokenizer.json"),
        "size": None if shape is None else asdict(shape),
        "settings": plain_settings(settings),
        "stop_at": stop_at,
        "text": [sha256_file(shard) for shard in shards],
        "pairs": [source.options_key for source in pairs],
    }
    if resume and (finished := finished_facts(out, inputs)) is not None:
        return finished
    place = training_device(device, settings.dtype)
    work = open_workspace(out, resume=resume, overwrite=overwrite)
    tokenizer = open_tokenizer(init)
    corpus = load_corpus(init, shards, pairs, work / "corpus.npz")
    special = special_of(tokenizer, init)
    if shape is None:
        model = open_for_pretraining(init)
    else:
        model = new_model(vocabulary=special.vocabulary, seed=settings.seed, **asdict(shape))
    if settings.shape.long > model.config.max_position_embeddings:
        raise ArgumentError(
            f"rows of {settings.shape.long} tokens need as many positions; the model has "
            f"{model.config.max_position_embeddings}"
        )
    on_device(model, place, settings.dtype)

    facts = {
        "schema": 1,
        "init": init.name if shape is None else None,
        "text": [shard.name for shard in shards],
        "fragments": len(corpus.fragments),
        "pairs": len(corpus.first),
        "device": device_name(place),
        "dtype": settings.dtype,
        "asked": inputs,
    }

    identity = {k: v for k, v in inputs.items() if k in ("init", "tokenizer", "size")}
    identity["corpus"] = corpus.sha256
    state, figures = pretrain(
        model, corpus, special, settings, work, stop_at=stop_at, identity=identity
    )
    timeless = {k: v for k, v in figures.items() if k != "tokens_per_second"}
    save_checkpoint(
        out,
        model.float(),
        tokenizer,
        state=state,
        settings=tuned_settings(init, ModelLabels(0, None), settings.shape.long),
        texts=training_texts(work, facts | {"figures": timeless}),
        dtype=stored_dtype(init),
        overwrite=True,  # `open_workspace` has checked `out`
    )
    close_workspace(out)
    return facts | {"figures": figures}


def special_of(tokenizer: Any, folder: Path) -> SpecialTokens:
    """The special tokens of the tokenizer in `folder`. Raises CheckpointError where one is missing."""
    ids = {name: getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad", "mask")}
    absent = [name for name, number in ids.items() if number is None]
    if absent:
        raise CheckpointError(f"{folder}: the tokenizer has no [{absent[0].upper()}] token")
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    special = set(tokenizer.all_special_tokens)
    lengths = np.array([1 if t in special else len(t.removeprefix("##")) for t in tokens])
    return SpecialTokens(**ids, vocabulary=len(tokenizer), lengths=lengths)
