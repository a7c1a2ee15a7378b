"""A model's folder: where it is, its manifest, and checks before any weight is read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qt_bert.data.scores import column_of
from qt_bert.errors import CheckpointError
from qt_bert.files import read_json, sha256_file, write_json
from qt_bert.models.card import check_readable, unmarked
from qt_bert.models.families import Family, family_of
from qt_bert.models.origins import adapted, modules_of
from qt_bert.progress import note_once

_HUB_FILES = ["*.safetensors", "*.json", "*.txt", "*.model"]


def resolve_folder(model: str | Path) -> Path:
    """A local folder (or the one that its `modules.json` names), else the fetched weights of a hub name,
    never code. Raises CheckpointError where neither exists, and for a column of scores."""
    if column_of(str(model)) is not None:
        raise CheckpointError(f"{model} is a column of scores; this needs a model: name its folder")
    path = Path(model)
    if path.is_dir() and not (path / "config.json").exists():
        inner = (place for place, kind in modules_of(path).items() if kind == "Transformer")
        return path / next(inner, "")
    if path.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(model)):
        return path
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(model), allow_patterns=_HUB_FILES))
    except Exception as error:  # the hub client has no one base class for what can go wrong
        raise CheckpointError(
            f"{model}: no such folder, and it could not be fetched from the hub "
            f"({type(error).__name__}); give a local folder"
        ) from error


# A SHA-256 manifest beside the weights: safetensors has no checksum, a flipped bit loads silently.


MANIFEST = "manifest.json"
HEADS = "heads.json"
"""The results of a study of the heads; it changes no output and is rewritten by every study, so no hash
of the folder covers it."""


def _covered(folder: Path) -> list[Path]:
    """The files that a hash of the folder covers: no hidden ones, such as locks of what is written into it."""
    found = folder.glob("[!.]*")
    return sorted(file for file in found if file.is_file() and file.name != HEADS)


def write_manifest(folder: Path, without: str = "") -> None:
    """Hash the visible files of `folder` but `heads.json` and the one named `without` into `manifest.json`."""
    files = [file for file in _covered(folder) if file.name not in (MANIFEST, without)]
    write_json(folder / MANIFEST, {"schema": 1, "sha256": {p.name: sha256_file(p) for p in files}})


def verify_manifest(folder: Path) -> None:
    """Compare the files of `folder` with its manifest; folders without one pass.

    Raises CheckpointError naming the first file that is missing or differs, or where the manifest
    is invalid.
    """
    path = folder / MANIFEST
    if not path.exists():
        return
    for name, expected in _listed(path).items():
        file = folder / name
        if not file.is_file():
            raise CheckpointError(f"{folder}: {name} is missing, though {MANIFEST} lists it")
        if sha256_file(file) != expected:
            raise CheckpointError(
                f"{file}: the bytes differ from {MANIFEST} (damaged, or changed after saving); "
                "fetch the folder anew, or delete the manifest if you changed the file yourself"
            )


def _listed(path: Path) -> dict[str, str]:
    """File name → hash."""
    try:
        listed = read_json(path)["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: not a manifest ({error}); fetch the folder anew") from error
    if not isinstance(listed, dict):
        raise CheckpointError(f"{path}: not a manifest (`sha256` is no object); fetch it anew")
    for name, expected in listed.items():
        if not name or Path(name).name != name or not isinstance(expected, str):
            raise CheckpointError(
                f"{path}: not a manifest ({name!r} is no file name with a hash); fetch it anew"
            )
    return listed


def weights_sha256(folder: Path) -> str:
    """One hash for the weights of a folder: of its safetensors file, or of all shards' hashes."""
    shards = sorted(folder.glob("*.safetensors"))
    if len(shards) == 1:
        return sha256_file(shards[0])
    return hashlib.sha256("".join(sha256_file(s) for s in shards).encode()).hexdigest()


def stored_bytes(folder: Path) -> int:
    """Bytes of the weights of a folder."""
    return sum(file.stat().st_size for file in weight_files(folder))


def folder_sha256(folder: Path) -> str:
    """One hash for all that a folder's outputs depend on: the name and bytes of each visible file."""
    listed = "".join(f"{file.name} {sha256_file(file)}\n" for file in _covered(folder))
    return hashlib.sha256(listed.encode()).hexdigest()


class FolderHashes:
    """The hashes of a folder as it was opened, each computed when it is first needed; with a `salt`, those of
    another model made of it."""

    def __init__(self, folder: Path, salt: str = "") -> None:
        self.folder, self.salt, self._opened = folder, salt, _stamps(folder)
        self._known: dict[Callable[[Path], str], str] = {}

    def of(self, hashed: Callable[[Path], str], suffix: str = "") -> str:
        """`weights_sha256` or `folder_sha256`. Raises as `check`, unless it is known."""
        if hashed not in self._known:
            self.check(suffix)
            value = hashed(self.folder)
            if self.salt:
                value = hashlib.sha256(f"{value} {self.salt}".encode()).hexdigest()
            self._known[hashed] = value
        return self._known[hashed]

    def check(self, suffix: str = "") -> None:
        """Raise CheckpointError where a file whose name ends in `suffix` has changed since."""
        if any(name.endswith(suffix) for name, *_ in self._opened ^ _stamps(self.folder)):
            raise CheckpointError(f"{self.folder}: changed since it was opened; open it again")


def _stamps(folder: Path) -> set[tuple[str, int, int]]:
    """Name, bytes and time of each file."""
    stats = {file.name: file.stat() for file in _covered(folder)}
    return {(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}


# Checks of a model folder before any weight is read; each fault has its own error.


_VOCABULARIES = ("tokenizer.json", "vocab*", "*.model", "*.vocab", "*.tiktoken")
_SHORT = ("I8", "U8", "F8", "F6_", "F4", "E8")
_NOT_READ = "*.safetensors *.onnx */*.onnx *.h5 *.msgpack *.pdparams pytorch_model*.bin *.pt *.pth *.ckpt *.pkl"
"""Weights of other kinds; those of pickles can run code when opened."""


_SIZES = {
    "num_hidden_layers": 1_000,
    "num_attention_heads": 1_000,
    "num_labels": 10_000,
    "hidden_size": 100_000,
    "intermediate_size": 1_000_000,
    "max_position_embeddings": 10_000_000,
    "vocab_size": 10_000_000,
}
"""Upper bounds on the sizes in a config, which determine memory."""


def verify_folder(folder: Path) -> tuple[dict[str, Any], Family]:
    """Check a checkpoint folder; returns its config and family.

    Raises CheckpointError for no folder, no or a broken config.json, a type that needs its own code
    (`auto_map`), an unknown family, pickled or missing weights, a missing vocabulary, a damaged file, and
    as `check_readable` does.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder; give a folder with config.json")
    if adapters := [*folder.glob("adapter_config.json"), *folder.glob("adapter_model.*")]:
        raise CheckpointError(
            f"{folder}: {adapters[0].name} is of an adapter (LoRA), which is not applied; merge it by peft's "
            "`model.merge_and_unload().save_pretrained(...)`, or remove it where that is done"
        )
    stored = _config(folder)
    check_readable(folder, stored)
    try:
        config = adapted(unmarked(stored), folder / "config.json")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{folder / 'config.json'}: no config of GTE ({type(error).__name__}: {error}); fetch it anew"
        ) from error
    has_code = bool(stored.get("auto_map")) or any(folder.glob("modeling_*.py"))
    try:
        family = family_of(str(config.get("model_type")), str(folder / "config.json"))
    except CheckpointError as error:
        if has_code:
            raise CheckpointError(
                f"{folder}: this model needs its own code (auto_map), which is never run, and "
                f"transformers has no {config.get('model_type')!r}; convert it to a type that it has"
            ) from error
        raise
    if has_code:
        note_once(
            f"{folder}: its own code (auto_map) is not run; it is opened as a {family.model_type}"
        )
    weight_files(folder)
    if not any(any(folder.glob(name)) for name in _VOCABULARIES):
        raise CheckpointError(
            f"{folder}: no vocabulary; copy the model's tokenizer.json, vocab.txt or *.model"
        )
    verify_manifest(folder)
    return config, family


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(f"{folder}: no config.json; is this a Hugging Face model folder?")
    try:
        config = read_json(path)
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    for name, most in _SIZES.items():
        size = config.get(name, 1)
        if type(size) is not int or not 1 <= size <= most:
            raise CheckpointError(
                f"{path}: {name} is {str(size)[:40]}; it must be a number from 1 to {most:,}"
            )
    named, pruned = config.get("id2label") or {}, config.get("pruned_heads")
    fault = ""
    if not config.get("model_type"):
        fault = 'no model_type, the kind of its layers; add it, such as "model_type": "bert"'
    elif not isinstance(named, dict) or set(named) != set(map(str, range(len(named)))):
        fault = f"id2label is {str(named)[:60]}; it must name each output by its number, from 0 on"
    elif pruned:
        fault = f"pruned_heads {pruned}, which transformers 5 cannot read; take the model from before, and `qt-bert prune`"
    elif config.get("quantization_config"):
        fault = "quantization_config: quantised weights are not read; `model.dequantize().save_pretrained(...)`"
    if fault:
        raise CheckpointError(f"{path}: {fault}")
    return config


def weight_files(folder: Path) -> list[Path]:
    """`model.safetensors`, or an index's shards. Raises CheckpointError where one is missing."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file():
        return [whole]
    if index.is_file():
        try:
            shards = [folder / name for name in sorted({*read_json(index)["weight_map"].values()})]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{index}: not an index of weights ({error})") from error
        if missing := [shard.name for shard in shards if not shard.is_file()]:
            raise CheckpointError(
                f"{folder}: {missing[0]} is missing, though {index.name} lists it"
            )
        return shards
    pickles = [
        p.relative_to(folder) for pattern in _NOT_READ.split() for p in sorted(folder.glob(pattern))
    ]
    hint = f", and {pickles[0]} is not read (a pickle can run code when opened)" if pickles else ""
    raise CheckpointError(
        f"{folder}: no weights (model.safetensors){hint}; where you trust the model, save it once by "
        "`model.save_pretrained(..., safe_serialization=True)`"
    )


def stored_as(shapes: Mapping[str, Any], name: str) -> str | None:
    """The stored name of a weight, `name` or with a wrapper's prefix; None where it is missing."""
    behind = (stored for stored in shapes if stored.endswith(f".{name}"))
    return name if name in shapes else next(behind, None)


def weight_shapes(folder: Path) -> dict[str, list[int]]:
    """Name → shape of every stored tensor, from the headers alone.

    Raises CheckpointError where a file is truncated or no safetensors file, and for quantised weights.
    """
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, list[int]] = {}
    for path in weight_files(folder):
        try:
            with safe_open(path, "pt") as handle:
                for name in handle.keys():  # noqa: SIM118 - not a mapping
                    stored = handle.get_slice(name)
                    shapes[name] = stored.get_shape()
                    if name.endswith(".weight") and stored.get_dtype().startswith(_SHORT):
                        raise CheckpointError(f"{path}: {name} is quantised, and is not read so")
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{path}: truncated or not a safetensors file ({error}); fetch it anew"
            ) from error
    return shapes
