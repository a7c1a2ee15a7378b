"""Reading weights through transformers: safetensors only, every fault a CheckpointError."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, BertForPreTraining
from transformers.utils import logging as hf_logging

from qt_bert.errors import CheckpointError
from qt_bert.files import read_json
from qt_bert.models.card import unmarked
from qt_bert.models.families import Family, counts_behind_padding, needs_fast
from qt_bert.models.folder import stored_as, verify_folder, weight_files, weight_shapes
from qt_bert.models.origins import adapted
from qt_bert.progress import note_once
from qt_bert.results.kept import KEPT


@contextmanager
def quietly() -> Iterator[None]:
    """Silence transformers' warnings in the block: their causes are checked here."""
    verbosity = hf_logging.get_verbosity()
    hf_logging.set_verbosity_error()
    hf_logging.disable_progress_bar()
    try:
        yield
    finally:
        hf_logging.set_verbosity(verbosity)


def load_config(folder: Path) -> Any:
    """The folder's config. Raises CheckpointError where transformers cannot read it."""
    try:
        stored = read_json(folder / "config.json")
        ours = adapted(unmarked(stored), folder / "config.json")
        if ours != stored:
            return AutoConfig.for_model(**ours)
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except CheckpointError:
        raise
    except Exception as error:  # transformers validates fields with errors of many kinds
        raise CheckpointError(f"{folder / 'config.json'}: {error}") from error


def positions_of(config: Any) -> int:
    """Positions for a text: RoBERTa types reserve the first padding_idx + 1."""
    kept = config.pad_token_id + 1 if counts_behind_padding(config.model_type) else 0
    return int(getattr(config, "max_position_embeddings", None) or LONGEST) - kept


LONGEST = 8192
"""Most tokens of a pair, for a model with unlimited positions."""


def without_dropout(config: Any) -> Any:
    """The config with every dropout at 0: the order of the data is the only randomness of training."""
    for name, value in list(vars(config).items()):
        if "dropout" in name and (value is None or type(value) in (int, float)):
            setattr(config, name, 0.0)
    return config


def load_weights(
    auto_class: Any, folder: Path, config: Any, *, attention: str = "eager", resize: bool = False
) -> tuple[Any, dict[str, Any]]:
    """(model in float32, transformers' report of missing and unexpected weights).

    `resize` lets weights of another shape start at random (a new classifier). A wrapper's prefix of the
    names (`module.`, `_orig_mod.`) is removed, with a note. Raises CheckpointError where a file is
    truncated or the weights do not fit the config.
    """
    stored = weight_shapes(folder)
    how: dict[str, Any] = {
        "config": config,
        "dtype": torch.float32,
        "attn_implementation": attention,
        "use_safetensors": True,
        "trust_remote_code": False,
        "ignore_mismatched_sizes": True,
        "output_loading_info": True,
    }
    try:
        with quietly():
            model, info = auto_class.from_pretrained(folder, **how)
            for name in sorted(info["missing_keys"]):
                if prefix := (stored_as(stored, name) or "").removesuffix(name):
                    note_once(
                        f"{folder}: the weights' names begin with {prefix}, read as a wrapper's"
                    )
                    how["key_mapping"] = {f"^{re.escape(prefix)}": ""}
                    model, info = auto_class.from_pretrained(folder, **how)
                    break
    except Exception as error:  # shapes, headers, config: transformers has no common error
        raise CheckpointError(f"{folder}: the weights do not fit the config ({error})") from error
    if info["mismatched_keys"] and not resize:
        name, stored_size, expected_size = min(info["mismatched_keys"])
        raise CheckpointError(
            f"{folder}: the weights do not fit the config: {name} is {list(stored_size)}, config.json makes it "
            f"{list(expected_size)} (its id2label names {config.num_labels} outputs)"
        )
    return model, info


# Unread heads of pretraining and poolers are no fault; layers are.
_ENCODER_WEIGHT = re.compile(
    r"(^|\.)(layers?\.\d+|embeddings|embed_tokens)\.(?!position_ids$|token_type_ids$)"
)


PRETRAINED = re.compile(
    rf"{_ENCODER_WEIGHT.pattern}|(^|\.)(position_ids|token_type_ids|rel_embeddings|pooler|cls\.(predictions|seq\w+)"
    r"|head\.(dense|norm)|decoder|(lm|mlm|mask|generator|discriminator)_\w+)(\.|$)"
)
"""Weights of encoders and of the heads that they were pretrained with."""


def check_all_read(folder: Path, unexpected: Iterable[str]) -> None:
    """Raise CheckpointError for stored weights of the encoder without a place in the model; note others."""
    unread = sorted(name for name in unexpected if _ENCODER_WEIGHT.search(name))
    if unread:
        raise CheckpointError(
            f"{folder}: config.json has no place for {len(unread)} stored weights "
            f"({', '.join(unread[:3])}…); the grades would be another model's, so the folder is refused"
        )
    if others := sorted(name for name in unexpected if not PRETRAINED.search(name)):
        note_once(f"{folder}: stored weights without a place are not read: {', '.join(others[:3])}")


def stored_dtype(folder: Path) -> torch.dtype:
    """The widest number type among the folder's stored tensors: float32, bfloat16 or float16."""
    from safetensors import safe_open

    types: set[str] = set()
    for path in weight_files(folder):
        with safe_open(path, "pt") as handle:
            types |= {handle.get_slice(name).get_dtype() for name in handle.keys()}  # noqa: SIM118
    if types <= {"F16"}:
        return torch.float16
    return torch.bfloat16 if types <= {"BF16"} else torch.float32


def stored_rows(folder: Path, name: str, rows: Sequence[int]) -> torch.Tensor:
    """Some rows of a stored tensor, read without the others."""
    from safetensors import safe_open

    for path in weight_files(folder):
        with safe_open(path, "pt") as handle:
            if name in handle.keys():  # noqa: SIM118 - not a mapping
                stored = handle.get_slice(name)
                return torch.cat([stored[row : row + 1] for row in rows])
    raise CheckpointError(f"{folder}: {name} is missing")


def tunable(folder: Path) -> Family:
    """The family of a folder that can be trained. Raises CheckpointError where it cannot."""
    _, family = verify_folder(folder)
    if not family.fast:
        raise CheckpointError(f"{folder}: {needs_fast(family.model_type)}")
    return family


def open_for_tuning(folder: Path, labels: int) -> tuple[Any, Family]:
    """The model and family of `open_encoder`."""
    return open_encoder(folder, labels)[:2]


def open_encoder(folder: Path, labels: int) -> tuple[Any, Family, frozenset[str]]:
    """A sequence classifier with `labels` outputs whose encoder comes from `folder`, in float32.

    Pooler and classifier may be absent (they start at random, from torch's seed); a classifier of
    another size is replaced; dropout is off. The third result names the absent weights. Raises
    CheckpointError where an encoder weight is missing, and as `verify_folder` does.
    """
    family = tunable(folder)
    config = without_dropout(load_config(folder))
    config.id2label = config.problem_type = None  # those of the outputs that go
    config.num_labels = labels
    model, info = load_weights(AutoModelForSequenceClassification, folder, config, resize=True)
    absent = frozenset(info["missing_keys"]) | {key[0] for key in info["mismatched_keys"]}
    lost = [
        name for name in absent if name.startswith(f"{family.backbone}.") and ".pooler." not in name
    ]
    if lost:
        if (folder / KEPT).exists():
            raise CheckpointError(
                f"{folder}: a pruned model, whose layers differ in heads or units ({KEPT}); to train it on, give "
                "its plan to `qt-bert distill`"
            )
        raise CheckpointError(
            f"{folder}: encoder weights are missing or of another size: {min(lost)}"
        )
    check_all_read(folder, info["unexpected_keys"])
    return model, family, absent


def open_for_pretraining(folder: Path) -> BertForPreTraining:
    """The `BertForPreTraining` of a folder, in float32, dropout off.

    Raises CheckpointError for another family, for missing weights, and as `verify_folder` does.
    """
    config, family = verify_folder(folder)
    if family.model_type != "bert":
        raise CheckpointError(
            f"{folder}: pretraining continues from a BERT, not {config['model_type']}"
        )
    model, info = load_weights(BertForPreTraining, folder, without_dropout(load_config(folder)))
    if info["missing_keys"]:
        raise CheckpointError(
            f"{folder}: weights are missing ({min(info['missing_keys'])}); pretraining continues from a "
            "BertForPreTraining folder"
        )
    loaded: BertForPreTraining = model
    return loaded
