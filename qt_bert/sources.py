"""The code behind a result: a hash of the package's sources, and versions."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from functools import cache
from pathlib import Path

_PACKAGES = ("qt-bert", "torch", "transformers", "numpy")


@cache
def source_hash(package: Path = Path(__file__).parent) -> str:
    """SHA-256 over names and bytes of the package's .py files, computed once per process."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def installed_versions(*more: str) -> dict[str, str]:
    """Versions of Python, qt-bert, torch, transformers, numpy and `more` packages, not imported."""
    versions = {"python": platform.python_version()}
    for name in (*_PACKAGES, *more):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
