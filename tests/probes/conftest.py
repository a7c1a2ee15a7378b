"""Contexts for probes: around a model folder, and pairs of a file or by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.probes.base import Context
from tests.probes.made_context import context_of as made_context

Build = Callable[..., Context]


@pytest.fixture
def context_of(tmp_path, pair_file) -> Build:
    """`context_of(model, pairs, …)`: a context, any other of its fields by keyword.

    `pairs` is a file, which is halved by query; a list, which stands for both halves; or a list of each
    half. Without it the eight pairs are taken.
    """

    def build(model, pairs=None, **changes):
        if pairs is None or isinstance(pairs, Path):
            file = pair_file if pairs is None else pairs
            return made_context("probe", model, tmp_path, **({"pairs": file} | changes))
        halves = pairs if isinstance(pairs, tuple) else (pairs, pairs)
        return made_context("probe", model, tmp_path, halves, **changes)

    return build
