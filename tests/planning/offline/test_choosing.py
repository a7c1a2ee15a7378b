"""The number of layers that is chosen, by hand."""

from __future__ import annotations

import pytest

from qt_bert.planning.offline import deciding_metric, largest_free
from qt_bert.results.plan import Measured, OfflineRow


def row(layers: int, low: float | None) -> OfflineRow:
    one = Measured(base=0.7, value=0.7, change=0.0, ci_low=low, ci_high=0.01)
    return OfflineRow(layers=layers, block={}, both={}, discovery={"accuracy": one})


@pytest.mark.parametrize(
    ("lows", "chosen"),
    [
        ((0.0, -0.019, -0.3), 2),
        ((-0.01, -0.02, -0.019), 3),  # the upper end of the loss must lie below the margin
        ((-0.02, -0.1, -0.3), None),
        ((None, None, None), None),
        ((), None),
    ],
)
def test_the_largest_whose_whole_interval_is_small(
    lows: tuple[float | None, ...], chosen: int | None
) -> None:
    rows = [row(layers, low) for layers, low in enumerate(lows, start=1)]
    assert largest_free(rows, "accuracy") == chosen
    assert largest_free(rows, "spearman") is None
    assert largest_free(rows, None) is None


def test_the_metric_that_labels_and_model_define_decides() -> None:
    assert deciding_metric(["spearman", "qwk", "accuracy"]) == "accuracy"
    assert deciding_metric(["spearman", "pairwise_accuracy"]) == "pairwise_accuracy"
    assert deciding_metric(["spearman"]) == "spearman"
    assert deciding_metric([]) is None
