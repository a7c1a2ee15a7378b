"""What is installed: the shipped data (beside a source checkout, or inside a wheel), a hash of the sources, versions."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import cache
from pathlib import Path

from qt_bert.errors import ArgumentError

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE.parent / "data", _PACKAGE / "_shipped")

GRADED = "checkpoints/graded"
PRETRAINED = "checkpoints/pretrained"
STUDENT = "checkpoints/student"
TRAIN, DEV, TEST = ("pairs/train.tsv", "pairs/dev.tsv", "pairs/test.tsv")
CASES = "cases.tsv"
BASELINES = "baselines"
PATTERNS = "patterns"
BEHAVIOURS = "behaviours/cases.tsv"


def shipped(name: str) -> Path:
    """The path of what ships, as `pairs/test.tsv`. Raises ArgumentError where it is missing."""
    for root in _ROOTS:
        if (root / name).exists():
            return root / name
    option = "--base, or --init of `pretrain`" if name == PRETRAINED else "--model, --pairs"
    raise ArgumentError(f"this installation ships no {name}; give a path of your own ({option})")


def ships(name: str) -> bool:
    """Whether this installation holds `name`."""
    return any((root / name).exists() for root in _ROOTS)


# The code behind a result: a hash of the package's sources, and versions.


_PACKAGES = "qt-bert torch transformers tokenizers numpy scipy scikit-learn jieba rjieba"
"""Those that figures depend on."""


@cache
def source_hash(package: Path = Path(__file__).parent) -> str:
    """SHA-256 over names and bytes of the package's .py and .toml files, computed once per process."""
    digest = hashlib.sha256()
    for path in sorted(path for kind in ("*.py", "*.toml") for path in package.rglob(kind)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def installed_versions(*more: str) -> dict[str, str]:
    """Versions of Python, of the packages that figures depend on, and of `more`, not imported."""
    versions = {"python": platform.python_version()}
    for name in (*_PACKAGES.split(), *more):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
