"""Accuracy of classifiers of titles (or queries) alone; above chance, the pairs teach a shortcut.

    python benchmarks/title_only.py data/pairs/train.tsv data/pairs/dev.tsv data/pairs/test.tsv

All files together, five folds that keep the titles of a query together; chance is 0.20 where each
query has one title of every grade.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qt_bert.cli.terminal import figure, interval
from qt_bert.codec import encode
from qt_bert.data.pairs import GRADES, GradeMap, Pair
from qt_bert.data.reader import read_pairs
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.stats.evaluation import evaluate
from qt_bert.stats.judgements import judge_grades

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

FOLDS = 5
NGRAMS_SHOWN = 12
LEAST_TITLES = 5


def main(arguments: list[str] | None = None) -> None:
    """Print both accuracies and the most predictive n-grams; an input error is one line, exit 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="graded pairs, 1-5")
    files = parser.parse_args(arguments).files
    try:
        report([pair for file in files for pair in _graded(file)])
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def report(pairs: list[Pair]) -> None:
    """Print the accuracy of title-only and query-only classifiers, and predictive n-grams of titles.

    Raises ArgumentError where the pairs lack a grade or are of too few queries.
    """
    grades = np.array([pair.grades[0] for pair in pairs if pair.grades])
    queries, titles = [pair.query for pair in pairs], [pair.title for pair in pairs]
    if set(grades) != set(GRADES) or len(set(queries)) < FOLDS:
        raise ArgumentError(f"the check needs titles of all five grades and {FOLDS} queries")
    print(f"{len(pairs):,} pairs, {len(set(queries)):,} queries; accuracy [95 % interval]")
    for name, texts in (("title only", titles), ("query only", queries)):
        metric = accuracy(texts, grades, queries)
        print(f"{name}: {figure(metric['value'])} {interval(metric)}")
    print(f"\nmost telling n-grams, in {LEAST_TITLES} titles or more, by grade:")
    for grade, ngrams in telling_ngrams(titles, grades).items():
        print(f"{grade}: {'  '.join(map(repr, ngrams))}")


def accuracy(texts: list[str], grades: np.ndarray, queries: list[str]) -> dict[str, Any]:
    """Cross-validated accuracy of grades predicted from `texts`, with its interval over queries."""
    from sklearn.model_selection import GroupKFold, cross_val_predict

    table = cross_val_predict(
        _classifier(),
        texts,
        grades,
        groups=queries,
        cv=GroupKFold(FOLDS),
        method="predict_proba",
    )
    judged = judge_grades(table, [(int(grade),) for grade in grades], queries)
    return encode(evaluate(judged).metrics["accuracy"])


def telling_ngrams(titles: list[str], grades: np.ndarray) -> dict[int, list[str]]:
    """For each grade the n-grams with the largest coefficients in a fit to all titles."""
    fitted = _classifier(min_df=LEAST_TITLES).fit(titles, grades)
    names = fitted[0].get_feature_names_out()
    return {
        int(grade): [str(names[i]) for i in np.argsort(-row)[:NGRAMS_SHOWN]]
        for grade, row in zip(fitted[1].classes_, fitted[1].coef_, strict=True)
    }


def _classifier(min_df: int = 1) -> Pipeline:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    ngrams = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), min_df=min_df)
    return make_pipeline(ngrams, LogisticRegression(max_iter=1_000))


def _graded(path: Path) -> list[Pair]:
    return read_pairs(path, grade_map=GradeMap.identity(), grade_required=True)


if __name__ == "__main__":
    main()
