"""Grading pairs from Python: `qt_bert.load()` gives a `Grader`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.segmenters import segmenter
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import Explanation, explain_pair
from qt_bert.scoring.judge import Outputs, read_outputs
from qt_bert.shipped import GRADED, TEST, shipped
from qt_bert.text import clip

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Graded:
    """One pair's grades: the likeliest one, Σ g·p(g), and the probability of each."""

    query: str
    title: str
    grade: str
    expected: float
    probabilities: dict[str, float]


class Grader:
    """A checkpoint ready to grade query–title pairs.

    >>> import qt_bert
    >>> grader = qt_bert.load()
    >>> graded = grader.grade("京东小哥", "京东小哥最近在干嘛")
    >>> list(graded.probabilities)
    ['1', '2', '3', '4', '5']
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer

    def grade(self, query: str, title: str) -> Graded:
        """Grade one pair.

        Raises ArgumentError for an empty text, and for a model with one logit, which has no grades:
        use `score`.
        """
        outputs = self._outputs([(query, title)])
        if outputs.probabilities is None or outputs.expected is None or not outputs.predicted:
            raise ArgumentError("this model gives one score and no grades; use score([...])")
        names = outputs.labels.names
        probabilities = dict(zip(names, map(float, outputs.probabilities[0]), strict=True))
        return Graded(query, title, outputs.predicted[0], float(outputs.expected[0]), probabilities)

    def score(self, pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
        """Grade many (query, title) pairs: one row a pair, columns as `qt-bert score` writes them.

        Raises ArgumentError for anything but pairs of texts with something in them.
        """
        import pandas as pd

        if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
            raise ArgumentError(
                "score takes (query, title) pairs, as in score([('京东小哥', '京东')])"
            )
        pairs = list(pairs)
        outputs = self._outputs(pairs).columns()
        texts = {"query": [query for query, _ in pairs], "title": [title for _, title in pairs]}
        return pd.DataFrame(texts | outputs)

    def explain(self, query: str, title: str, *, words: str = "jieba") -> Explanation:
        """The pair's grades, and the change of the expected grade with each term filled."""
        return explain_pair(query, title, self.scorer, segmenter(words))

    def evaluate(self, pairs: str | Path | None = None, **reader: Any) -> dict[str, Any]:
        """Every metric on a graded file (default: the test split that ships), with intervals.

        `reader` are fields of `ReaderOptions` (`columns`, `grades`, `no_header`, `max_rejects`).
        """
        from qt_bert.scoring.evaluate import evaluation_json
        from qt_bert.scoring.judge import judge_file

        path = Path(pairs) if pairs is not None else shipped(TEST)
        judged = judge_file(path, ReaderOptions(**reader), self.scorer)
        return evaluation_json(judged, self.scorer, path)

    def _outputs(self, pairs: Sequence[tuple[str, str]]) -> Outputs:
        for number, pair in enumerate(pairs):
            texts = pair if isinstance(pair, tuple | list) and len(pair) == 2 else (None,)
            if not all(isinstance(text, str) and text.strip() for text in texts):
                raise ArgumentError(
                    f"pair {number}: {clip(repr(pair), 80)}; give a query and a title, neither empty"
                )
        labels = self.scorer.checkpoint.settings.labels
        return read_outputs(self.scorer.logits(list(pairs)), labels)


def load(
    model: str | Path | None = None,
    *,
    dtype: str = "float32",
    max_length: int | None = None,
    model_grades: str | None = None,
) -> Grader:
    """Open a model folder (default: the graded checkpoint that ships) for grading.

    Raises CheckpointError for a folder that cannot be opened, naming the fault.
    """
    folder = model if model is not None else shipped(GRADED)
    checkpoint = open_checkpoint(folder, dtype=dtype, model_grades=model_grades, compact=True)
    return Grader(Scorer(checkpoint, max_length=max_length))
