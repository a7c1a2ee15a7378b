"""The lexical baseline: an ordinal logistic regression on what query and title share in letters.

    python -m experiments.baselines.lexical --recipe RECIPE.toml --data FOLDER --dev DEV --test TEST
    python -m experiments.baselines.lexical --train data/pairs/train.tsv --dev data/pairs/dev.tsv \\
        --test data/pairs/test.tsv --scored scored.tsv

judges it alone, trained on the same pairs as a model. `--scored` is what `qt-bert score TEST --out
scored.tsv` wrote for the model; both are then compared pair by pair. Sources of the recipe with an
auxiliary output are left out.
"""

from __future__ import annotations

import argparse
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.cli.terminal import figure, interval, table
from qt_bert.codec import encode
from qt_bert.data.pairs import GRADES, GradeMap, GradeSet, Pair
from qt_bert.data.reader import one_line, read_pairs
from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.files import write_json
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.comparison import compare
from qt_bert.stats.evaluation import evaluate
from qt_bert.stats.judgements import Judgements, judge_grades
from qt_bert.stats.metrics import METRICS
from qt_bert.training.recipes import PairSource, load_recipe

# What query and title share in their letters alone: the features.

TextPair = tuple[str, str]
"""Query and title."""

UNITS = ("character", "bigram", "word")

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LATIN = re.compile("[a-z]+")
_QUERIES_KEPT = 1024


@dataclass(frozen=True, slots=True)
class TextUnits:
    """A text taken apart: its letters and digits in order, and its distinct units of each kind."""

    letters: str
    units: Mapping[str, frozenset[str]]
    numbers: frozenset[str]
    latin: frozenset[str]


def word_segmenter() -> Segmenter:
    """`rjieba` where it is installed, else `jieba`: the same dictionary, cut alike."""
    try:
        return segmenter("rjieba")
    except ArgumentError:
        return segmenter("jieba")


def take_apart(text: str, words: Segmenter) -> TextUnits:
    """The units of `text` after NFKC and case folding; punctuation and spaces are none."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    letters = "".join(filter(str.isalnum, folded))
    units = {
        "character": frozenset(letters),
        "bigram": frozenset(map("".join, zip(letters, letters[1:], strict=False))),
        "word": frozenset(w for w in words.words(folded) if any(map(str.isalnum, w))),
    }
    numbers, latin = _NUMBER.findall(folded), _LATIN.findall(folded)
    return TextUnits(letters, units, frozenset(numbers), frozenset(latin))


@dataclass(frozen=True)
class Idf:
    """Inverse document frequency, smoothed: ln((1 + documents) / (1 + documents with it)) + 1."""

    documents: int
    frequency: Mapping[str, int]

    def total(self, units: Iterable[str]) -> float:
        """Sum of the weights of `units`; one never seen has the greatest weight."""
        get, documents = self.frequency.get, 1 + self.documents
        return math.fsum(math.log(documents / (1 + get(unit, 0))) + 1 for unit in units)


class LexicalFeatures:
    """The features of (query, title) pairs; made by `fit`, which learns the idf weights.

    Shares are of distinct units and lie in 0..1; the share of nothing is 0.
    """

    def __init__(self, idf: Mapping[str, Idf], words: Segmenter) -> None:
        self._idf = idf
        self._words = words

    @classmethod
    def fit(cls, pairs: Iterable[TextPair], words: Segmenter) -> LexicalFeatures:
        """Count in how many of the distinct texts of `pairs` each unit occurs."""
        texts = {text for pair in pairs for text in pair}
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in UNITS}
        for text in texts:
            for kind, units in take_apart(text, words).units.items():
                counts[kind].update(units)
        return cls({kind: Idf(len(texts), count) for kind, count in counts.items()}, words)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of `table`."""
        return tuple(self._features(take_apart("", self._words), take_apart("", self._words)))

    def table(self, pairs: Sequence[TextPair]) -> FloatArray:
        """The features of each pair [n, F]."""
        apart = lru_cache(_QUERIES_KEPT)(lambda query: take_apart(query, self._words))
        rows = [
            list(self._features(apart(query), take_apart(title, self._words)).values())
            for query, title in pairs
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.names))

    def _features(self, query: TextUnits, title: TextUnits) -> dict[str, float]:
        return {
            **self._coverage(query, title),
            **_longest_common(query.letters, title.letters),
            **_lengths(query.letters, title.letters),
            **_equal_strings("number", query.numbers, title.numbers),
            **_equal_strings("latin", query.latin, title.latin),
        }

    def _coverage(self, query: TextUnits, title: TextUnits) -> dict[str, float]:
        """Both ways, for each kind of unit: the share of units, and of their idf weight."""
        found: dict[str, float] = {}
        for kind, idf in self._idf.items():
            asked, given = query.units[kind], title.units[kind]
            shared = asked & given
            weight = idf.total(shared)
            found[f"{kind}_of_query"] = _share(len(shared), len(asked))
            found[f"{kind}_of_title"] = _share(len(shared), len(given))
            found[f"{kind}_of_query_idf"] = _share(weight, idf.total(asked))
            found[f"{kind}_of_title_idf"] = _share(weight, idf.total(given))
        return found


def longest_common_substring(a: str, b: str) -> int:
    """Characters of the longest run that stands in both texts."""
    return SequenceMatcher(None, a, b, autojunk=False).find_longest_match().size


def longest_common_subsequence(a: str, b: str) -> int:
    """Characters of the longest text that both hold in this order, gaps allowed.

    H. Hyyrö, "Bit-parallel LCS-length computation revisited", AWOCA 2004, section 3: bit i of
    `free` is 0 where the subsequence grows at character i of `a`.
    """
    places: dict[str, int] = {}
    for i, character in enumerate(a):
        places[character] = places.get(character, 0) | 1 << i
    free = everywhere = (1 << len(a)) - 1
    for character in b:
        matched = free & places.get(character, 0)
        free = ((free + matched) | (free - matched)) & everywhere
    return len(a) - free.bit_count()


def _longest_common(query: str, title: str) -> dict[str, float]:
    substring = longest_common_substring(query, title)
    subsequence = longest_common_subsequence(query, title)
    return {
        "substring_of_query": _share(substring, len(query)),
        "substring_of_title": _share(substring, len(title)),
        "subsequence_of_query": _share(subsequence, len(query)),
        "subsequence_of_title": _share(subsequence, len(title)),
    }


def _lengths(query: str, title: str) -> dict[str, float]:
    return {
        "query_length": float(len(query)),
        "title_length": float(len(title)),
        "query_log_length": math.log1p(len(query)),
        "title_log_length": math.log1p(len(title)),
    }


def _equal_strings(kind: str, query: frozenset[str], title: frozenset[str]) -> dict[str, float]:
    shared = len(query & title)
    return {
        f"{kind}_of_query": _share(shared, len(query)),
        f"{kind}_of_title": _share(shared, len(title)),
        f"query_without_{kind}": float(not query),
        f"title_without_{kind}": float(not title),
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


# Ordinal logistic regression (cumulative logits, proportional odds) on sets of grades:
# P. McCullagh, "Regression models for ordinal data", JRSS B 42 (1980), section 2:
# P(grade ≤ k | x) = σ(θ_k − x·β) with rising thresholds θ_1 < … < θ_{K−1}.

L2_GRID = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
ARRAYS = ("mean", "scale", "coefficients", "thresholds")
LEAST_GAP = 1e-3
STEEPEST_END = 1e-3
MOST_STEPS = 5_000


@dataclass(frozen=True, eq=False)
class Labelled:
    """n pairs to fit or judge: features [n, F], the grades each label may mean, weights [n]."""

    features: FloatArray
    grade_sets: Sequence[GradeSet]
    weights: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class OrdinalRegression:
    """A fitted model; `mean` and `scale` [F] standardise features before `coefficients` [F].

    `thresholds` [K − 1] rise; `l2` is the penalty it was fitted with.
    """

    mean: FloatArray
    scale: FloatArray
    coefficients: FloatArray
    thresholds: FloatArray
    l2: float

    @classmethod
    def fit(cls, data: Labelled, *, l2: float, n_grades: int = len(GRADES)) -> OrdinalRegression:
        """Minimise the weighted mean of −log Σ p(g) over each label's set, plus l2/2 · |β|².

        The penalty is on coefficients of standardised features; thresholds are free. L-BFGS with
        the analytic gradient; convex where every set is a range of grades.
        Raises ArgumentError for labels that cannot tell two neighbouring grades apart, and a fit
        that does not converge.
        """
        from scipy.optimize import minimize

        features, allowed = data.features, _allowed(data.grade_sets, n_grades)
        weights = np.ones(len(features)) if data.weights is None else data.weights
        mean, scale = features.mean(0), features.std(0)
        scale[np.ptp(features, axis=0) == 0] = 1.0
        loss = LabelSetLoss((features - mean) / scale, allowed, weights / weights.sum(), l2)
        found = minimize(
            loss, loss.start(), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}
        )
        if not (np.isfinite(found.fun) and np.abs(found.jac).max() < STEEPEST_END):
            raise ArgumentError(
                f"the ordinal regression did not converge ({found.message}); a larger l2 than "
                f"{l2:g} may help"
            )
        coefficients, thresholds = loss.unpack(found.x)
        return cls(mean, scale, coefficients, thresholds, l2)

    def predict_proba(self, features: FloatArray) -> FloatArray:
        """Probability of each grade [n, K] for features [n, F], not standardised."""
        score = (features - self.mean) / self.scale @ self.coefficients
        return np.exp(_log_probabilities(score, self.thresholds))

    def to_json(self) -> dict[str, Any]:
        """The parameters as plain lists."""
        return {name: getattr(self, name).tolist() for name in ARRAYS} | {"l2": self.l2}


@dataclass(frozen=True, eq=False)
class LabelSetLoss:
    """The penalised loss and its gradient, as a function of one parameter vector.

    The vector [F + K − 1] holds the coefficients, the first threshold, and the logarithms of the
    gaps between thresholds, so that every vector has rising thresholds. `features` [n, F],
    `allowed` [n, K] (whether the label may mean the grade), `weights` [n] that sum to 1.
    """

    features: FloatArray
    allowed: np.ndarray
    weights: FloatArray
    l2: float

    def __call__(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        coefficients, thresholds = self.unpack(parameters)
        score = self.features @ coefficients
        by_grade = np.where(self.allowed, _log_probabilities(score, thresholds), -np.inf)
        by_label = np.logaddexp.reduce(by_grade, axis=1)
        share = self.weights[:, None] * np.exp(by_grade - by_label[:, None])
        by_score, by_threshold = _slopes(share, score, thresholds)
        gaps = np.diff(thresholds)
        from_right = by_threshold[::-1].cumsum()[::-1]
        gradient = [
            self.features.T @ by_score + self.l2 * coefficients,
            from_right[:1],
            from_right[1:] * gaps,
        ]
        penalty = self.l2 / 2 * float(coefficients @ coefficients)
        return penalty - float(self.weights @ by_label), np.concatenate(gradient)

    def start(self) -> FloatArray:
        """No coefficients, and the thresholds that give the grades their shares in the labels."""
        shares = self.weights @ (self.allowed / self.allowed.sum(axis=1, keepdims=True))
        below = shares.cumsum()[:-1]
        thresholds = np.log(below / (1 - below))
        gaps = np.log(np.maximum(np.diff(thresholds), LEAST_GAP))
        return np.concatenate([np.zeros(self.features.shape[1]), thresholds[:1], gaps])

    def unpack(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients [F] and thresholds [K − 1] of a parameter vector."""
        n = self.features.shape[1]
        steps = np.concatenate([parameters[n : n + 1], np.exp(parameters[n + 1 :])])
        return parameters[:n], steps.cumsum()


def fit_best(train: Labelled, dev: Labelled) -> tuple[OrdinalRegression, dict[float, float]]:
    """Fit with each l2 of L2_GRID; the model with the best QWK on `dev`, and that QWK by l2.

    Of equals the first is taken. Raises ArgumentError as `fit` does, and where the dev labels
    leave QWK undefined.
    """
    models = {l2: OrdinalRegression.fit(train, l2=l2) for l2 in L2_GRID}
    reached = {l2: _qwk(model, dev) for l2, model in models.items()}
    best = max(reached, key=lambda l2: reached[l2])
    return models[best], reached


def _qwk(model: OrdinalRegression, dev: Labelled) -> float:
    probabilities = model.predict_proba(dev.features)
    judged = judge_grades(probabilities, dev.grade_sets, [""] * len(dev.grade_sets))
    value = METRICS["qwk"].value(judged)
    if value is None:
        raise ArgumentError(
            "QWK is undefined on the dev pairs; give a dev file whose labels are distinct grades"
        )
    return value


def _bounds(score: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper logit bound of every grade [n, K], infinite at the ends of the scale."""
    edges = np.concatenate([[-np.inf], thresholds, [np.inf]])
    return edges[:-1] - score[:, None], edges[1:] - score[:, None]


def _log_probabilities(score: FloatArray, thresholds: FloatArray) -> FloatArray:
    """log p of every grade [n, K], from σ(b) − σ(a) = σ(b) σ(−a) (1 − e^(a−b)): no cancellation."""
    from scipy.special import log_expit

    lower, upper = _bounds(score, thresholds)
    inside = np.concatenate([[0.0], np.log(-np.expm1(-np.diff(thresholds))), [0.0]])
    return np.asarray(log_expit(upper) + log_expit(-lower) + inside)


def _slopes(
    share: FloatArray, score: FloatArray, thresholds: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of the loss by each score [n] and each threshold [K − 1].

    `share` [n, K] is the weight of a pair times the part of its label's probability that lies
    in each grade.
    """
    from scipy.special import expit

    lower, upper = _bounds(score, thresholds)
    gaps = np.diff(thresholds)
    inside = np.concatenate([[0.0], np.exp(-gaps) / -np.expm1(-gaps), [0.0]])
    by_score = (share * (1 - expit(lower) - expit(upper))).sum(axis=1)
    as_lower = (share * (expit(lower) + inside)).sum(axis=0)
    as_upper = (share * (expit(-upper) + inside)).sum(axis=0)
    return by_score, as_lower[1:] - as_upper[:-1]


def _allowed(grade_sets: Sequence[GradeSet], n_grades: int) -> np.ndarray:
    """Whether each label may mean each grade [n, K]."""
    allowed = np.zeros((len(grade_sets), n_grades), dtype=bool)
    for row, grades in zip(allowed, grade_sets, strict=True):
        row[[grade - 1 for grade in grades]] = True
    seen = allowed.any(axis=0)
    if not seen.all():
        raise ArgumentError(f"no training label may mean grade {int(np.argmin(seen)) + 1}")
    distinct_names = (allowed[:, 1:] != allowed[:, :-1]).any(axis=0)
    if not distinct_names.all():
        lower = int(np.argmin(distinct_names)) + 1
        raise ArgumentError(f"no training label separates grade {lower} from grade {lower + 1}")
    return allowed


# The command: judged on a test file, beside a model's scores.

SHOWN = ("accuracy", "macro_f1", "qwk", "mae", "spearman", "ndcg_at_5")


def main(arguments: list[str] | None = None) -> None:
    """Train, evaluate, compare, print; an input's fault is one line and exit status 2."""
    options = _parse(arguments)
    with one_line_faults():
        found = run(options)
        if options.json is not None:
            write_json(options.json, found)


def run(options: argparse.Namespace) -> dict[str, Any]:
    """What `--json` stores; the tables are printed on the way."""
    sources = _sources(options.recipe, options.data, options.train)
    counts, pairs, weights = _read_sources(sources)
    dev, test = _graded(options.dev), _graded(options.test)
    features = LexicalFeatures.fit(texts_of(pairs), word_segmenter())
    train = labelled(features, pairs, np.array(weights))
    model, dev_qwk = fit_best(train, labelled(features, dev))
    lexical = judge(model.predict_proba(features.table(texts_of(test))), test)
    tables = encode(evaluate(lexical))
    metrics = tables.pop("metrics") | tables
    print(f"{len(pairs):,} training pairs; l2 {model.l2:g} (dev QWK {dev_qwk[model.l2]:.3f})")
    print(f"{options.test}: {len(test):,} pairs, {lexical.n_queries:,} queries\n")
    print(_metrics_table(metrics))
    found = {
        "schema": 1,
        "train": counts,
        "dev_qwk_by_l2": {f"{l2:g}": qwk for l2, qwk in dev_qwk.items()},
        "features": list(features.names),
        "model": model.to_json(),
        "metrics": metrics,
    }
    if options.scored is None:
        return found
    return found | {
        "comparison": _compare(lexical, judge(_read_scored(options.scored, test), test))
    }


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--recipe", type=Path, help="a training recipe (TOML); its [[pairs]] train")
    parser.add_argument("--data", type=Path, default=Path("."), help="the recipe's data folder")
    parser.add_argument("--train", type=Path, nargs="+", default=[], help="graded files, 1-5")
    parser.add_argument("--dev", type=Path, required=True, help="graded file that chooses the L2")
    parser.add_argument("--test", type=Path, required=True, help="graded file to judge on")
    parser.add_argument("--json", type=Path, help="write figures and model to this file")
    parser.add_argument("--scored", type=Path, help="the test file as `qt-bert score` wrote it")
    return parser.parse_args(arguments)


def _sources(recipe: Path | None, data: Path, files: list[Path]) -> list[PairSource]:
    in_recipe: list[PairSource] = load_recipe(recipe, data).pairs if recipe else []
    for source in in_recipe:
        if source.auxiliary:
            print(f"left out: {source.file.name}, which trains the output {source.auxiliary!r}")
    sources = [source for source in in_recipe if not source.auxiliary]
    sources += [PairSource(file) for file in files]
    if not sources:
        raise ArgumentError("nothing to train on; give --recipe with graded pairs, or --train")
    return sources


def _read_sources(
    sources: list[PairSource],
) -> tuple[list[dict[str, Any]], list[Pair], list[float]]:
    """How many pairs each source gave, all of them, and the weight of each."""
    counts: list[dict[str, Any]] = []
    pairs: list[Pair] = []
    weights: list[float] = []
    for source in sources:
        read = source.read()
        for pair in read:
            if pair.grades is None:
                raise PairFileError(
                    f"{source.file}, line {pair.line}: label {pair.label!r} is no grade; say "
                    "what it means with `grades` in the recipe"
                )
        print(f"{source.file.name}: {len(read):,} pairs, weight {source.weight:g}")
        counts.append({"file": source.file.name, "pairs": len(read), "weight": source.weight})
        pairs += read
        weights += [source.weight] * len(read)
    return counts, pairs, weights


def _graded(path: Path) -> list[Pair]:
    return read_pairs(path, grade_map=GradeMap.identity(), grade_required=True)


def texts_of(pairs: Sequence[Pair]) -> list[TextPair]:
    """Queries and titles."""
    return [(pair.query, pair.title) for pair in pairs]


def labelled(
    features: LexicalFeatures, pairs: Sequence[Pair], weights: np.ndarray | None = None
) -> Labelled:
    """The pairs as the regression takes them."""
    return Labelled(features.table(texts_of(pairs)), [pair.grades or () for pair in pairs], weights)


def judge(probabilities: np.ndarray, pairs: Sequence[Pair]) -> Judgements:
    """The judgements of the probabilities of the grades [n, 5]."""
    sets, queries = [pair.grades or () for pair in pairs], [pair.query for pair in pairs]
    return judge_grades(probabilities, sets, queries)


def _read_scored(path: Path, test: list[Pair]) -> np.ndarray:
    """The probabilities of the grades [n, 5]; rows must be those of the test file, in its order."""
    scored = read_pairs(path)
    if len(scored) != len(test):
        raise PairFileError(f"{path}: {len(scored):,} rows for {len(test):,} graded test pairs")
    for row, pair in zip(scored, test, strict=True):
        if any(
            one_line(a) != one_line(b)
            for a, b in ((row.query, pair.query), (row.title, pair.title))
        ):
            raise PairFileError(f"{path}, line {row.line}: not the test file's line {pair.line}")
    try:
        return np.array([[float(row.extra[f"p_{g}"]) for g in GRADES] for row in scored])
    except (KeyError, ValueError) as error:
        raise PairFileError(f"{path}: no numbers in the columns p_1 to p_5 ({error})") from error


def _metrics_table(metrics: dict[str, Any]) -> str:
    rows = [("lexical baseline", "value", "95 % interval")]
    rows += [(name, figure(metrics[name]["value"]), interval(metrics[name])) for name in SHOWN]
    return table(rows)


def _compare(lexical: Judgements, model: Judgements) -> dict[str, Any]:
    """Print and give the paired differences, model − lexical."""
    found = compare(lexical, model, metrics=SHOWN, most_different=0)
    metrics = {name: asdict(found.metrics[name]) for name in SHOWN}
    rows = [["paired comparison", "lexical", "model", "model − lexical", "95 % interval", "p"]]
    for name in SHOWN:
        one = metrics[name]
        values = [figure(one[key]) for key in ("value_a", "value_b", "difference")]
        rows.append([name, *values, interval(one), figure(one["p"], 4)])
    print(f"\n{table(rows)}")
    return metrics | {"settings": found.settings}


if __name__ == "__main__":
    main()
