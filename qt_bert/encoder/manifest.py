"""A SHA-256 manifest beside the weights: safetensors has no checksum, a flipped bit loads silently."""

from __future__ import annotations

import hashlib
from pathlib import Path

from qt_bert.errors import CheckpointError
from qt_bert.files import read_json, sha256_file, write_json

MANIFEST = "manifest.json"
HEADS = "heads.json"
"""What a study found of the heads. It says something about the weights and changes no output, names
the weights that it is of, and is written anew by every study: no hash of the folder covers it."""


def write_manifest(folder: Path, without: str = "") -> None:
    """Hash every file of `folder` but `heads.json` and the one named `without` into `manifest.json`."""
    left_out = (MANIFEST, HEADS, without)
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name not in left_out)
    write_json(folder / MANIFEST, {"schema": 1, "sha256": {p.name: sha256_file(p) for p in files}})


def verify_manifest(folder: Path) -> None:
    """Compare the files of `folder` with its manifest; folders without one are not judged.

    Raises CheckpointError naming the first file that is missing or differs, or where the manifest
    is none.
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
    except (ValueError, KeyError, TypeError, RecursionError) as error:
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


def folder_sha256(folder: Path) -> str:
    """One hash for all that a folder's outputs depend on: the name and bytes of each of its files."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != HEADS)
    listed = "".join(f"{file.name} {sha256_file(file)}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()
