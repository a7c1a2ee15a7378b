"""`qt-bert check --shortcuts`: can the labels of a file be guessed without comparing query and title?

Classifiers of the titles alone, of the queries alone, and of counts of shared characters are
cross-validated over queries. After S. Gururangan et al., "Annotation Artifacts in Natural Language
Inference Data", NAACL 2018.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.codec import encode
from qt_bert.data.pairs import GradeMap, GradeSet, Pair, number_of
from qt_bert.data.reader import ReaderOptions, too_many
from qt_bert.data.splits import sample_queries
from qt_bert.progress import Progress, progress
from qt_bert.scoring.evaluate import normalised
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray
from qt_bert.stats.estimate import LEAST_QUERIES, pooled, query_key
from qt_bert.stats.evaluation import evaluate
from qt_bert.stats.judgements import (
    FIVE_GRADES,
    Judgements,
    index_queries,
    judge_grades,
    judge_levels,
    known,
    name_set,
    read_labels,
)
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.tests import FALSE_DISCOVERY_RATE, q_values, sign_flip_p

FOLDS = 5
MOST_PAIRS = 50_000
MOST_LEVELS = 20
NGRAM_LENGTHS = (1, 3)
NGRAMS_SHOWN = 3
LEAST_NGRAM_QUERIES = 5
METRICS_SHOWN = {name: METRICS[name] for name in ("accuracy", "macro_f1", "qwk")}
SOURCES = ("titles", "queries", "shared characters and lengths")
MOST_FREQUENT = "most frequent grade"


def find_shortcuts(path: Path, options: ReaderOptions, *, seed: int = 0) -> dict[str, Any]:
    """How well titles, queries, and shared characters and lengths alone predict the labels of `path`.

    `metrics`: of these sources and of two guesses, with 95 % intervals. `gains`: a source's over a
    guess, `above` 0 where q < .05 over all gains. `ngrams`: those of titles that go with
    one grade, where the titles' gain is above 0. A file that cannot be judged has a `reason` instead.
    Of larger files about MOST_PAIRS pairs are judged, in whole queries. Raises what the reader raises.
    """
    rows = [pair for pair in options.open(path, default_map=GradeMap.identity()) if pair.label]
    levels = _levels(rows) if options.grades is None else {}
    pairs = [pair for pair in rows if levels or pair.grades]
    unreadable = len(rows) - len(pairs)
    if len(pairs) > MOST_PAIRS:
        pairs = sample_queries(pairs, MOST_PAIRS, seed)
    sets = [(levels[pair.label or ""],) if levels else pair.grades or () for pair in pairs]
    texts = [(normalised(pair.query), normalised(pair.title)) for pair in pairs]
    queries = [str(query_key(pair.query)) for pair in pairs]
    result = {"n_labelled": len(rows), "n_pairs": len(pairs), "n_queries": len({*queries})}
    if reason := _untestable(sets, queries, too_many(unreadable, len(rows), options.max_rejects)):
        return result | {"reason": reason}
    names, member, judge = _outputs(sets, max(levels.values(), default=-1) + 1, queries)
    with progress(3 * FOLDS, "shortcuts", "folds") as shown:
        tables = _predictions(texts, queries, member, seed, shown)
    order = np.random.default_rng(seed).permutation(len(sets))
    tables[MOST_FREQUENT] = np.tile(np.eye(len(names))[member.sum(axis=0).argmax()], (len(sets), 1))
    tables["labels permuted"] = _shares(member)[order]
    judged = {name: judge(table) for name, table in tables.items()}
    gains = {
        name: _gains((judged[name], tables[name]), judged[MOST_FREQUENT], member, seed)
        for name in SOURCES
    }
    tests = [test for gain in gains.values() for test in gain.values()]
    for test, q in zip(tests, q_values([test["p"] for test in tests]), strict=True):
        test["q"] = q
        test["above"] = q is not None and q < FALSE_DISCOVERY_RATE and test["value"] > 0
    titles = [title for _, title in texts]
    predict = any(test["above"] for test in gains["titles"].values())
    return result | {
        "labels": names,
        "metrics": {
            name: encode(evaluate(judgements, metrics=METRICS_SHOWN, seed=seed).metrics)
            for name, judgements in judged.items()
        },
        "gains": gains,
        "ngrams": _telling_ngrams(titles, queries, member, names) if predict else [],
    }


def _gains(
    source: tuple[Judgements, FloatArray], most_frequent: Judgements, member: BoolArray, seed: int
) -> dict[str, dict[str, Any]]:
    """How far a source's accuracy lies above that of the most frequent grade, and its log loss below that
    of the grades' shares; p by pseudo-values over queries.

    In a file of one frequent grade, the log loss alone shows what probabilities below ½ tell.
    """
    judgements, table = source
    shares = _shares(member).mean(axis=0)
    smoothed = 0.99 * table + 0.01 * shares  # no 0 for a grade not fitted to
    likelihood = (smoothed * member).sum(axis=1)
    better = known(judgements.correct).astype(float) - known(most_frequent.correct)
    index = judgements.query_index.tolist()
    gains = {"accuracy": better, "log_loss": np.log(likelihood / (shares * member).sum(axis=1))}
    estimates = {name: pooled(gain, np.ones(len(gain)), index) for name, gain in gains.items()}
    return {
        name: {"value": estimate.value, "p": float(sign_flip_p(estimate.centred, seed=seed))}
        for name, estimate in estimates.items()
    }


# Labels: grades as `evaluate` reads them, or whole numbers from 0 as levels.


def _levels(pairs: Sequence[Pair]) -> dict[str, int]:
    """Label → level, where all labels are whole numbers from 0 and under MOST_LEVELS, else empty."""
    numbers = {label: number_of(label) for label in {pair.label or "" for pair in pairs}}
    whole = all(number.is_integer() and 0 <= number < MOST_LEVELS for number in numbers.values())
    if not whole or 0 not in numbers.values():
        return {}
    return {label: int(number) for label, number in numbers.items()}


def _untestable(sets: Sequence[GradeSet], queries: Sequence[str], unreadable: bool) -> str | None:
    """Why the file cannot be judged, and what is needed."""
    occurring = Counter(grades for grades, _ in {*zip(sets, queries, strict=True)})
    if unreadable:
        return (
            f"labels are neither grades 1-5 nor levels 0, 1, … up to {MOST_LEVELS - 1}; say with "
            "--grades what they mean, such as --grades '0=1-2,1=3-4,2=5'"
        )
    if len(occurring) < 2:
        labels = f"all labels are {name_set(sets[0])}" if sets else "no pair has a label"
        return f"{labels}; two different ones are needed"
    if min(n for _, n in occurring.most_common(2)) < LEAST_QUERIES:
        return f"{len({*queries}):,} queries; two labels in {LEAST_QUERIES} queries each are needed"
    return None


def _outputs(
    sets: Sequence[GradeSet], n_levels: int, queries: Sequence[str]
) -> tuple[list[str], BoolArray, Callable[[FloatArray], Judgements]]:
    """Names of the K outputs of a classifier, which of them each label may mean [n, K], and the judge.

    Labels that are disjoint sets of grades are outputs of their own; of a label such as `3-4` beside
    `3`, each grade is an output.
    """
    if n_levels:
        outputs: Sequence[GradeSet] = [(level,) for level in range(n_levels)]
    else:
        labels = read_labels(sets)
        outputs = labels.sets if labels.kind == "coarse" else FIVE_GRADES
    member = np.array([[not {*grades}.isdisjoint(output) for output in outputs] for grades in sets])

    def judge(table: FloatArray) -> Judgements:
        if n_levels:
            return judge_levels(table, [level for (level,) in sets], queries)
        return judge_grades(table, sets, queries, model_grades=outputs)

    return [name_set(output) for output in outputs], member, judge


def _shares(member: BoolArray) -> FloatArray:
    """Each label as probabilities, equal for all that it may mean [n, K]."""
    return np.asarray(member / member.sum(axis=1, keepdims=True))


# The classifiers.


def _predictions(
    texts: Sequence[tuple[str, str]],
    queries: Sequence[str],
    member: BoolArray,
    seed: int,
    shown: Progress,
) -> dict[str, FloatArray]:
    """Source → probabilities [n, K] by classifiers that were fitted to the other queries' pairs."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    ngrams = TfidfVectorizer(analyzer="char", ngram_range=NGRAM_LENGTHS)
    linear = LogisticRegression(solver="newton-cg")
    trees = HistGradientBoostingClassifier(
        max_iter=50, max_depth=3, early_stopping=False, random_state=seed
    )
    features = (
        (ngrams.fit_transform([title for _, title in texts]), linear),
        (ngrams.fit_transform([query for query, _ in texts]), linear),
        (np.array([_overlap(*pair) for pair in texts]), trees),
    )
    of_pair = folds(queries, seed)
    tables = {source: np.zeros(member.shape) for source in SOURCES}
    for table, (rows, classifier) in zip(tables.values(), features, strict=True):
        for fold in range(FOLDS):
            fitted, held_out = np.flatnonzero(of_pair != fold), np.flatnonzero(of_pair == fold)
            # A label that may mean several grades enters once for each, with a share of the weight.
            place, output = np.nonzero(member[fitted])
            weight = _shares(member[fitted])[place, output]
            classifier.fit(rows[fitted[place]], output, sample_weight=weight)
            table[np.ix_(held_out, classifier.classes_)] = classifier.predict_proba(rows[held_out])
            shown.advance()
    return tables


def folds(queries: Sequence[str], seed: int) -> IntArray:
    """The fold of each pair [n]: whole queries, drawn with `seed`."""
    index, n_queries = index_queries(queries)
    return (np.random.default_rng(seed).permutation(n_queries) % FOLDS)[index]


def _overlap(query: str, title: str) -> tuple[float, ...]:
    """Shares of characters and of character pairs that the other text has, and lengths: of the texts
    and of their longest common substring."""
    query, title = "".join(query.split()), "".join(title.split())
    shares = []
    for size in (1, 2):
        a, b = (
            {text[i : i + size] for i in range(len(text) - size + 1)} for text in (query, title)
        )
        shares += [len(a & b) / max(len(a), 1), len(a & b) / max(len(b), 1)]
    longest = 0
    for start in range(len(query)):
        while start + longest < len(query) and query[start : start + longest + 1] in title:
            longest += 1
    return *shares, longest / max(len(query), 1), longest, len(query), len(title)


def _telling_ngrams(
    titles: Sequence[str], queries: Sequence[str], member: BoolArray, names: Sequence[str]
) -> list[dict[str, Any]]:
    """For each grade the n-grams whose titles have it more often than all titles, most telling first.

    Judged by the binomial tail over titles, q < .05 over all n-grams and grades; no n-gram that holds,
    or is part of, a more telling one of that grade.
    """
    from scipy.sparse import csr_array
    from scipy.stats import binom
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer="char", ngram_range=NGRAM_LENGTHS, binary=True)
    present = csr_array(vectorizer.fit_transform(titles))
    index, n_queries = index_queries(queries)
    of_query = csr_array((np.ones(len(index)), (index, np.arange(len(index)))))
    kept = np.flatnonzero((of_query @ present > 0).sum(axis=0) >= LEAST_NGRAM_QUERIES)
    ngrams, present = vectorizer.get_feature_names_out()[kept], present[:, kept]
    n_titles, base = present.sum(axis=0), member.mean(axis=0)
    of_grade = present.T @ member.astype(np.int64)  # [n-grams, K]
    p = binom.sf(of_grade - 1, n_titles[:, None], base)
    q = np.array(q_values(p.ravel().tolist())).reshape(p.shape)
    result: list[dict[str, Any]] = []
    for output, name in enumerate(names):
        chosen: list[str] = []
        for row in sorted(range(len(ngrams)), key=lambda row: (p[row, output], -len(ngrams[row]))):
            ngram = str(ngrams[row])
            if q[row, output] >= FALSE_DISCOVERY_RATE or len(chosen) == NGRAMS_SHOWN:
                break
            if not any(ngram in other or other in ngram for other in chosen):
                chosen.append(ngram)
                result.append(
                    {"grade": name, "ngram": ngram, "n_titles": int(n_titles[row])}
                    | {"of_grade": int(of_grade[row, output]), "base": float(base[output])}
                )
    return result
