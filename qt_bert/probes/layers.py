"""Which layer holds what? (`what_bert_and_transformer_learn`, parts 2 and 3; Tenney et al. 2019)

Linear probes (`layers_reading`) read properties of characters, arcs and pairs from frozen vectors. Where a
property becomes readable is the centre of gravity of the layers' gains. The articles place surface in
low layers, words and syntax in middle ones, and what relates the texts in high ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Tagger, jieba_tagger
from qt_bert.data.shuffles import shuffle_characters
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.data.treebank import Sentence, halves, read_treebank
from qt_bert.figures import Figure, head_map
from qt_bert.probes.base import Context, Result
from qt_bert.probes.base_model import open_base, random_like, scorer_like
from qt_bert.probes.layers_reading import (
    BOUNDARY,
    DEPENDENCY,
    ENTITY,
    GRADE,
    LENGTH,
    MATCHED,
    ORDER,
    POS,
    POSITION,
    PROPERTIES,
    Decoded,
    Labelled,
    Places,
    Property,
    Reader,
    Task,
    Unit,
    decode,
    in_words,
    task_of,
    vectors,
)
from qt_bert.probes.shared import estimate_bars, partition
from qt_bert.probes.streams import characters_of, shared_terms, tokens_within
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, from_leave_one_out, over_queries

SURFACE = (POSITION, LENGTH)
SYNTAX = (BOUNDARY, POS, DEPENDENCY)
MEANING = (MATCHED, GRADE)
LEAST_TEXTS = 5
"""Fewer pairs in a half say nothing of what can be read from vectors."""
SPLITS = 5
"""How often the queries are halved; gains are the mean over these, each taken both ways."""
LATE = 4
"""Position falls from r4 on, a third of the way up the source's model, against r2."""
UNTRAINED = 5
"""How many models with random weights are compared with the pretrained one."""
QUICK_DRAWS, FULL_DRAWS = 2, 20
NAMES = {"nr": "person", "ns": "place", "nt": "organisation", "nz": "other name"}
"""jieba's tags of names, by their first two letters."""


class Sizes(NamedTuple):
    """How many texts of each kind there are at most."""

    discovery: int
    further: int
    validation: int
    recombined: int
    recombined_validation: int
    sentences: int


QUICK = Sizes(160, 60, 160, 200, 110, 120)
FULL = Sizes(100_000, 100_000, 100_000, 5_000, 1_500, 100_000)


# Texts to fit on and to score on: pairs as they are, recombined pairs, sentences of a treebank.


class Half(NamedTuple):
    """(query, title) of each text, and its label: the grade, or whether the title is shuffled."""

    texts: tuple[tuple[str, str], ...]
    labels: Sequence[float | str | None]

    def groups(self) -> IntArray:
        """The number of each text's query, from 0 in the order in which they first stand there."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(query, len(numbers)) for query, _ in self.texts])


def checked(context: Context) -> list[Pair]:
    """The pairs of validation that probes are scored on."""
    limit = context.choose(QUICK, FULL).validation
    return spread_over_queries(context.validation, limit, context.seed)


def counts(context: Context) -> dict[str, int]:
    """How many pairs there are to fit and to score on, and how many of each there must be."""
    return {
        "fitted": len(_to_fit(context)),
        "scored": len(checked(context)),
        "least": LEAST_TEXTS,
    }


def too_few(context: Context) -> dict[str, int] | None:
    """`counts` where there are too few pairs, else None."""
    found = counts(context)
    return found if min(found["fitted"], found["scored"]) < LEAST_TEXTS else None


def natural(context: Context) -> tuple[Half, Half]:
    """To fit on: discovery, and further texts without grades. To score on: validation.

    No query and no title of the second stands in the first. A grade is the mean of those that a label
    may mean.
    """
    limit = context.choose(QUICK, FULL)
    chosen, validation = (
        spread_over_queries(_to_fit(context), limit.discovery, context.seed),
        checked(context),
    )
    more = _further(context)[: limit.further]

    def half(pairs: Sequence[Pair], beside: Sequence[tuple[str, str]] = ()) -> Half:
        texts = (*((one.query, one.title) for one in pairs), *beside)
        grades = [float(np.mean(one.grades)) if one.grades else None for one in pairs]
        return Half(texts, [*grades, *[None] * len(beside)])

    return half(chosen, more), half(validation)


def recombined(context: Context) -> tuple[Half, Half]:
    """Recombined pairs of all texts of either half, to fit on and to score on."""
    limit = context.choose(QUICK, FULL)
    mine = [(pair.query, pair.title) for pair in _to_fit(context)] + _further(context)
    theirs = [(pair.query, pair.title) for pair in context.validation]
    return (
        recombine(mine, limit.recombined, context.seed),
        recombine(theirs, limit.recombined_validation, context.seed + 1),
    )


def recombine(pairs: Sequence[tuple[str, str]], count: int, seed: int) -> Half:
    """At most `count` different pairs of a query and a title that are not a pair of the file.

    Those of even number are as they are, those of odd number have their title's characters shuffled
    (titles that have no other order are never drawn).
    """
    rng = np.random.default_rng([seed, 4])
    queries = list(dict.fromkeys(query for query, _ in pairs))
    titles = [one for one in dict.fromkeys(title for _, title in pairs) if len(set(one)) > 1]
    combinations, taken = len(queries) * len(titles), set(pairs)
    texts: list[tuple[str, str]] = []
    for place in rng.choice(combinations, min(combinations, count + len(taken)), replace=False):
        query, title = queries[place // len(titles)], titles[place % len(titles)]
        if len(texts) < count and (query, title) not in taken:
            shuffled = shuffle_characters(title, rng) if len(texts) % 2 else None
            texts.append((query, shuffled or title))
    return Half(tuple(texts), ["shuffled" if n % 2 else "kept" for n in range(len(texts))])


def _known(context: Context) -> set[str]:
    return {text for pair in context.validation for text in (pair.query, pair.title)}


def _to_fit(context: Context) -> list[Pair]:
    """The pairs of discovery that share no text with validation."""
    known = _known(context)
    return [pair for pair in context.discovery if not known & {pair.query, pair.title}]


def _further(context: Context) -> list[tuple[str, str]]:
    """Further texts that validation does not have, in an order drawn by the seed."""
    known = _known(context)
    texts = [one for one in context.further_texts if not known & set(one)]
    order = np.random.default_rng([context.seed, 5]).permutation(len(texts))
    return [texts[place] for place in order]


# Tasks: what is true of the characters, the arcs and the whole of these texts.


def tasks(context: Context, asked: Collection[Property] = tuple(PROPERTIES.values())) -> list[Task]:
    """The tasks of this profile that ask for one of some properties; there must be enough pairs.

    Tasks read in one pass share their texts, at one place their places. A property that these texts
    say nothing of (too few of them, or one label alone) has no task, dependency has none without a
    treebank. Raises PairFileError for a broken treebank.
    """
    tokenizer = context.model.tokenizer
    fit, check = natural(context)
    words = partition(context), jieba_tagger(context.request.userdict)
    found = [*token_tasks(fit, check, tokenizer, *words), grade_task(fit, check, tokenizer)]
    if LENGTH in asked or ORDER in asked:
        found += recombined_tasks(*recombined(context), tokenizer)
    if context.request.treebank and DEPENDENCY in asked:
        limit = context.choose(QUICK, FULL).sentences
        found.append(treebank_task(context.request.treebank, tokenizer, limit, context.seed))
    return [task for task in found if task is not None and task.about in asked]


Labels = tuple[float | str, ...]
Row = tuple[Sequence[tuple[int, int]], Labels, str]
"""Spans of tokens, their label for each of some properties, and what stands there."""


def _labelled(half: Half, ends: int, found: Iterable[Iterable[Row]]) -> list[Labelled]:
    """The rows of every text, each of `ends` spans, once for each property, at the same places.

    Nothing where there is no row.
    """
    rows = [(number, *row) for number, own in enumerate(found) for row in own]
    spans = np.array([spans for _, spans, _, _ in rows], np.int64).reshape(-1, ends, 2)
    text = np.array([number for number, *_ in rows], np.int64)
    unit: Unit = "token" if ends == 1 else "edge"
    places, kinds = Places(unit, half.texts, text, spans, half.groups()), [row[3] for row in rows]
    return [Labelled(places, one, kinds) for one in zip(*(row[2] for row in rows), strict=True)]


def token_tasks(
    fit: Half, check: Half, tokenizer: PairTokenizer, segmenter: Segmenter, tagger: Tagger
) -> list[Task | None]:
    """The properties of characters, all at the same places: tokens of one Chinese character."""

    def rows(texts: tuple[str, str], encoded: EncodedPair) -> Iterator[Row]:
        shared = shared_terms(*texts, segmenter).values()
        for side in (QUERY, TITLE):
            ends = {end for _, end in segmenter.spans(texts[side])}
            tags = ["x"] * len(texts[side])
            for (start, end), tag in tagger(texts[side]):
                tags[start:end] = [tag] * (end - start)
            matched = {at for one in shared for span in one[side] for at in range(*span)}
            for at in characters_of(encoded, *texts, side):
                labels = (
                    float(at.token),
                    "ends" if at.place + 1 in ends else "goes on",
                    tags[at.place][:1],
                    NAMES.get(tags[at.place][:2], "no name"),
                    "matched" if at.place in matched else "alone",
                )
                yield [(at.token, at.token + 1)], labels, at.text

    read = [
        _labelled(half, 1, map(rows, half.texts, tokenizer.encode(half.texts)))
        for half in (fit, check)
    ]
    if not all(read):  # no single characters in one half
        return []
    asked = (POSITION, BOUNDARY, POS, ENTITY, MATCHED)
    return [task_of(*one) for one in zip(asked, *read, strict=True)]


def recombined_tasks(fit: Half, check: Half, tokenizer: PairTokenizer) -> list[Task | None]:
    """Length and order, at the same places."""
    read = [_whole(half, tokenizer) for half in (fit, check)]
    lengths = [Labelled(places, sizes) for places, sizes in read]
    orders = [
        Labelled(places, [str(label) for label in half.labels])
        for (places, _), half in zip(read, (fit, check), strict=True)
    ]
    return [task_of(LENGTH, *lengths), task_of(ORDER, *orders)]


def grade_task(fit: Half, check: Half, tokenizer: PairTokenizer) -> Task | None:
    """The grade, of the pairs that have one."""

    def graded(half: Half) -> Labelled:
        places, _ = _whole(half, tokenizer)
        rows = [row for row, grade in enumerate(half.labels) if grade is not None]
        few = replace(places, text=places.text[rows], spans=places.spans[rows])
        return Labelled(few, [float(half.labels[row] or 0) for row in rows])

    return task_of(GRADE, graded(fit), graded(check))


def _whole(half: Half, tokenizer: PairTokenizer) -> tuple[Places, list[float]]:
    """Query and title of every text, the span of one that was cut off empty; tokens of the pair."""
    encoded = tokenizer.encode(half.texts, offsets=False)
    spans = np.zeros((len(encoded), 2, 2), np.int64)
    for row, one in enumerate(encoded):
        for place, side in enumerate((QUERY, TITLE)):
            count = one.side.count(side)
            start = one.side.index(side) if count else 0
            spans[row, place] = start, start + count
    places = Places("text", half.texts, np.arange(len(encoded)), spans, half.groups())
    return places, [float(len(one)) for one in encoded]


def treebank_task(
    files: Sequence[Path], tokenizer: PairTokenizer, limit: int, seed: int
) -> Task | None:
    """Labels of arcs, the dependent word first; sentences are halved by a hash of their text.

    A model reads a sentence as a query, the one that follows as its title. Words that the sequence
    has no room for are in no example. Raises PairFileError for a file that is no treebank.
    """
    read = [sentence for file in files for sentence in read_treebank(file).sentences]
    found: list[list[Labelled]] = []
    for one in halves(list({sentence.text: sentence for sentence in read}.values())):
        every = list(one)
        order = np.random.default_rng([seed, 6]).permutation(len(every))[:limit]
        chosen = [every[place] for place in sorted(order)]
        following = [*chosen[1:], *chosen[:1]]
        pairs = zip(chosen, following, strict=True)
        half = Half(tuple((sentence.text, after.text) for sentence, after in pairs), ())
        found.append(_labelled(half, 2, map(_arcs, chosen, tokenizer.encode(half.texts))))
    if not all(found):
        return None
    return task_of(DEPENDENCY, *(one for (one,) in found))


def _arcs(sentence: Sentence, encoded: EncodedPair) -> Iterator[Row]:
    """The arcs of a sentence whose words are all there, and share no token with another."""
    words = [tokens_within(encoded, QUERY, span) for span in sentence.spans]
    owners = Counter(chain(*words))
    tokens: list[tuple[int, int] | None] = []
    for own, span in zip(words, sentence.spans, strict=True):
        whole = own and encoded.spans[own[-1]][1] >= span[1]
        alone = all(owners[token] == 1 for token in own)
        tokens.append((own[0], own[-1] + 1) if whole and alone else None)
    for word, dependent in zip(sentence.words, tokens, strict=True):
        head = tokens[word.head] if word.relation is not None and word.head >= 0 else None
        if dependent is not None and head is not None:
            yield [dependent, head], (str(word.relation),), word.form


# Where a property becomes readable.


def gains(choosing: FloatArray, told: FloatArray) -> FloatArray:
    """What each layer adds to the best one below it [..., layers].

    Both hold scores [..., 1 + layers], first that of a probe that knows nothing. Which layer is the
    best so far is read off `choosing`, what it adds off `told`. Of the same examples a flat curve
    gains by its noise alone, most of all in high layers; of different ones such gains cancel out.
    """
    best = np.maximum.accumulate(choosing, axis=-1)
    rises = np.zeros(choosing.shape, bool)
    rises[..., 1:] = choosing[..., 1:] > best[..., :-1]
    numbers = np.where(rises, np.arange(choosing.shape[-1]), 0)
    so_far = np.maximum.accumulate(numbers, axis=-1)
    return np.asarray(np.diff(np.take_along_axis(told, so_far, axis=-1), axis=-1))


def centre_of_gravity(one: Decoded, resamples: int, seed: int) -> Estimate | None:
    """Σ layer × gain / Σ gain, between r0 and rn; None where the gains' interval is not above 0.

    The layers are chosen on half of the queries or sentences, their gains told by the other half.
    The gain of r0 is what it tells above a probe that knows nothing; it counts at 0, where Tenney
    et al. 2019 leave it out.
    """
    names = one.task.check.places.names
    n = len(names)

    def crossed(weights: FloatArray) -> FloatArray:
        """Gains [R, layers] with the groups weighed [R, groups]."""

        def scores(drawn: FloatArray) -> FloatArray:
            return np.concatenate([one.majority.score(drawn), one.own.score(drawn)], axis=1)

        if n < 2:  # a single query cannot be halved
            return gains(scores(weights), scores(weights))
        rng, found = np.random.default_rng([seed, 10]), []
        for _ in range(SPLITS):
            half = rng.permutation(n) % 2 == 0
            left, right = scores(weights * half), scores(weights * ~half)
            found += [gains(left, right), gains(right, left)]
        return np.asarray(np.nanmean(found, axis=0))

    every = np.concatenate([np.ones((1, n)), 1 - np.eye(n)]) if n > 1 else np.ones((1, n))
    found = crossed(every)
    total = found.sum(axis=1)
    told = from_leave_one_out(float(total[0]), total[1:] if n > 1 else total, names)
    interval = told.interval(resamples, seed)
    if not (interval[0] if interval else told.value) > 0:
        return None
    layers = np.arange(found.shape[1])
    centre = np.clip(ratio(found @ layers, np.where(total > 0, total, 0.0)), 0, layers[-1])
    return from_leave_one_out(float(centre[0]), centre[1:] if n > 1 else centre, names)


def higher(
    centres: Mapping[str, Estimate | None], low: Sequence[Property], high: Sequence[Property]
) -> Estimate | None:
    """By how many layers the mean centre of some properties lies above that of others.

    Properties rest on different queries: one that a query says nothing of stays as it is without it.
    None where either has no centre.
    """
    known = [[one for p in group if (one := centres.get(p.name))] for group in (low, high)]
    if not all(known):
        return None
    queries = tuple(
        dict.fromkeys(query for group in known for one in group for query in one.queries)
    )

    def mean(group: Sequence[Estimate]) -> Estimate:
        """Over all queries; each estimate keeps its squared error, whatever their number."""
        n, left = len(queries), np.zeros(len(queries))
        for one in group:
            scale = math.sqrt((1 - 1 / one.n_queries) / (1 - 1 / n)) if n > 1 else 1.0
            moved = dict(zip(one.queries, one.value - one.leave_one_out, strict=True))
            left -= scale * np.array([moved.get(query, 0.0) for query in queries]) / len(group)
        value = float(np.mean([one.value for one in group]))
        return from_leave_one_out(value, value + left, queries)

    return mean(known[1]) - mean(known[0])


def position_falls(one: Decoded) -> Estimate:
    """R² of the position in the mean from a third of the layers on, less that of half as far up."""
    last = one.own.good.shape[1] - 1
    late = min(LATE, math.ceil(last / 3))
    errors = one.own.good[:, late // 2] - one.own.good[:, late:].mean(axis=1)
    return _of_spread(errors, one)


def length_untrained(base: Decoded, random: Sequence[Decoded]) -> Estimate:
    """R² of the length over r1 … rn, the mean of models with random weights less the base's.

    Its interval is over the queries scored; the pairs fitted and the random weights stay as they are.
    """
    errors = [one.own.good[:, 1:].mean(axis=1) for one in (base, *random)]
    return _of_spread(errors[0] - np.mean(errors[1:], axis=0), base)


def _of_spread(errors: FloatArray, one: Decoded) -> Estimate:
    """Σ errors / Σ squared distances from the mean, over queries; `errors` [groups] are squared."""
    there = np.unique(one.task.check.places.group)
    names = [one.task.check.places.names[group] for group in there]
    return over_queries(errors[there], names) / over_queries(one.own.total[there, 0], names)


# The probe.


def measure(context: Context) -> Result:
    """Read all properties from the model and from its base, and compare the layers' gains."""
    if few := too_few(context):
        return Result(nothing="few", facts=few)
    asked = tasks(context)
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    models: dict[str, dict[str, Decoded]] = {}
    untrained: Estimate | None = None
    if context.request.base is not None:
        base = open_base(context.request.base, context.model.checkpoint)
        models["pretrained"] = _read(scorer_like(context, base), asked, draws, context)
        if (length := models["pretrained"].get(LENGTH.name)) is not None:
            random: list[Decoded] = []
            for draw in range(UNTRAINED):
                read = _reader(scorer_like(context, random_like(base, context.seed + draw)))
                random += decode(read, [length.task], draws=0, seed=context.seed).values()
            untrained = length_untrained(length, random)
    models["model"] = _read(context.model, asked, draws, context)
    centres = {
        name: {
            key: centre_of_gravity(one, context.resamples, context.seed)
            for key, one in found.items()
        }
        for name, found in models.items()
    }
    measured: dict[str, Estimate | float | None] = {}
    for name, found in models.items():
        suffix = "" if name == "pretrained" else "_model"
        measured[f"surface_below_syntax{suffix}"] = higher(centres[name], SURFACE, SYNTAX)
        measured[f"syntax_below_semantics{suffix}"] = higher(centres[name], SYNTAX, MEANING)
        if (position := found.get(POSITION.name)) is not None:
            measured[f"position_falls{suffix}"] = position_falls(position)
    if context.request.base is not None:
        measured["length_untrained"] = untrained
    first = next(iter(models))
    return Result(
        measurements=measured,
        figures=_figures(models, centres, context),
        facts={
            **counts(context),
            "which": first,
            "centres": in_words({n: one.value for n, one in centres[first].items() if one}, ".1f"),
            "recombined": max((len(one.fit) for one in asked if one.about is LENGTH), default=0),
            "untrained": UNTRAINED,
            "draws": draws,
        },
        settings={
            "treebanks": [path.name for path in context.request.treebank],
            "control_draws": draws,
            "examples": {
                one.about.name: {
                    "fit": len(one.fit),
                    "check": len(one.check),
                    "classes": list(one.classes),
                }
                for one in asked
            },
        },
        pairs=checked(context),
    )


def _reader(scorer: Scorer) -> Reader:
    return lambda places, shown: vectors(scorer, places, shown=shown)


def _read(
    scorer: Scorer, asked: Sequence[Task], draws: int, context: Context
) -> dict[str, Decoded]:
    """Every property of one model, from the surface up."""
    texts = {id(half.places.texts): half for task in asked for half in (task.fit, task.check)}
    with context.progress(sum(len(one.places.texts) for one in texts.values()), "texts") as shown:
        found = decode(_reader(scorer), asked, draws=draws, seed=context.seed, shown=shown)
    return {name: found[name] for name in PROPERTIES if name in found}


def _figures(
    models: Mapping[str, Mapping[str, Decoded]],
    centres: Mapping[str, Mapping[str, Estimate | None]],
    context: Context,
) -> list[Figure]:
    """Scores with their selectivity by layer, of each model; the centres of gravity."""
    nowhere = Estimate(float("nan"), np.empty(0), ())
    names = [name for name in PROPERTIES if name in models["model"]]
    series = {name: [found[key] or nowhere for key in names] for name, found in centres.items()}
    drawn: list[Figure] = [estimate_bars(context, "centres", names, series, digits=1)]
    for name, found in models.items():
        scores = head_map(
            f"score_{name}", [one.score.tolist() for one in found.values()], low=0.0, high=1.0
        )
        selective = [one.selectivity for one in found.values()]
        drawn.append(
            replace(
                scores,
                columns=tuple(f"r{layer}" for layer in range(len(scores.columns))),
                rows=tuple(found),
                annotations=tuple(tuple(f"{value:+.2f}" for value in row) for row in selective),
            )
        )
    return drawn
