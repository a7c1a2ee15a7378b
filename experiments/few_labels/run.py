"""Do intervals from few labels and a judge's many cover, and how many labels does the judge save?

    python -m experiments.few_labels.run --data DATA --corpus kuake [--human corpus] [--scorer bm25]

On pairs of a public corpus that have its label and a grade of ours (`DATA/judged`, of `experiments.judged_pairs`):
one stands for people, the other for the judge. Scorers saw neither: BM25, or the share of the query's bigrams
in the title, cut into levels at equal shares.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.cli.terminal import table
from qt_bert.data.reader import read_pairs
from qt_bert.errors import PairFileError
from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.comparison import metric_estimate
from qt_bert.stats.estimate import Estimate, studentised_interval
from qt_bert.stats.few_labels import (
    ESTIMATED,
    chance_weights,
    doubts,
    draw_queries,
    prediction_powered,
    suspicion,
    value_and_error,
)
from qt_bert.stats.judgements import Judgements, judge_levels
from qt_bert.stats.metrics import METRICS

CORPORA = {
    "kuake": (("kuake_qtr_train.tsv",), "label_0_3", (0, 0, 1, 2, 3)),
    "qbqtc": (("qbqtc_dev_clean_qdisjoint.jsonl",), "label", (0, 0, 1, 1, 2)),
}
"""Files, the label's column, and the corpus's level for each of our grades."""
REST, BLOCKS, RESAMPLES = 1_500, 25, 1_000


@dataclass(frozen=True)
class Population:
    """Pairs with two labels: levels of people and of the judge [n], the query of each, a model's probabilities."""

    people: IntArray
    judge: IntArray
    query: IntArray
    probabilities: FloatArray

    def judged(self, labels: IntArray, rows: IntArray) -> Judgements:
        """The model against some labels on some pairs."""
        queries = list(map(str, self.query[rows]))
        return judge_levels(self.probabilities[rows], labels[rows].tolist(), queries)


def read_population(data: Path, corpus: str, human: str, scorer: str) -> Population:
    """The pairs of a corpus with a label and a grade. Raises PairFileError where there are none."""
    files, column, levels = CORPORA[corpus]
    grades = {}
    for name in ("train.tsv", "dev.tsv"):
        for pair in read_pairs(data / "judged" / name):
            grades[pair.query, pair.title] = levels[int((pair.label or "1")[0]) - 1]
    both = {}
    for name in files:
        for pair in read_pairs(data / "pairs" / name, columns={"grade": column}):
            key = pair.query, pair.title
            if key in grades and pair.label is not None:
                both[key] = grades[key], int(pair.label)
    if not both:
        raise PairFileError(f"{data}: no pair of {corpus} has both a label and a grade")
    ours, theirs = np.array(list(both.values())).T
    people, judge = (theirs, ours) if human == "corpus" else (ours, theirs)
    places: dict[str, int] = {}
    query = np.array([places.setdefault(q, len(places)) for q, _ in both])
    scores = {"bm25": bm25, "bigrams": shared_bigrams}[scorer](list(both))
    return Population(people, judge, query, as_levels(scores, max(levels) + 1))


def bigrams(text: str) -> list[str]:
    """Neighbouring characters, of a text without spaces, in lower case."""
    text = "".join(text.casefold().split())
    return list(map("".join, zip(text, text[1:], strict=False))) or [text]


def bm25(pairs: Sequence[tuple[str, str]]) -> FloatArray:
    """BM25 of the query's bigrams in the title, over the query's own greatest possible sum."""
    titles = [Counter(bigrams(title)) for _, title in pairs]
    frequency = Counter(term for title in titles for term in title)
    mean = sum(map(Counter.total, titles)) / len(titles)
    scores = []
    for (query, _), title in zip(pairs, titles, strict=True):
        score = most = 0.0
        for term in set(bigrams(query)):
            seen = frequency[term]
            weight, n = math.log(1 + (len(titles) - seen + 0.5) / (seen + 0.5)), title[term]
            most += weight
            score += weight * n / (n + 1.2 * (0.25 + 0.75 * title.total() / mean))
        scores.append(score / most)
    return np.array(scores)


def shared_bigrams(pairs: Sequence[tuple[str, str]]) -> FloatArray:
    """The share of the query's bigrams that the title has."""
    return np.array([np.mean([b in set(bigrams(t)) for b in bigrams(q)]) for q, t in pairs])


def as_levels(scores: FloatArray, n_levels: int) -> FloatArray:
    """Probabilities of levels [n, levels] whose likeliest have equal shares, in the order of the scores."""
    rank = (scores.argsort(kind="stable").argsort() + 0.5) / len(scores) * n_levels - 0.5
    near = np.exp(-np.square(rank[:, None] - np.arange(n_levels)))
    return near / near.sum(axis=1, keepdims=True)


@dataclass
class Tally:
    """What samples of one size show of one metric; `widths` of people alone and with the judge."""

    covered: list[bool]
    covered_alone: list[bool]
    widths: list[tuple[float, float]]
    correlations: list[float]


def sampled(
    population: Population, labels: int, samples: int, *, drawn: bool = False
) -> dict[str, Tally]:
    """Coverage and widths of 95 % intervals over at least `samples` draws of about so many labels, in whole
    queries.

    The judge alone labels REST other queries, drawn anew in each of BLOCKS, which draw
    equally often. `drawn`: as `agree --next` draws, where judge and model differ; else evenly.
    """
    rng = np.random.default_rng(0)
    n_queries = int(population.query.max()) + 1
    sizes = np.bincount(population.query)
    wide = (sizes > 1).mean() > 0.5  # else too few queries have an order
    names = [name for name in ESTIMATED if wide or not METRICS[name].per_query]
    every = population.judged(population.people, np.arange(len(population.query)))
    truth = {name: METRICS[name].value(every) for name in names}
    tallies = {name: Tally([], [], [], []) for name in names}
    model = np.array(population.probabilities.argmax(axis=1), dtype=np.float64)
    unknown = np.full(len(model), np.nan)
    of_pairs = doubts(unknown, population.judge.astype(np.float64), model)
    doubt = np.bincount(population.query, of_pairs) / sizes
    per_query = len(population.query) / n_queries
    file_size = min(REST + round(labels / per_query), n_queries)
    for block in range(BLOCKS):
        of_file = np.zeros(n_queries, dtype=bool)
        of_file[rng.permutation(n_queries)[:file_size]] = True
        rest_values: dict[str, tuple[float, float]] = {}
        for _ in range(-(-samples // BLOCKS)):
            even = np.ones(n_queries)
            chosen, chance = draw_queries(
                doubt if drawn else even, sizes, of_file, labels, int(rng.integers(2**31))
            )
            few = np.zeros(n_queries, dtype=bool)
            few[chosen] = True
            weights = np.ones(n_queries)
            if drawn:
                weights[of_file] = chance_weights(chance[of_file], few[of_file])
            parts = []
            for labelled_by, of in (
                (population.people, few),
                (population.judge, few),
                (population.judge, of_file & ~few),
            ):
                rows = np.flatnonzero(of[population.query])
                part = population.judged(labelled_by, rows)
                each = np.ones(part.n_queries)
                each[part.query_index] = weights[population.query[rows]]
                parts.append(replace(part, query_weights=each))
            if not rest_values or drawn:
                rest_values = {name: value_and_error([parts[2]], name) for name in names}
            _count(tallies, parts, rest_values, truth, int((of_file & ~few).sum()), block)
    return tallies


def _count(
    tallies: dict[str, Tally],
    parts: list[Judgements],
    rest: dict[str, tuple[float, float]],
    truth: dict[str, float | None],
    n_rest: int,
    seed: int,
) -> None:
    made: list[tuple[str, Estimate, Estimate, Estimate]] = []
    for name in tallies:
        people, judge = (metric_estimate(part, name) for part in parts[:2])
        made.append((name, people, judge, prediction_powered(people, judge, rest[name], n_rest)))
    values = [e.judged()[0] for _, people, _, both in made for e in (people, both)]
    ends = np.stack(studentised_interval(np.stack(values, axis=1), RESAMPLES, seed))
    for column, (name, people, judge, both) in enumerate(made):
        alone, joint = ends[:, 2 * column], ends[:, 2 * column + 1]
        if people.kind == "correlation":
            alone = np.tanh(alone)
        low, high = both.widened((joint[0], joint[1])) or (np.nan, np.nan)
        value, tally = truth[name] or 0.0, tallies[name]
        tally.covered.append(low <= value <= high)
        tally.covered_alone.append(alone[0] <= value <= alone[1])
        tally.widths.append((alone[1] - alone[0], high - low))
        tally.correlations.append(float(np.corrcoef(people.values, judge.values)[0, 1]))


def rows_of(labels: int, tallies: dict[str, Tally]) -> Iterator[tuple[str, ...]]:
    """The rows of the table."""
    for name, tally in tallies.items():
        alone, both = np.mean(tally.widths, axis=0)
        shares = (np.mean(tally.covered_alone), np.mean(tally.covered))
        yield (
            *(name, str(labels), *(f"{100 * share:.1f} %" for share in shares)),
            *(f"{alone:.3f}", f"{both:.3f}", f"{both / alone:.2f}"),
            f"{np.mean(tally.correlations):.2f}",
        )


def saved_by_drawing(even: dict[str, Tally], drawn: dict[str, Tally]) -> Iterator[tuple[str, ...]]:
    """Labels that drawn ones need for the width of even ones, as a share, and the coverage of both."""
    for name in even:
        widths = [np.mean(tally[name].widths, axis=0)[1] for tally in (even, drawn)]
        covered = [f"{100 * np.mean(tally[name].covered):.1f} %" for tally in (even, drawn)]
        yield name, *covered, f"{(widths[1] / widths[0]) ** 2:.2f}"


def suspects_found(path: Path) -> tuple[int, int, int]:
    """How many labels of a scored file are flipped (a twentieth), how many of them are suspect, and how many are among the
    first tenth of all pairs."""
    pairs = [pair for pair in read_pairs(path) if pair.label in set("12345")]
    p = np.array([[float(pair.extra[f"p_{g}"]) for g in range(1, 6)] for pair in pairs])
    truth, rng = np.array([int(pair.label or 0) - 1 for pair in pairs]), np.random.default_rng(0)
    flipped = rng.permutation(len(pairs))[: round(len(pairs) / 20)]
    truth[flipped] = (truth[flipped] + rng.integers(1, 5, len(flipped))) % 5
    _, margin = suspicion(p / p.sum(axis=1, keepdims=True), truth)
    first = np.argsort(-margin, kind="stable")[: len(pairs) // 10]
    return len(flipped), int((margin[flipped] > 0).sum()), len(np.intersect1d(first, flipped))


def main(arguments: list[str] | None = None) -> None:
    """Print the tables; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    read = parser.add_mutually_exclusive_group(required=True)
    read.add_argument("--data", type=Path, help="the folder of judged/ and pairs/")
    read.add_argument("--suspects", type=Path, help="a graded file as `qt-bert score` wrote it")
    parser.add_argument("--corpus", choices=CORPORA, default="kuake")
    parser.add_argument("--human", choices=("corpus", "ours"), default="ours")
    parser.add_argument("--scorer", choices=("bm25", "bigrams"), default="bm25")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 200, 400])
    parser.add_argument("--samples", type=int, default=1_000)
    parser.add_argument("--next", action="store_true", help="compare labels drawn as --next draws")
    options = parser.parse_args(arguments)
    with one_line_faults():
        if options.suspects:
            flipped, suspect, first = suspects_found(options.suspects)
            print(f"{flipped} labels flipped; {suspect} suspect, {first} in the first tenth")
            return
        population = read_population(options.data, options.corpus, options.human, options.scorer)
        n, n_queries = len(population.query), int(population.query.max()) + 1
        rows: list[tuple[str, ...]]
        print(
            f"{options.corpus}, {options.scorer}, people: {options.human}: {n:,} pairs, {n_queries:,} queries"
        )
        if options.next:
            rows = [("metric", "labels", "covers, even", "drawn", "labels needed, of even")]
            for labels in options.labels:
                both = (
                    sampled(population, labels, options.samples, drawn=d) for d in (False, True)
                )
                rows += [(name, str(labels), *rest) for name, *rest in saved_by_drawing(*both)]
        else:
            head = ("metric", "labels", "alone covers", "with judge", "width alone", "with judge")
            rows = [(*head, "ratio", "correlation")]
            for labels in options.labels:
                rows += rows_of(labels, sampled(population, labels, options.samples))
        print(table(rows))


if __name__ == "__main__":
    main()
