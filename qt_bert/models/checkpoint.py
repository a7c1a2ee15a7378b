"""Opening a sequence-classification folder, or refusing it with a reason; saving one whole."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging as hf_logging

from qt_bert.data.templates import TEMPLATES
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import ArgumentError, CheckpointError, RunFolderError
from qt_bert.files import atomic_folder, is_vacant
from qt_bert.heads import Shape
from qt_bert.models.card import CARD, ModelSettings, Reading, lists_grades, mark, read_settings
from qt_bert.models.devices import check_dtype, device_name, note_once, open_device
from qt_bert.models.families import Family, ReadOut, plain_family
from qt_bert.models.folder import (
    resolve_folder,
    stored_as,
    verify_folder,
    weight_shapes,
    weights_sha256,
    write_manifest,
)
from qt_bert.models.forward import Encoder
from qt_bert.models.loading import (
    LONGEST,
    PRETRAINED,
    check_all_read,
    load_config,
    load_weights,
    positions_of,
    stored_rows,
)
from qt_bert.models.origins import check_modules, word_ids
from qt_bert.models.outputs import in_order
from qt_bert.models.plain import PlainEncoder
from qt_bert.models.proof import Proof
from qt_bert.models.pruned import (
    Units,
    head_parameters,
    load_kept,
    open_kept,
    reference_of,
    smaller_model,
    with_absent_heads,
    with_own_widths,
)
from qt_bert.models.tokenizer import TYPES, choose_types, open_tokenizer, padding_of
from qt_bert.results.kept import KeptFile, KeptLayer

# How many compiled kernels oneDNN keeps.
#
# oneDNN compiles a kernel for each shape of a product and keeps a thousand of them, and torch as
# many again behind it, a megabyte each. A text met again is answered by its own kernels, some eight
# a layer, and by as many more for each layer that has heads or units of its own. Batches of a long
# stream come in ever new shapes, and no kernel is worth its memory there: such a process grows to
# gigabytes.


KEPT = 256
"""What a text needs in a model of 24 layers of which no two are alike."""

STREAM = 16
"""What one layer needs: the others find its kernels, if they are like it."""

_SETTINGS = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
_OURS = "QT_BERT_KERNEL_CACHES"
"""What a parent process has bounded them to, which its user did not ask for."""

_bounded: set[str] = set()


def bound_kernel_caches(kept: int = KEPT) -> None:
    """Have both keep at most `kept` kernels, unless the environment says how many.

    The first call counts. It acts on a process that has not computed yet: each reads its setting once,
    at its first product.
    """
    ours = os.environ.get(_OURS)
    for name in _SETTINGS:
        if name not in _bounded and os.environ.get(name, ours) == ours:
            os.environ[name] = os.environ[_OURS] = str(kept)
        _bounded.add(name)


# The classifier of a folder in float32, pruned or whole.


def stored_classifier(
    folder: Path,
    family: Family,
    *,
    attention: str,
    compact: bool,
    answers: Callable[[], tuple[int, int]] | None = None,
) -> tuple[Any, KeptFile | None]:
    """The model of a verified folder, and what it keeps of its teacher.

    `attention` and `compact` as in `open_checkpoint`; `answers` gives the token ids of yes and no of a
    causal language model. Raises CheckpointError for weights that do not fit the config, and for one
    that is missing.
    """
    shapes = weight_shapes(folder)
    config = load_config(folder)
    check_modules(folder)
    if answers is not None and is_language_model(folder, family, shapes):
        return _answering(folder, config, shapes, attention, answers()), None
    if family.fast:
        _classifier_fits(folder, family.classifier, shapes, config.num_labels)
    kept = open_kept(folder, config)
    if kept is None:
        return _weights(folder, config, attention), None
    loaded = load_kept(folder, config, family, kept, attention)
    if not compact:
        with_absent_heads(loaded, family, kept.layers, kept.teacher.heads)
    return loaded, kept


def is_language_model(folder: Path, family: Family, shapes: Mapping[str, Any]) -> bool:
    """Whether the weights are a causal language model's, without a classifier."""
    return family.causal and stored_as(shapes, family.classifier) is None


def _answering(
    folder: Path, config: Any, shapes: Mapping[str, Any], attention: str, answers: tuple[int, int]
) -> Any:
    """A causal language model as a classifier of one logit: log p(yes) − log p(no) of the next token.

    That is the difference of two rows of its output matrix, which may be its embeddings.
    """
    config.num_labels = 1
    model, info = load_weights(
        AutoModelForSequenceClassification, folder, config, attention=attention
    )
    missing = sorted(set(info["missing_keys"]) - {"score.weight"})
    if missing:
        raise CheckpointError(f"{folder}: {len(missing)} weights are missing ({missing[0]}…)")
    if config.tie_word_embeddings:
        rows = model.get_input_embeddings().weight[list(answers)]
    elif head := stored_as(shapes, "lm_head.weight"):
        rows = stored_rows(folder, head, answers)
    else:
        raise CheckpointError(f"{folder}: lm_head.weight is missing, and it is not the embeddings")
    with torch.no_grad():
        model.score.weight.copy_((rows[0].float() - rows[1].float())[None])
    return model


def _classifier_fits(
    folder: Path, classifier: str, shapes: dict[str, list[int]], labels: int
) -> None:
    stored = stored_as(shapes, classifier)
    if stored is None:
        heads = [n for n, shape in shapes.items() if len(shape) == 2 and not PRETRAINED.search(n)]
        why = "this is an encoder that was never fine-tuned for classification:"
        if heads:
            why = f"if it is {' or '.join(heads[:3])} in a model of another build, save it under that name, or"
        raise CheckpointError(
            f"{folder}: no classifier ({classifier}); {why} tune it with `qt-bert train`"
        )
    if shapes[stored][0] != labels:
        raise CheckpointError(
            f"{folder}: config.json speaks of {labels} labels, the classifier has {shapes[stored][0]} rows; "
            "id2label must name each"
        )


def _weights(folder: Path, config: Any, attention: str) -> Any:
    loaded, info = load_weights(
        AutoModelForSequenceClassification, folder, config, attention=attention
    )
    missing, spare = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    if missing:
        unplaced = f", and {', '.join(spare[:3])} have no place" if spare else ""
        raise CheckpointError(
            f"{folder}: {len(missing)} weights are missing ({', '.join(missing[:3])}…){unplaced}; "
            "transformers would start them at random, so the folder is refused"
        )
    check_all_read(folder, spare)
    return loaded


# Opening a sequence-classification folder, or refusing it with a reason.


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX-512 BF16 or AMX); True where unknown."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return True
    flags = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return not flags.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})


@dataclass
class Checkpoint:
    """An opened classifier: the model in eval mode, its tokenizer and its labels.

    `model` is the Hugging Face model of a cross-encoder of `family`.
    `kept` says what a smaller model keeps of its teacher. Unless it is `compact`, heads that were
    pruned stand as zeros in `model`, so that every head has its number in the teacher. Where its
    `padding_leaks` into the logits, batches hold pairs of one length.
    """

    name: str
    folder: Path
    model: Any
    tokenizer: Any
    family: Family
    settings: ModelSettings
    dtype: str
    kept: KeptFile | None = None
    compact: bool = False
    reading: Reading = Reading()
    model_grades: str | None = None
    padding_leaks: bool = False

    def encoder(self) -> Encoder:
        """The layer-by-layer forward, built anew: a change of the model's weights is not seen."""
        if not self.family.fast:
            types = TYPES in self.tokenizer.model_input_names
            return PlainEncoder(self.model, self.family, types=types)  # type: ignore[return-value]
        return Encoder(self.model, self.family)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def reads(self) -> ReadOut:
        """Which token's last state the classifier reads."""
        return self.family.read_out(self.model.config)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """How far a token of each layer sees to either side, None as far as the text goes.

        Empty where all see that far.
        """
        if self.family.parts.window is None:
            return ()
        found = tuple(map(self.family.window, self.family.layers_of(self.model)))
        return () if found.count(None) == len(found) else found

    @property
    def layers(self) -> int:
        return int(self.model.config.num_hidden_layers)

    @property
    def heads(self) -> int:
        return int(getattr(self.model.config, "num_attention_heads", 0))  # FNet has none

    @property
    def shape(self) -> Shape:
        """Layers and heads; `absent` are the heads that stand as zeros."""
        full = Shape(self.layers, self.heads)
        if self.kept is None or self.compact:
            return full
        there = {(place, head) for place, one in enumerate(self.kept.layers) for head in one.heads}
        return full._replace(absent=frozenset(full.all_heads) - there)

    @property
    def parameters(self) -> int:
        """Numbers that the model learned; heads of zeros do not count."""
        learned = sum(p.numel() for p in self.model.parameters())
        absent = len(self.shape.absent)
        if not absent:
            return learned
        lowest = self.family.layers_of(self.model)[0]
        return learned - round(absent * head_parameters(self.family, lowest))

    @property
    def pad(self) -> int:
        """The token id of padding."""
        return int(self.model.config.pad_token_id or 0)

    @property
    def longest(self) -> int:
        """Tokens the position embeddings have room for."""
        return positions_of(self.model.config)

    @property
    def sha256(self) -> str:
        """Hash of the stored weights."""
        return weights_sha256(self.folder)

    def again(self, **changes: Any) -> Checkpoint:
        """Its folder opened anew by `open_checkpoint`, in its own way but for `changes`, every head in place."""
        own: dict[str, Any] = {"dtype": self.dtype, "device": str(self.device)}
        own |= {"model_grades": self.model_grades, "reading": self.reading}
        return open_checkpoint(self.folder, **(own | changes))

    def pair_tokenizer(self, max_length: int | None = None) -> PairTokenizer:
        """A tokenizer of its own (safe beside others in threads) for pairs up to `max_length`."""
        wanted = self.settings.max_length if max_length is None else max_length
        last = self.pad if self.reads == "last" else None
        asking, rows = self.settings.template, self.model.config.vocab_size
        return PairTokenizer(self.tokenizer, wanted, last=last, template=asking, rows=rows)

    def describe(self) -> dict[str, Any]:
        """Plain facts for reports and run records."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "family": self.family.model_type,
            "parameters": self.parameters,
            "layers": self.layers,
            "heads": self.heads,
            "hidden": int(self.model.config.hidden_size),
            "max_length": self.settings.max_length,
            "dtype": self.dtype,
            "device": device_name(self.device),
            **{name: value for name, value in asdict(self.reading).items() if value},
            **({} if self.kept is None else {"teacher": self.kept.teacher.name}),
        }


def open_checkpoint(
    model: str | Path,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    attention: str = "eager",
    model_grades: str | None = None,
    reading: Reading | None = None,
    compact: bool = False,
) -> Checkpoint:
    """Open a sequence-classification checkpoint for analysis.

    `dtype` and `device` as `check_dtype` and `open_device` take them, whose ArgumentError they raise;
    `attention` is the Hugging Face kernel of `.model`; `reading` how texts are read; a causal
    language model that is asked in a template has one logit. The model is proved from raw text (`proof`).
    What the fast engine does not know, or does otherwise than transformers, runs as transformers runs it,
    with a line that says so. A model whose heads were pruned gets heads of
    zeros in their place, so that probes and masks know each head by its number in the teacher;
    `compact` leaves them out, which is faster and gives the same logits.

    Raises CheckpointError for every fault of the folder (see `verify_folder`), for weights that do
    not fit the config, and for an encoder or classifier weight that is missing, which transformers
    would start at random.
    """
    reading = reading or Reading()
    place = open_device(device)
    number = check_dtype(dtype, place)
    bound_kernel_caches()
    folder = resolve_folder(model)
    _, family = verify_folder(folder)
    tokenizer = open_tokenizer(folder, allow_unknown=reading.allow_unknown)
    if reading.template is not None and not family.causal:
        note_once(f"{folder}: no causal model, so --template is not used")
        reading = replace(reading, template=None)
    template = reading.template

    def answers() -> tuple[int, int]:
        asking = read_settings(folder, 1, LONGEST, None, template).template
        if asking is None:
            raise CheckpointError(
                f"{folder}: a causal language model without a classifier; say how it is asked: "
                f"--template {min(TEMPLATES)}, or `template` in {CARD}"
            )
        return word_ids(tokenizer, asking, str(folder))

    loaded, kept = stored_classifier(
        folder, family, attention=attention, compact=compact, answers=answers
    )
    loaded, config = loaded.to(place, number).eval(), loaded.config
    vocabulary, rows = tokenizer.get_vocab(), config.vocab_size
    if beyond := [token for token, number in vocabulary.items() if number >= rows]:
        known = f"{folder}: {len(beyond)} of the tokenizer's {len(vocabulary)} tokens ({beyond[0]!r}…) lie beyond "
        known += f"the model's {rows} embeddings"
        if 10 * len(beyond) >= len(vocabulary) or max(tokenizer("a", "b")["input_ids"]) >= rows:
            raise CheckpointError(f"{known}; the vocabulary belongs to another model")
        note_once(f"{known}; a pair with such a token is refused")
    config.pad_token_id = padding_of(tokenizer, config)
    takes = TYPES in inspect.signature(loaded.forward).parameters
    choose_types(tokenizer, config, takes, folder, reading.token_types)
    settings = read_settings(
        folder, config.num_labels, positions_of(config), model_grades, template
    )
    settled = model_grades is not None or lists_grades(folder)
    labels = in_order(settings.labels, config, folder, settled=settled)
    settings = replace(settings, labels=labels)
    if labels.order:
        put_in_order(loaded, labels.order)
    opened = Checkpoint(
        folder.name,
        folder,
        loaded,
        tokenizer,
        family,
        settings,
        dtype,
        kept,
        compact,
        reading,
        model_grades,
    )
    return _proved(opened)


def _proved(opened: Checkpoint) -> Checkpoint:
    """`opened` on the fast engine where that gives what transformers gives; else as transformers runs it.

    A model whose padding leaks into its logits then gets batches of one length. Raises CheckpointError
    where not even that gives transformers' logits of raw text.
    """
    proof, family = Proof(opened), opened.family
    if family.fast:
        why = family.cannot(opened.model.config) or proof.fast_fault()
    else:
        why = f"the fast engine does not know {family.model_type}"
    if not why:
        return opened
    opened = replace(opened, family=plain_family(family.model_type))
    plain = opened.encoder()
    if fault := proof.fault_of(plain, padded=False):
        raise CheckpointError(f"{opened.folder}: {fault}")
    leaks = proof.fault_of(plain, padded=True)
    if leaks:
        leaks = f"; {leaks}: padding reaches them, so batches hold pairs of one length"
    note_once(
        f"{opened.name} is opened as transformers runs it ({why}): it can be scored, evaluated, compared, "
        "calibrated and explained by terms, and heads left out; the fast engine would add maps, sweeps, "
        f"probes, plans and training{leaks}"
    )
    return replace(opened, padding_leaks=bool(leaks))


@torch.no_grad()
def put_in_order(model: Any, order: Sequence[int]) -> None:
    """Give the classifier its rows in this order. Raises CheckpointError where it is no linear layer."""
    encoder = set(model.base_model.modules())
    linear = [one for one in model.modules() if one not in encoder and hasattr(one, "out_features")]
    if not linear or linear[-1].out_features != len(order):
        raise CheckpointError(f"the outputs of a {model.config.model_type} cannot be put in order")
    for parameter in linear[-1].parameters():
        parameter.copy_(parameter[list(order)])
    names = [model.config.id2label[place] for place in order]
    model.config.id2label = dict(enumerate(names))
    model.config.label2id = {name: place for place, name in enumerate(names)}


def smaller_checkpoint(
    checkpoint: Checkpoint,
    kept: Sequence[KeptLayer],
    *,
    units: Units | None = None,
    fold: torch.Tensor | None = None,
) -> Checkpoint:
    """`checkpoint` with the model that `smaller_model` makes of it; its folder is the teacher's.

    Raises ArgumentError as `smaller_model` does, and for a teacher whose own heads were pruned.
    """
    if checkpoint.kept is not None and not checkpoint.kept.whole_heads:
        raise ArgumentError(
            f"{checkpoint.name} was pruned itself: plan and prune from its teacher, "
            f"{checkpoint.kept.teacher.name}"
        )
    model, family = checkpoint.model, checkpoint.family
    teacher = reference_of(model, family, checkpoint.name, checkpoint.sha256)
    return replace(
        checkpoint,
        model=smaller_model(model, family, kept, units=units, fold=fold),
        kept=KeptFile.of(teacher, with_own_widths(model, family, kept)),
        compact=True,
    )


# Saving a checkpoint as a plain Hugging Face folder: whole, or not at all.


def check_place(folder: Path, overwrite: bool) -> None:
    """Raise RunFolderError where no model can be saved in `folder`: a file, or it holds anything and
    `overwrite` is False."""
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file; --out names a folder")
    if not is_vacant(folder) and not overwrite:
        raise RunFolderError(f"{folder} is not empty; choose another folder, or --overwrite")


def save_checkpoint(
    folder: str | Path,
    model: Any,
    tokenizer: Any,
    *,
    state: Mapping[str, torch.Tensor] | None = None,
    settings: ModelSettings | None = None,
    texts: Mapping[str, str] | None = None,
    dtype: torch.dtype = torch.float16,
    plain: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write config, weights (`state` or the model's own, cast to `dtype`), tokenizer and manifest.

    The config keeps the model's own dtype, so that the Auto classes open float16 files in float32.
    `settings` becomes `qt_bert.json`; `texts` are further files, name → content. The config of a
    pruned model that is not `plain` (`is_plain`) says that it is one.

    The folder is written whole or not at all (`atomic_folder`). Raises RunFolderError as
    `check_place` does.
    """
    final = Path(folder)
    check_place(final, overwrite)
    with atomic_folder(final) as temporary:
        source = model.state_dict() if state is None else state
        tied = getattr(model, "_tied_weights_keys", None) or {}
        weights = {k: v.to(dtype) for k, v in source.items() if k not in tied}
        hf_logging.disable_progress_bar()
        # In the names of the modules, which differ from those that GTE's authors gave.
        model.save_pretrained(temporary, state_dict=weights, save_original_format=False)
        tokenizer.save_pretrained(temporary)
        if settings is not None:
            settings.write(temporary)
        if not plain:
            mark(temporary)
        for name, text in (texts or {}).items():
            (temporary / name).write_text(text, encoding="utf-8")
        write_manifest(temporary)
    return final
