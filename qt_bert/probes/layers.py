"""Which layer encodes what? (`what_bert_and_transformer_learn`, parts 2 and 3; Tenney et al. 2019)

Linear probes (`layers_reading`) read properties of characters, arcs and pairs from frozen vectors. The
centre of gravity of the layers' gains shows where a property becomes readable. The articles place surface
properties in low layers, words and syntax in middle ones, and relations between the texts in high ones,
which correct low ones: here, the model's own head reads the score after every layer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Tagger, jieba_tagger
from qt_bert.data.shuffles import shuffle_characters
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.data.treebank import Sentence, halves
from qt_bert.figures import Figure, curve, head_map
from qt_bert.probes.base import Context, Result, estimate_bars, estimate_points, partition
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
    WITHIN,
    Decoded,
    Labelled,
    Positions,
    Property,
    Task,
    Unit,
    VectorReader,
    decided_at,
    decode,
    in_words,
    read_vectors,
    scores_by_layer,
    task_of,
)
from qt_bert.probes.streams import characters_of, few_in_quick, shared_terms, tokens_within
from qt_bert.probes.texts import texts_of
from qt_bert.results.probe import ResultTable, Row, Value
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray, fractional_ranks, ratio
from qt_bert.stats.estimate import Estimate, from_leave_one_out, over_queries, rho
from qt_bert.stats.judgements import known, set_means
from qt_bert.text import Label, number, signed

SURFACE = (POSITION, LENGTH)
SYNTAX = (BOUNDARY, POS, DEPENDENCY)
MEANING = (MATCHED, GRADE)
LEAST_TEXTS = 5
"""The least number of pairs in a half."""
SPLITS = 5
"""How often the queries are halved; gains are means over the splits, in both directions."""
LATE = 4
"""Position falls from r4 on, a third of the way up the source's model, against r2."""
LOW, HIGH = 2.5, 3.5
"""A grade on either side of the middle; between them it is on none."""
UNTRAINED = 5
"""Number of models with random weights compared with the pretrained one."""
QUICK_DRAWS, FULL_DRAWS = 2, 20
NAMES = {"nr": "person", "ns": "place", "nt": "organisation", "nz": "other name"}
"""jieba's tags of names, by their first two letters."""


class Sizes(NamedTuple):
    """The largest number of texts of each kind."""

    discovery: int
    further: int
    validation: int
    recombined: int
    recombined_validation: int
    sentences: int


QUICK = Sizes(100, 20, 100, 80, 60, 60)
FULL = Sizes(100_000, 100_000, 100_000, 5_000, 1_500, 100_000)


# Texts to fit on and to score on: pairs as they are, recombined pairs, sentences of a treebank.


class Half(NamedTuple):
    """(query, title) of each text, and its label: the grade, or whether the title is shuffled."""

    texts: tuple[tuple[str, str], ...]
    labels: Sequence[float | str | None]


def checked(context: Context) -> list[Pair]:
    """The validation pairs to score probes on."""
    limit = context.choose(QUICK, FULL).validation
    return spread_over_queries(context.validation, limit, context.seed)


def counts(context: Context) -> dict[str, int]:
    """The numbers of pairs to fit on and to score on, and the least number of each."""
    return {"fitted": len(_to_fit(context)), "scored": len(checked(context)), "least": LEAST_TEXTS}


def natural(context: Context) -> tuple[Half, Half]:
    """To fit on: discovery, and further texts without grades. To score on: validation.

    The two share no text. A label that allows several grades counts as their mean.
    """
    limit = context.choose(QUICK, FULL)
    chosen = spread_over_queries(_to_fit(context), limit.discovery, context.seed)
    more = _further(context)[: limit.further]

    def half(pairs: Sequence[Pair], beside: Sequence[tuple[str, str]] = ()) -> Half:
        texts = (*((pair.query, pair.title) for pair in pairs), *beside)
        grades = [float(np.mean(pair.grades)) if pair.grades else None for pair in pairs]
        return Half(texts, [*grades, *[None] * len(beside)])

    return half(chosen, more), half(checked(context))


def recombined(context: Context) -> tuple[Half, Half]:
    """Recombined pairs of the texts of each half, to fit on and to score on."""
    limit = context.choose(QUICK, FULL)
    to_fit = [(pair.query, pair.title) for pair in _to_fit(context)] + _further(context)
    to_score = [(pair.query, pair.title) for pair in context.validation]
    return (
        recombine(to_fit, limit.recombined, context.seed),
        recombine(to_score, limit.recombined_validation, context.seed + 1),
    )


def recombine(pairs: Sequence[tuple[str, str]], count: int, seed: int) -> Half:
    """At most `count` distinct pairs of a query and a title that are not in `pairs`.

    Every second pair has its title's characters shuffled; titles without another order are not drawn.
    """
    rng = np.random.default_rng([seed, 4])
    queries = list(dict.fromkeys(query for query, _ in pairs))
    titles = [title for title in dict.fromkeys(title for _, title in pairs) if len(set(title)) > 1]
    combinations, taken = len(queries) * len(titles), set(pairs)
    texts: list[tuple[str, str]] = []
    for place in rng.choice(combinations, min(combinations, count + len(taken)), replace=False):
        query, title = queries[place // len(titles)], titles[place % len(titles)]
        if len(texts) < count and (query, title) not in taken:
            shuffled = shuffle_characters(title, rng) if len(texts) % 2 else None
            texts.append((query, shuffled or title))
    return Half(tuple(texts), ["shuffled" if n % 2 else "kept" for n in range(len(texts))])


def _held_out(context: Context) -> set[str]:
    """The texts of validation."""
    return {text for pair in context.validation for text in (pair.query, pair.title)}


def _to_fit(context: Context) -> list[Pair]:
    """The discovery pairs that share no text with validation."""
    held_out = _held_out(context)
    return [pair for pair in context.discovery if not held_out & {pair.query, pair.title}]


def _further(context: Context) -> list[tuple[str, str]]:
    """Further pairs of texts that share none with validation, shuffled."""
    held_out = _held_out(context)
    pairs = [texts for texts in context.further_texts if not held_out & set(texts)]
    order = np.random.default_rng([context.seed, 5]).permutation(len(pairs))
    return [pairs[place] for place in order]


# Tasks: properties of the characters, the arcs and the whole of these texts.


def tasks(
    context: Context, properties: Collection[Property] = tuple(PROPERTIES.values())
) -> list[Task]:
    """The tasks for `properties`; there must be LEAST_TEXTS of each half.

    Tasks read in one pass share their texts; at the same positions, their positions. A property with
    too few examples, or one label, has no task; dependency needs a treebank. Raises PairFileError for a
    broken treebank.
    """
    tokenizer = context.model.tokenizer
    fit, check = natural(context)
    words = partition(context), jieba_tagger(context.request.userdict)
    every = [*token_tasks(fit, check, tokenizer, *words), grade_task(fit, check, tokenizer)]
    if LENGTH in properties or ORDER in properties:
        every += recombined_tasks(*recombined(context), tokenizer)
    if context.request.treebank and DEPENDENCY in properties:
        limit = context.choose(QUICK, FULL).sentences
        every.append(treebank_task(context.request.treebank, tokenizer, limit, context.seed))
    return [task for task in every if task is not None and task.about in properties]


Spans = tuple[Sequence[tuple[int, int]], tuple[float | str, ...], str]
"""Spans of tokens, their label for each property, and the kind: the character or word."""


def _labelled(half: Half, ends: int, by_text: Iterable[Iterable[Spans]]) -> list[Labelled]:
    """The rows of every text, each of `ends` spans, once for each property; empty without rows."""
    rows = [(number, *row) for number, of_text in enumerate(by_text) for row in of_text]
    spans = np.array([spans for _, spans, _, _ in rows], np.int64).reshape(-1, ends, 2)
    text = np.array([number for number, *_ in rows], np.int64)
    unit: Unit = "token" if ends == 1 else "edge"
    positions = Positions(unit, half.texts, text, spans)
    kinds = [row[3] for row in rows]
    return [
        Labelled(positions, labels, kinds) for labels in zip(*(r[2] for r in rows), strict=True)
    ]


def token_tasks(
    fit: Half, check: Half, tokenizer: PairTokenizer, segmenter: Segmenter, tagger: Tagger
) -> list[Task | None]:
    """The properties of characters, at the same positions: tokens of one Chinese character."""

    def rows(texts: tuple[str, str], encoded: EncodedPair) -> Iterator[Spans]:
        shared = shared_terms(*texts, segmenter).values()
        for side in (QUERY, TITLE):
            ends = {end for _, end in segmenter.spans(texts[side])}
            tags = ["x"] * len(texts[side])
            for (start, end), tag in tagger(texts[side]):
                tags[start:end] = [tag] * (end - start)
            matched = {place for term in shared for span in term[side] for place in range(*span)}
            for character in characters_of(encoded, *texts, side):
                tag = tags[character.place]
                labels = (
                    float(character.token),
                    "ends" if character.place + 1 in ends else "goes on",
                    tag[:1],
                    NAMES.get(tag[:2], "no name"),
                    "matched" if character.place in matched else "alone",
                )
                yield [(character.token, character.token + 1)], labels, character.text

    halves_labelled = [
        _labelled(half, 1, map(rows, half.texts, tokenizer.encode(half.texts)))
        for half in (fit, check)
    ]
    if not all(halves_labelled):  # no single characters in one half
        return []
    properties = (POSITION, BOUNDARY, POS, ENTITY, MATCHED)
    return [task_of(*row) for row in zip(properties, *halves_labelled, strict=True)]


def recombined_tasks(fit: Half, check: Half, tokenizer: PairTokenizer) -> list[Task | None]:
    """Length and order, at the same positions."""
    whole = [_whole(half, tokenizer) for half in (fit, check)]
    lengths = [Labelled(positions, sizes) for positions, sizes in whole]
    orders = [
        Labelled(positions, [str(label) for label in half.labels])
        for (positions, _), half in zip(whole, (fit, check), strict=True)
    ]
    return [task_of(LENGTH, *lengths), task_of(ORDER, *orders)]


def grade_task(fit: Half, check: Half, tokenizer: PairTokenizer) -> Task | None:
    """The grade of the pairs that have one."""

    def graded(half: Half) -> Labelled:
        positions, _ = _whole(half, tokenizer)
        rows = [row for row, grade in enumerate(half.labels) if grade is not None]
        chosen = replace(positions, text=positions.text[rows], spans=positions.spans[rows])
        return Labelled(chosen, [float(half.labels[row] or 0) for row in rows])

    return task_of(GRADE, graded(fit), graded(check))


def _whole(half: Half, tokenizer: PairTokenizer) -> tuple[Positions, list[float]]:
    """The spans of query and title of every text, empty where cut off; the number of its tokens."""
    encoded = tokenizer.encode(half.texts, offsets=False)
    spans = np.zeros((len(encoded), 2, 2), np.int64)
    for row, pair in enumerate(encoded):
        for place, side in enumerate((QUERY, TITLE)):
            count = pair.side.count(side)
            start = pair.side.index(side) if count else 0
            spans[row, place] = start, start + count
    positions = Positions("text", half.texts, np.arange(len(encoded)), spans)
    return positions, [float(len(pair)) for pair in encoded]


def treebank_task(
    files: Sequence[Path], tokenizer: PairTokenizer, limit: int, seed: int
) -> Task | None:
    """Labels of arcs, the dependent word first; sentences are halved by a hash of their text.

    A sentence is the query, the next one its title. Words that are cut off are in no example. Raises
    PairFileError for a file that is no treebank.
    """
    labelled: list[list[Labelled]] = []
    for sentences in halves(files):
        order = np.random.default_rng([seed, 6]).permutation(len(sentences))[:limit]
        chosen = [sentences[place] for place in sorted(order)]
        following = [*chosen[1:], *chosen[:1]]
        pairs = zip(chosen, following, strict=True)
        half = Half(tuple((sentence.text, after.text) for sentence, after in pairs), ())
        labelled.append(_labelled(half, 2, map(_arcs, chosen, tokenizer.encode(half.texts))))
    if not all(labelled):
        return None
    return task_of(DEPENDENCY, *(arcs for (arcs,) in labelled))


def _arcs(sentence: Sentence, encoded: EncodedPair) -> Iterator[Spans]:
    """The arcs between words that are whole and share no token with another."""
    words = [tokens_within(encoded, QUERY, span) for span in sentence.spans]
    owners = Counter(chain(*words))
    tokens: list[tuple[int, int] | None] = []
    for of_word, span in zip(words, sentence.spans, strict=True):
        whole = of_word and encoded.spans[of_word[-1]][1] >= span[1]
        alone = all(owners[token] == 1 for token in of_word)
        tokens.append((of_word[0], of_word[-1] + 1) if whole and alone else None)
    for word, dependent in zip(sentence.words, tokens, strict=True):
        head = tokens[word.head] if word.relation is not None and word.head >= 0 else None
        if dependent is not None and head is not None:
            yield [dependent, head], (str(word.relation),), word.form


# Where a property becomes readable.


def gains(choosing: FloatArray, testing: FloatArray) -> FloatArray:
    """The gain of each layer over the best one below it [..., layers].

    Both hold scores [..., 1 + layers], the trivial probe's first. `choosing` decides which layer is the
    best so far, `testing` gives its score. On the same examples noise alone would give gains, mostly in
    high layers; on different ones they cancel out.
    """
    best = np.maximum.accumulate(choosing, axis=-1)
    rises = np.zeros(choosing.shape, bool)
    rises[..., 1:] = choosing[..., 1:] > best[..., :-1]
    numbers = np.where(rises, np.arange(choosing.shape[-1]), 0)
    so_far = np.maximum.accumulate(numbers, axis=-1)
    return np.asarray(np.diff(np.take_along_axis(testing, so_far, axis=-1), axis=-1))


def centre_of_gravity(decoded: Decoded, resamples: int, seed: int) -> Estimate | None:
    """Σ layer × gain / Σ gain, between r0 and rn; None where the interval of Σ gain is not above 0.

    Layers are chosen on half of the queries or sentences, gains measured on the other half. The gain of
    r0 over the trivial probe counts at 0; Tenney et al. 2019 leave it out.
    """
    names = decoded.task.check.positions.names
    n = len(names)

    def crossed(weights: FloatArray) -> FloatArray:
        """Gains [R, layers] under weights of the groups [R, groups]."""

        def scores(drawn: FloatArray) -> FloatArray:
            return np.concatenate([decoded.majority.score(drawn), decoded.own.score(drawn)], axis=1)

        if n < 2:  # a single query cannot be halved
            return gains(scores(weights), scores(weights))
        rng, splits = np.random.default_rng([seed, 10]), []
        for _ in range(SPLITS):
            half = rng.permutation(n) % 2 == 0
            left, right = scores(weights * half), scores(weights * ~half)
            splits += [gains(left, right), gains(right, left)]
        return np.asarray(np.nanmean(splits, axis=0))

    every = np.concatenate([np.ones((1, n)), 1 - np.eye(n)]) if n > 1 else np.ones((1, n))
    by_layer = crossed(every)
    total = by_layer.sum(axis=1)
    gain = from_leave_one_out(float(total[0]), total[1:] if n > 1 else total, names)
    interval = gain.interval(resamples, seed)
    if not (interval[0] if interval else gain.value) > 0:
        return None
    layers = np.arange(by_layer.shape[1])
    centre = np.clip(ratio(by_layer @ layers, np.where(total > 0, total, 0.0)), 0, layers[-1])
    return from_leave_one_out(float(centre[0]), centre[1:] if n > 1 else centre, names)


def higher(
    centres: Mapping[str, Estimate | None], low: Sequence[Property], high: Sequence[Property]
) -> Estimate | None:
    """By how many layers the mean centre of the `high` properties lies above that of the `low` ones.

    Properties rest on different queries: leaving out a query does not change those without it. None
    where either group has no centre.
    """
    known = [[c for p in group if (c := centres.get(p.name))] for group in (low, high)]
    if not all(known):
        return None
    queries = tuple(dict.fromkeys(query for group in known for c in group for query in c.queries))

    def mean(group: Sequence[Estimate]) -> Estimate:
        """The mean over all queries; each estimate keeps its squared error."""
        n, left = len(queries), np.zeros(len(queries))
        for estimate in group:
            scale = math.sqrt((1 - 1 / estimate.n_queries) / (1 - 1 / n)) if n > 1 else 1.0
            changes = estimate.value - estimate.leave_one_out
            moved = dict(zip(estimate.queries, changes, strict=True))
            left -= scale * np.array([moved.get(query, 0.0) for query in queries]) / len(group)
        value = float(np.mean([estimate.value for estimate in group]))
        return from_leave_one_out(value, value + left, queries)

    return mean(known[1]) - mean(known[0])


def position_falls(position: Decoded) -> Estimate:
    """Mean R² of the position from a third of the layers on, less R² at half that depth."""
    last = position.own.good.shape[1] - 1
    late = min(LATE, math.ceil(last / 3))
    errors = position.own.good[:, late // 2] - position.own.good[:, late:].mean(axis=1)
    return _of_spread(errors, position)


def length_untrained(base: Decoded, random: Sequence[Decoded]) -> Estimate:
    """Mean R² of the length over r1 … rn in models with random weights, less the base's.

    The interval resamples the queries scored, not the pairs fitted or the random weights.
    """
    errors = [decoded.own.good[:, 1:].mean(axis=1) for decoded in (base, *random)]
    return _of_spread(errors[0] - np.mean(errors[1:], axis=0), base)


def _of_spread(errors: FloatArray, decoded: Decoded) -> Estimate:
    """Σ squared errors [groups] / Σ squared distances from the mean, over queries."""
    positions = decoded.task.check.positions
    groups = np.unique(positions.group)
    names = [positions.names[group] for group in groups]
    return over_queries(errors[groups], names) / over_queries(decoded.own.total[groups, 0], names)


# When the grade is decided.


def turns(
    read: FloatArray, last: FloatArray, labels: FloatArray, *, graded: bool
) -> tuple[FloatArray, BoolArray]:
    """How far the scores move across the middle from half depth to the end, and whether towards the label.

    `read` at half depth, `last` at the end, `labels`: all [pairs]. The middle is LOW to HIGH of `graded`
    scores; of others, which count as ranks among the pairs, the median. 0 for a pair that stays on its side.
    """
    low, high = LOW, HIGH
    if not graded:
        read, last, labels = map(fractional_ranks, (read, last, labels))
        low = high = (1 + 1 / len(read)) / 2
    across = (np.minimum(read, last) < low) & (np.maximum(read, last) > high)
    nearer = np.abs(last - labels) < np.abs(read - labels)
    return np.where(across, np.abs(last - read), 0.0), nearer


def decided(context: Context) -> Result:
    """From which layer on validation's scores stay near the last ones, and which pairs the upper half turns."""
    model, pairs = context.model, few_in_quick(context, context.validation)
    queries, labels = [p.query for p in pairs], set_means([known(p.grades) for p in pairs])
    encoded = model.tokenizer.encode([(p.query, p.title) for p in pairs], offsets=False)
    with context.progress(len(pairs), "pairs") as shown:
        scores = scores_by_layer(model, encoded, shown)
    half, layers, outputs = (scores.shape[1] - 1) // 2, scores.shape[1], model.settings.labels
    # One logit has no scale of its own.
    scaled = scores / ((scores[:, -1].std() or 1.0) if outputs.logits == 1 else 1.0)
    graded, within = outputs.grades is not None, WITHIN * outputs.grade_step
    moved, nearer = turns(scores[:, half], scores[:, -1], labels, graded=graded)
    turned = moved > 0
    lines: dict[Label, list[Estimate]] = {
        "distance": [over_queries(of, queries) for of in np.abs(scaled - scaled[:, -1:]).T],
        # The first token's r0 is the same in all pairs but for rounding.
        "rho": [rho(of, labels, queries) for of in scaled.T.round(4)],
    }
    points = {line: estimate_points(context, range(layers), of) for line, of in lines.items()}
    cells = np.stack([labels - outputs.levels, scores[:, half], scores[:, -1]], axis=1).tolist()
    words, headings = texts_of("layers"), ("query", "title", "label", "half", "last")
    columns = {name: words.label(f"words.{name}") for name in headings}
    rows = [
        Row((queries[row], pairs[row].title), tuple(map(Value, cells[row])))
        for row in np.argsort(-moved, kind="stable")[:5]
        if turned[row]
    ]
    return Result(
        measurements={
            "decided_layer": over_queries(decided_at(scaled, within), queries),
            "turned": over_queries(turned, queries),
            "turned_rightly": over_queries(np.where(turned, nearer, np.nan), queries),
        },
        figures=[curve("decided", points)],
        tables=[ResultTable(name="turned", columns=columns, rows=tuple(rows))] if rows else [],
        facts={"half": f"r{half}", "read": len(pairs), "within": within},
    )


# The probe.


def measure(context: Context) -> Result:
    """Probe all properties in the model and in its base, and compare the layers' gains."""
    if min((sizes := counts(context)).values()) < LEAST_TEXTS:
        return Result(nothing="few", facts=sizes)
    every = tasks(context)
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    models: dict[str, dict[str, Decoded]] = {}
    measurements: dict[str, Estimate | float | None] = {}
    if context.request.base is not None:
        base = open_base(context.request.base, context.model.checkpoint)
        models["pretrained"] = _decode(scorer_like(context, base), every, draws, context)
        measurements["length_untrained"] = None
        if (length := models["pretrained"].get(LENGTH.name)) is not None:
            random: list[Decoded] = []
            for draw in range(UNTRAINED):
                read = _reader(scorer_like(context, random_like(base, context.seed + draw)))
                random += decode(read, [length.task], draws=0, seed=context.seed).values()
            measurements["length_untrained"] = length_untrained(length, random)
    models["model"] = _decode(context.model, every, draws, context)
    centres = {
        name: {
            key: centre_of_gravity(of_property, context.resamples, context.seed)
            for key, of_property in decoded.items()
        }
        for name, decoded in models.items()
    }
    for name, decoded in models.items():
        suffix = "" if name == "pretrained" else "_model"
        measurements[f"surface_below_syntax{suffix}"] = higher(centres[name], SURFACE, SYNTAX)
        measurements[f"syntax_below_semantics{suffix}"] = higher(centres[name], SYNTAX, MEANING)
        if (position := decoded.get(POSITION.name)) is not None:
            measurements[f"position_falls{suffix}"] = position_falls(position)
    first, own_head = next(iter(models)), decided(context)
    return Result(
        measurements={**measurements, **own_head.measurements},
        figures=[*_figures(models, centres, context), *own_head.figures],
        tables=own_head.tables,
        facts={
            **sizes,
            **own_head.facts,
            "which": first,
            "centres": in_words(
                {n: each.value for n, each in centres[first].items() if each},
                partial(number, digits=1),
            ),
            "recombined": max((len(task.fit) for task in every if task.about is LENGTH), default=0),
            "untrained": UNTRAINED,
            "draws": draws,
        },
        settings={
            "treebanks": [path.name for path in context.request.treebank],
            "control_draws": draws,
            "examples": {t.about.name: {"fit": len(t.fit), "check": len(t.check)} for t in every},
        },
        pairs=checked(context),
    )


def _reader(scorer: Scorer) -> VectorReader:
    return lambda positions, shown: read_vectors(scorer, positions, shown=shown)


def _decode(
    scorer: Scorer, every: Sequence[Task], draws: int, context: Context
) -> dict[str, Decoded]:
    """Every property of one model, from the surface up."""
    texts = {half.positions.texts for task in every for half in (task.fit, task.check)}
    with context.progress(sum(map(len, texts)), "texts") as shown:
        decoded = decode(_reader(scorer), every, draws=draws, seed=context.seed, shown=shown)
    return {name: decoded[name] for name in PROPERTIES if name in decoded}


def _figures(
    models: Mapping[str, Mapping[str, Decoded]],
    centres: Mapping[str, Mapping[str, Estimate | None]],
    context: Context,
) -> list[Figure]:
    """The centres of gravity; each model's scores with their selectivity, by layer."""
    names = [name for name in PROPERTIES if name in models["model"]]
    series = {name: [of[key] for key in names] for name, of in centres.items()}
    figures: list[Figure] = [estimate_bars(context, "centres", names, series, digits=1)]
    for name, decoded in models.items():
        scores = head_map(
            f"score_{name}", [each.score.tolist() for each in decoded.values()], low=0.0, high=1.0
        )
        selectivity = [each.selectivity for each in decoded.values()]
        figures.append(
            replace(
                scores,
                columns=tuple(f"r{layer}" for layer in range(len(scores.columns))),
                rows=tuple(decoded),
                annotations=tuple(tuple(signed(value, 2) for value in row) for row in selectivity),
            )
        )
    return figures
