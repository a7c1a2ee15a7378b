"""Claims become findings; what is undefined stays out of the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.codec import decode, encode
from qt_bert.probes.claims import POINTS, beyond, no_effect
from qt_bert.results.probe import Finding, Source
from qt_bert.text import Text

CLAIM = Text("准确率下降", "accuracy falls")
SOURCE = Source(article="heads", section="2.4", value=-50.0)


def test_the_interval_is_the_central_95_percent_of_the_samples() -> None:
    samples = np.append(np.arange(1001.0), np.nan)
    found = beyond("a.b", CLAIM, SOURCE, 500.0, samples, p=0.02, n_queries=160, unit=POINTS)
    assert (found.ci_low, found.ci_high) == pytest.approx((25.0, 975.0))
    assert (found.side, found.margin, found.primary) == ("above", 0.0, True)


def test_too_many_undefined_samples_give_no_interval() -> None:
    samples = np.array([1.0] * 90 + [np.nan] * 10)
    found = beyond("a.b", CLAIM, SOURCE, 1.0, samples, p=0.02, n_queries=160)
    assert (found.ci_low, found.ci_high) == (None, None)


def test_no_effect_has_no_p() -> None:
    found = no_effect("a.b", CLAIM, SOURCE, 0.5, (-1.0, 1.9), n_queries=160, margin=2.0)
    assert (found.side, found.p, found.margin) == ("none", None, 2.0)


def test_what_is_undefined_can_be_stored() -> None:
    found = beyond("a.b", CLAIM, SOURCE, float("nan"), None, p=float("nan"), n_queries=0)
    assert (found.value, found.p) == (None, None)
    assert decode(Finding, encode(found)) == found
