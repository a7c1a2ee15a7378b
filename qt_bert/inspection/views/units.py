"""What a model's outputs are called, in both languages."""

from __future__ import annotations

from qt_bert.encoder import ModelLabels
from qt_bert.results import Text


def score_name(labels: ModelLabels) -> Text:
    """What titles are ranked by: the expected grade or level, or the one score."""
    if labels.logits == 1:
        return Text("分数", "score")
    if labels.exact:
        return Text("期望等级", "expected grade")
    return Text("期望级别", "expected level")


def score_unit(labels: ModelLabels) -> Text:
    """The unit of that score, with its scale."""
    if labels.logits == 1:
        return Text("一个 logit", "one logit")
    low, high = f"{min(labels.values):g}", f"{max(labels.values):g}"
    if labels.exact:
        return Text(f"档，{low}–{high}", f"grades, {low}–{high}")
    return Text(f"级，{low}–{high}", f"levels, {low}–{high}")


def level_name(labels: ModelLabels) -> Text:
    """What one output of the model stands for."""
    return Text("档", "grade") if labels.exact else Text("级别", "level")
