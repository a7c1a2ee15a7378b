"""The examples in docstrings run and give what they show."""

import doctest

import pytest

from qt_bert import heads
from qt_bert.models import card
from qt_bert.stats import estimate


@pytest.mark.parametrize("module", [heads, card, estimate], ids=lambda module: module.__name__)
def test_examples_hold(module):
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
