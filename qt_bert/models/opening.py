"""Opening a sequence-classification folder, or refusing it with a reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification

from qt_bert.data.templates import TEMPLATES
from qt_bert.errors import CheckpointError
from qt_bert.models.card import CARD, Reading, lists_grades, read_settings
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import bound_kernel_caches, check_dtype, open_device
from qt_bert.models.families import Family, plain_family
from qt_bert.models.folder import (
    FolderHashes,
    resolve_folder,
    stored_as,
    verify_folder,
    weight_shapes,
    weights_sha256,
)
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
from qt_bert.models.proof import Proof
from qt_bert.models.pruned import load_kept, open_kept, with_absent_heads
from qt_bert.models.tokenizer import TYPES, choose_types, open_tokenizer, padding_of
from qt_bert.progress import note_once
from qt_bert.results.kept import KeptFile


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

    `dtype` and `device` as for `check_dtype` and `open_device`, which raise ArgumentError; `attention` is
    the Hugging Face kernel of `.model`; `reading` how texts are read; a causal language model with a
    template has one logit. The model is checked on raw text (`proof`). Where the fast engine does not
    know it, or gives other logits than transformers, it runs in transformers' forward, with a note. A
    pruned model gets heads of zeros, so that each head keeps its number in the teacher; `compact` leaves
    them out, which is faster and gives the same logits.

    Raises CheckpointError for every fault of the folder (see `verify_folder`), for weights that do not
    fit the config, and for a missing weight, which transformers would start at random.
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

    def answers() -> tuple[int, int]:
        prompt = read_settings(folder, 1, LONGEST, None, reading).template
        if prompt is None:
            raise CheckpointError(
                f"{folder}: a causal language model without a classifier; give its prompt: "
                f"--template {min(TEMPLATES)} where the command has it, or `template` in {CARD}"
            )
        return word_ids(tokenizer, prompt, str(folder))

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
    settings = read_settings(folder, config.num_labels, positions_of(config), model_grades, reading)
    choose_types(tokenizer, config, takes, folder, settings.token_types)
    settled = model_grades is not None or lists_grades(folder)
    labels = in_order(settings.labels, config, folder, settled=settled)
    settings = replace(settings, labels=labels)
    if labels.order:
        put_in_order(loaded, labels.order)
    hashes, fitted = FolderHashes(folder), settings.calibration or {}
    if "weights" in fitted and fitted["weights"] != hashes.of(weights_sha256, ".safetensors"):
        note_once(
            f"{folder}: the calibration in {CARD} was fitted to other weights and is left out; run "
            "qt-bert calibrate again"
        )
        settings = replace(settings, calibration=None)
    opened = Checkpoint(
        folder.name,
        folder,
        loaded,
        tokenizer,
        family,
        settings,
        dtype,
        hashes,
        kept,
        compact,
        reading,
        model_grades,
    )
    return _proved(opened)


def reopened(checkpoint: Checkpoint, **changes: Any) -> Checkpoint:
    """The checkpoint's folder, its weights unchanged, opened again with its options but `changes`, not compact."""
    checkpoint.hashes.check(".safetensors")
    options: dict[str, Any] = {"dtype": checkpoint.dtype, "device": str(checkpoint.device)}
    options |= {"model_grades": checkpoint.model_grades, "reading": checkpoint.reading}
    return open_checkpoint(checkpoint.folder, **(options | changes))


def _proved(opened: Checkpoint) -> Checkpoint:
    """`opened` on the fast engine where its logits are transformers', else in transformers' forward.

    There, a model whose padding leaks into its logits gets batches of one length. Raises CheckpointError
    where that forward on our tokens gives other logits than on raw text.
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
        f"{opened.name} runs in transformers' forward ({why}): it can be scored, evaluated, compared, "
        "calibrated, explained by terms and run without some heads; maps, sweeps, probes, plans and "
        f"training need the fast engine{leaks}"
    )
    return replace(opened, padding_leaks=bool(leaks))


@torch.no_grad()
def put_in_order(model: Any, order: Sequence[int]) -> None:
    """Reorder the rows of the classifier. Raises CheckpointError where it is no linear layer."""
    encoder = set(model.base_model.modules())
    linear = [
        module
        for module in model.modules()
        if module not in encoder and hasattr(module, "out_features")
    ]
    if not linear or linear[-1].out_features != len(order):
        raise CheckpointError(f"the outputs of a {model.config.model_type} cannot be put in order")
    for parameter in linear[-1].parameters():
        parameter.copy_(parameter[list(order)])
    names = [model.config.id2label[place] for place in order]
    model.config.id2label = dict(enumerate(names))
    model.config.label2id = {name: place for place, name in enumerate(names)}


def stored_classifier(
    folder: Path,
    family: Family,
    *,
    attention: str,
    compact: bool,
    answers: Callable[[], tuple[int, int]] | None = None,
) -> tuple[Any, KeptFile | None]:
    """The model of a verified folder in float32, and its `kept.json`, if any.

    `attention` and `compact` as in `open_checkpoint`; `answers` gives the token ids of yes and no of a
    causal language model. Raises CheckpointError for weights that do not fit the config, and for one
    that is missing.
    """
    shapes = weight_shapes(folder)
    config = load_config(folder)
    check_modules(folder)
    if answers is not None and family.causal and stored_as(shapes, family.classifier) is None:
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


def _answering(
    folder: Path, config: Any, shapes: Mapping[str, Any], attention: str, answers: tuple[int, int]
) -> Any:
    """A causal language model as a classifier of one logit: log p(yes) − log p(no) of the next token.

    That is the difference of two rows of its output matrix, which may be its embeddings.
    """
    config.num_labels = 1
    model = _weights(folder, config, attention, made=("score.weight",))
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
            f"{folder}: config.json has {labels} labels, the classifier has {shapes[stored][0]} rows; "
            "id2label must name each"
        )


def _weights(folder: Path, config: Any, attention: str, made: Sequence[str] = ()) -> Any:
    """The classifier as stored; the weights `made` are made of others."""
    loaded, info = load_weights(
        AutoModelForSequenceClassification, folder, config, attention=attention
    )
    missing = sorted({*info["missing_keys"]} - {*made})
    spare = sorted(info["unexpected_keys"])
    if missing:
        unplaced = f", and {', '.join(spare[:3])} have no place" if spare else ""
        raise CheckpointError(
            f"{folder}: {len(missing)} weights are missing ({', '.join(missing[:3])}…){unplaced}; "
            "transformers would start them at random, so the folder is refused"
        )
    check_all_read(folder, spare)
    return loaded
