"""Do heads look at words of a kind, or at special tokens? (Kovaleva et al. 2019, 4.3; `dark_secrets_of_bert`)

The source's measure is the *peak*: what all tokens of a pair give on average to a token of a kind, of
several tokens the one that gets most; texts without a token of the kind do not count. Its features are
nouns, verbs, pronouns, subjects, objects, negation, [CLS] and [SEP]; numbers and punctuation stand
beside. Heads are named by their *lift*: the attention to all tokens of a kind together over what it
would be were every token to look evenly at all it sees: where that is everything, the share of tokens
of the kind. [CLS] is the special token that is read, which a causal model may lack, and [SEP] are all
other special tokens, those of a template among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View, batch_tokens, sweep
from qt_bert.ablation.interventions import NONE
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Tagged, jieba_tagger
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import SPECIAL, EncodedPair
from qt_bert.data.treebank import Sentence, halves, read_treebank
from qt_bert.errors import PairFileError
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch, row_at
from qt_bert.models.forward import Encoder
from qt_bert.probes.base import Context, Result
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.naming import (
    Named,
    by_query,
    means,
    name_heads,
    one_sided_p,
    stability_of_means,
)
from qt_bert.probes.shared import estimate_bars, head_table
from qt_bert.probes.streams import is_punctuation
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, ratio
from qt_bert.stats.estimate import Estimate, over_queries, paired

QUICK_PAIRS = {"discovery": 60, "validation": 120}
QUICK_SENTENCES = {"discovery": 60, "validation": 120}
LEAST_SENTENCES = 4
"""Of each half: two pairs, so that there is something to resample."""
LEAST_LIFT = 1.5
"""A head is named for a kind only if it gives it so many times its share of the tokens."""
RIVAL_SHARE = 0.1
"""A kind rivals [SEP] only if so many of the queries have it."""
HALF = 0.5
PERCENT = 100.0


# Kinds of tokens: special ones, punctuation, parts of speech, subject and object.


SPECIALS = ("cls", "sep")
OF_TEXTS = ("punctuation", "noun", "verb", "pronoun", "number", "negation")
OF_ARCS = ("subject", "object")
"""Known only where people drew the arcs of a sentence."""
TUNED, OTHER = "tuned", "other"
"""Nouns, objects and negation together, which the source says tuning adds to; tokens of no kind above."""
KINDS = (*SPECIALS, *OF_TEXTS, *OF_ARCS, TUNED, OTHER)
EMPTY = ("cls", "sep", "punctuation")
"""Where attention goes that says nothing of words."""

_DENYING = """
    不 没 没有 无 非 未 别 勿 莫 甭 不是 不会 不能 不可 不可以 不要 不用 不得 不必 不想 不再 不曾 不愿 不肯
    不该 不应 并不 并非 无法 没法 没能 从不 从未 从没 未必 未曾 毫无 绝不 决不 无须 无需
"""
NEGATIONS = frozenset(_DENYING.split())
"""Words that deny, by form: neither jieba nor every treebank marks them."""

_BY_TAG = {"n": "noun", "v": "verb", "r": "pronoun", "m": "number"}
_BY_UPOS = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "PRON": "pronoun", "NUM": "number"}
_ROLES = {"nsubj": "subject", "obj": "object"}
_TUNED = ("noun", "object", "negation")
_PLACE = {kind: place for place, kind in enumerate(KINDS)}


class Labelled(NamedTuple):
    """A text and of which kinds its characters are: 0 or 1 [characters, KINDS]."""

    text: str
    kinds: FloatArray


def place_of(kind: str) -> int:
    """The column of a kind."""
    return _PLACE[kind]


def by_tags(text: str, tag: Callable[[str], list[Tagged]]) -> Labelled:
    """`text` by jieba's tags: n… nouns, v… verbs, r… pronouns, m… numbers."""
    return _labelled(
        text, (((start, end), (_BY_TAG.get(of[:1], ""),)) for (start, end), of in tag(text))
    )


def by_people(sentence: Sentence) -> Labelled:
    """A treebank's sentence: its words' parts of speech, subjects and direct objects.

    Where it says no part of speech, what needs one is left out: no token is of TUNED, or of OTHER.
    """
    words = []
    for span, word in zip(sentence.spans, sentence.words, strict=True):
        role = _ROLES.get((word.relation or "").split(":")[0], "")
        words.append((span, (_BY_UPOS.get(word.upos or "", ""), role)))
    found = _labelled(sentence.text, words)
    if not any(word.upos for word in sentence.words):
        found.kinds[:, [_PLACE[TUNED], _PLACE[OTHER]]] = 0
    return found


def _labelled(text: str, words: Iterable[tuple[tuple[int, int], Iterable[str]]]) -> Labelled:
    kinds = np.zeros((len(text), len(KINDS)))
    for (start, end), named in words:
        for kind in filter(None, named):
            kinds[start:end, _PLACE[kind]] = 1
        if text[start:end] in NEGATIONS:
            kinds[start:end, _PLACE["negation"]] = 1
    marks = [is_punctuation(character) for character in text]
    kinds[marks] = 0  # a tagger may call a sign a noun, or a number
    kinds[marks, _PLACE["punctuation"]] = 1
    kinds[:, _PLACE[TUNED]] = kinds[:, [_PLACE[kind] for kind in _TUNED]].max(axis=1)
    kinds[:, _PLACE[OTHER]] = 1 - kinds.max(axis=1)
    return Labelled(text, kinds)


def of_tokens(encoded: EncodedPair, query: Labelled, title: Labelled) -> FloatArray:
    """Of which kinds the tokens of a pair are [tokens, KINDS]: of each the share of its characters.

    The pair must have been encoded with offsets. Marks that spell nothing are of no kind.
    """
    found = np.zeros((len(encoded), len(KINDS)))
    for token, side in enumerate(encoded.side):
        if side == SPECIAL:
            found[token, _PLACE["cls" if token == encoded.cls else "sep"]] = 1
    for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side != SPECIAL and end > start:
            found[token] = (query, title)[side].kinds[start:end].mean(axis=0)
    return found


# The texts: pairs by jieba's tags, and a treebank's sentences by people's.


class Read(NamedTuple):
    """What a model reads at once, in two texts; `query` says what it is resampled with."""

    query: str
    texts: tuple[Labelled, Labelled]


def pairs_read(context: Context, pairs: Sequence[Pair]) -> list[Read]:
    """Queries and titles by jieba's tags."""
    tag = jieba_tagger(context.request.userdict)
    texts = dict.fromkeys(text for pair in pairs for text in (pair.query, pair.title))
    labelled = {text: by_tags(text, tag) for text in texts}
    return [Read(pair.query, (labelled[pair.query], labelled[pair.title])) for pair in pairs]


def sentences_read(context: Context) -> dict[str, list[Read]] | None:
    """The sentences of all treebanks by half, two in a row read as query and title; None without any.

    Each sentence once, in the half of its text. Raises PairFileError where a half has fewer than
    LEAST_SENTENCES.
    """
    if not context.request.treebank:
        return None
    sentences = [one for path in context.request.treebank for one in read_treebank(path).sentences]
    parts = halves({sentence.text: sentence for sentence in sentences}.values())
    found = {}
    for half, own in (("discovery", parts.discovery), ("validation", parts.validation)):
        if len(own) < LEAST_SENTENCES:
            named = ", ".join(map(str, context.request.treebank))
            raise PairFileError(
                f"{named}: {len(own)} different sentences in the half for {half}, which needs "
                f"{LEAST_SENTENCES}; give a larger treebank"
            )
        limit = context.choose(QUICK_SENTENCES[half], len(own))
        places = np.random.default_rng(context.seed).permutation(len(own))[:limit]
        drawn = [by_people(own[place]) for place in sorted(places)]
        couples = zip(drawn[:-1:2], drawn[1::2], strict=True)
        found[half] = [Read(one.text, (one, other)) for one, other in couples]
    return found


# What a head gives to tokens of each kind.


MEASURES = ("share", "peak", "cls_peak")
"""What all tokens together give to a kind, and to its token that gets most (the source's measure);
the latter of the classification token alone."""


@dataclass(frozen=True, eq=False)
class Looking:
    """The attention of two models, or one, on the same texts.

    `base_rate` [reads, layers, KINDS] is what a kind would get in a layer from tokens that look evenly at
    all they see. `after` (the model) and
    `before` (its base, where there is one) [reads, layers, heads, KINDS, MEASURES]. All are NaN where
    the texts have no token of the kind, attention also at heads that were pruned.
    """

    queries: list[str]
    base_rate: FloatArray
    after: FloatArray
    before: FloatArray | None

    def rate(self, kind: str) -> FloatArray:
        """The base rate of a kind in each query [queries, layers]."""
        return by_query(self.base_rate[..., _PLACE[kind]], self.queries)

    def of(self, kind: str, measure: str = "share") -> FloatArray:
        """One of MEASURES for a kind, as means of each query [queries, layers, heads]."""
        return by_query(self.after[..., _PLACE[kind], MEASURES.index(measure)], self.queries)

    def lift(self, kind: str) -> FloatArray:
        """The share of attention over the base rate, each averaged over queries [layers, heads]."""
        return ratio(means(self.of(kind)), means(self.rate(kind))[:, None])

    def mean(
        self,
        kind: str,
        layers: slice = slice(None),
        *,
        before: bool = False,
        measure: str = "peak",
    ) -> Estimate:
        """One of MEASURES for a kind, over the heads that are there in some layers."""
        values = self.before if before else self.after
        assert values is not None, "asked only where there is a base"
        own = values[:, layers, :, _PLACE[kind], MEASURES.index(measure)]
        known = np.isfinite(own)
        sums = np.where(known, own, 0.0).sum(axis=(1, 2), dtype=np.float64)
        return over_queries(ratio(sums, known.sum(axis=(1, 2)).astype(np.float64)), self.queries)

    def has(self, kind: str) -> bool:
        """Whether any of the texts has a token of the kind."""
        return bool(np.isfinite(self.base_rate[..., _PLACE[kind]]).any())


def look(
    scorer: Scorer, base: Encoder | None, reads: Sequence[Read], *, shown: Progress = silent
) -> Looking:
    """Run the model, and `base`, over the same batches; the maps of one layer at a time are held.

    `base` reads the model's tokens. `shown` counts reads.
    """
    shape = scorer.checkpoint.shape
    # Single precision: with --full and a large model these are what takes the memory.
    size = (len(reads), *shape.size, len(KINDS), len(MEASURES))
    encoders = [one for one in (scorer.encoder, base) if one is not None]
    found = [np.full(size, np.nan, np.float32) for _ in encoders]
    rates = np.full((len(reads), shape.layers, len(KINDS)), np.nan)
    texts = [(one.texts[0].text, one.texts[1].text) for one in reads]
    for batch in scorer.fresh().batches(texts, batch_tokens(), offsets=True):
        kinds = [
            of_tokens(encoded, *reads[row].texts)
            for row, encoded in zip(batch.rows, batch.encoded, strict=True)
        ]
        even = evenly(scorer.encoder, batch)
        rates[batch.rows] = [of[:, : len(one)] @ one for of, one in zip(even, kinds, strict=True)]
        compute = looked_at(batch, kinds)
        for encoder, store in zip(encoders, found, strict=True):
            layers = tuple(range(len(encoder.layers)))
            reduction = Reduction("kinds", "attention", layers, compute)
            (swept,) = sweep(encoder, [batch], [NONE], [reduction])
            store[batch.rows] = swept.reduced["kinds"][0]
        shown.advance(len(batch))
    missing = rates == 0
    rates[missing] = np.nan
    for one in found:
        one[np.broadcast_to(missing[:, :, None, :, None], one.shape)] = np.nan
        for layer, head in shape.absent:
            one[:, layer, head] = np.nan
    before = found[1] if base is not None else None
    return Looking([one.query for one in reads], rates, found[0], before)  # type: ignore[arg-type]


def evenly(encoder: Encoder, batch: Batch) -> FloatArray:
    """What each token gets in each layer from tokens that look evenly at all they see [B, layers, L]."""
    real = batch.real.double()
    given = []
    for layer in range(len(encoder.layers)):
        sees = encoder.visible(layer, batch.length).to(real) * real[:, None]
        rows = sees / sees.sum(-1, keepdim=True).clamp_min(1)
        given.append(torch.einsum("bi,bij->bj", real / real.sum(1, keepdim=True), rows))
    return torch.stack(given, dim=1).numpy()


def looked_at(batch: Batch, kinds: Sequence[FloatArray]) -> Callable[[View], torch.Tensor]:
    """Attention maps [B, heads, L, L] to [B, heads, KINDS, MEASURES], for the `kinds` of a batch.

    Rows are averaged over the real tokens, special ones too, as in the source.
    """
    size, length = batch.input_ids.shape
    weights = np.zeros((size, length, len(KINDS)), np.float32)
    for row, one in enumerate(kinds):
        weights[row, : len(one)] = one

    def compute(view: View) -> torch.Tensor:
        maps, real = view.values.float(), view.batch.real.float()
        of, rows = torch.from_numpy(weights).to(maps), real / real.sum(1, keepdim=True)

        def peak(columns: torch.Tensor) -> torch.Tensor:
            return (columns[..., None] * of[:, None]).amax(2)

        together = torch.einsum("bhij,bi->bhj", maps, rows)
        read = row_at(maps, view.batch.at, axes=2)[:, :, 0]
        return torch.stack([together @ of, peak(together), peak(read)], dim=-1)

    return compute


# Heads that look at a kind.


def named(seen: Looking, kinds: Sequence[str]) -> dict[str, Named]:
    """The heads that look at each of `kinds`; q is over all heads and kinds together."""
    there = [kind for kind in kinds if seen.has(kind)]
    if not there:
        return {}
    excess = [seen.of(kind) - seen.rate(kind)[..., None] for kind in there]
    p = np.stack([one_sided_p(one) for one in excess], axis=-1)
    on_texts = 1 - np.sum([np.nan_to_num(means(seen.of(kind))) for kind in SPECIALS], axis=0)
    found = {}
    for place, kind in enumerate(there):
        choice = np.full(on_texts.shape, place)
        found[kind] = name_heads(seen.lift(kind), p, on_texts, least=LEAST_LIFT, choice=choice)
    return found


def _stability(
    discovery: Looking, validation: Looking, kind: str, one: Named, shape: Shape, seed: int
) -> Stability | None:
    """Of the heads named for a kind. The base rate is the same for all, so that shares order them."""
    first, again = discovery.of(kind), validation.of(kind)
    return stability_of_means(first, again, one.heads(), shape.all_heads, seed)


# The probe.


def measure(context: Context) -> Result:
    """Look at pairs, and at a treebank's sentences, with the model and the one before fine-tuning."""
    sentences = sentences_read(context)  # a broken file is said before anything is run
    shape = context.model.checkpoint.shape
    before = None
    if context.request.base is not None:
        base = open_base(context.request.base, context.model.checkpoint)
        before = scorer_like(context, base).encoder

    sample = {}
    for half, pairs in (("discovery", context.discovery), ("validation", context.validation)):
        limit = context.choose(QUICK_PAIRS[half], len(pairs))
        sample[half] = spread_over_queries(pairs, limit, context.seed)
    reads = {"pairs": {half: pairs_read(context, some) for half, some in sample.items()}}
    kinds: dict[str, tuple[str, ...]] = {"pairs": OF_TEXTS}
    if sentences is not None:
        reads["treebank"] = sentences
        kinds["treebank"] = (*OF_TEXTS, *OF_ARCS)

    columns: dict[str, FloatArray] = {}
    sets: dict[str, list[Head]] = {}
    stable: dict[str, Stability | None] = {}
    measurements: dict[str, Estimate | float | None] = {}
    figures: list[Figure] = []
    seen: dict[str, dict[str, Looking]] = {}
    for name, of_half in reads.items():
        seen[name] = {}
        for half, some in of_half.items():
            with context.progress(len(some), "pairs") as shown:
                seen[name][half] = look(context.model, before, some, shown=shown)
        discovery, validation = seen[name]["discovery"], seen[name]["validation"]
        for kind in _there(validation):
            columns[f"{kind}_{name}"] = means(validation.of(kind))
            columns[f"{kind}_{name}_peak"] = means(validation.of(kind, "peak"))
            columns[f"{kind}_{name}_lift"] = validation.lift(kind)
        for kind, one in named(discovery, kinds[name]).items():
            columns[f"{kind}_{name}_q"] = one.q
            sets[f"{kind}_{name}"] = one.heads()
            stable[f"{kind}_{name}"] = _stability(
                discovery, validation, kind, one, shape, context.seed
            )
        measurements[f"added_peak_{name}"] = added(validation)
        figures.append(_bars(context, f"kinds_{name}", validation))

    discovery, validation = seen["pairs"]["discovery"], seen["pairs"]["validation"]
    given = np.sum([np.nan_to_num(validation.of(kind)) for kind in EMPTY], axis=0).mean(axis=0)
    sets["over_half"] = [head for head in shape.all_heads if given[head] > HALF]
    rival = rival_of(discovery, validation)
    measurements |= {
        "cls_attention": PERCENT * validation.mean("cls"),
        "sep_attention": PERCENT * validation.mean("sep"),
        **trends(validation),
        "cls_looks_at_sep": looks_at_sep(validation, rival),
        "heads_over_half": PERCENT * len(sets["over_half"]) / len(shape.all_heads),
    }
    if validation.has("sep"):
        figures.append(
            head_map(
                "heads_sep",
                PERCENT * columns["sep_pairs_peak"],
                marked=map(str, sets["over_half"]),
                low=0.0,
                digits=0,
            )
        )
    return Result(
        measurements=measurements,
        heads=head_table(shape, columns),
        sets=sets,
        stability=stable,
        figures=tuple(figures),
        facts={
            "over_half": len(sets["over_half"]),
            "all_heads": len(shape.all_heads),
            "rival": rival,
            "reads": len(validation.queries),
            "queries": len(set(validation.queries)),
            "sentences": 2 * len(seen["treebank"]["validation"].queries) if sentences else 0,
        },
        settings={
            "treebanks": [path.name for path in context.request.treebank],
            "least_lift": LEAST_LIFT,
        },
        pairs=sample["validation"],
    )


def _there(seen: Looking) -> list[str]:
    """The kinds that the texts have, without what several make together."""
    return [kind for kind in KINDS if kind != TUNED and seen.has(kind)]


def added(seen: Looking) -> Estimate | None:
    """What tuning adds to nouns, objects and negation, in percent of what [CLS] and [SEP] get.

    Over all heads: heads that only trade attention add nothing. None without a base, without such
    a token, and without [CLS] and [SEP].
    """
    special = [seen.mean(kind) for kind in SPECIALS if seen.has(kind)]
    if seen.before is None or not seen.has(TUNED) or not special:
        return None
    rise = seen.mean(TUNED) - seen.mean(TUNED, before=True)
    gain, held = paired(rise, sum(special[1:], start=special[0]))
    return PERCENT * (gain / held)


def trends(seen: Looking) -> dict[str, Estimate | None]:
    """How much more [CLS] gets in the first third of the layers, and [SEP] in the last third.

    In points of attention. None for a single layer, or where all heads of a third were pruned.
    """
    layers = seen.after.shape[1]
    size = max(1, layers // 3)
    first, last = slice(0, size), slice(layers - size, layers)
    found: dict[str, Estimate | None] = {}
    for name, kind, sign in (("cls_early", "cls", -PERCENT), ("sep_late_peak", "sep", PERCENT)):
        early, late = (seen.mean(kind, some) for some in (first, last))
        there = layers > 1 and early.n_queries and late.n_queries
        found[name] = sign * (late - early) if there else None
    return found


def rival_of(chosen_on: Looking, also_in: Looking) -> str:
    """The kind that [CLS] of the last layer looks at most besides [SEP], on the texts `chosen_on`.

    Of the kinds that are not rare: that RIVAL_SHARE of the queries have there, and some `also_in`.
    """
    others = [
        kind
        for kind in KINDS
        if kind not in ("sep", TUNED)
        and np.isfinite(chosen_on.rate(kind)).mean() >= RIVAL_SHARE
        and also_in.has(kind)
    ]
    last = slice(-1, None)
    return max(others, key=lambda kind: chosen_on.mean(kind, last, measure="cls_peak").value)


def looks_at_sep(seen: Looking, rival: str) -> Estimate | None:
    """What [CLS] of the last layer gives to the [SEP] it looks at most, less that of the `rival` kind.

    In points of attention; None where all heads of that layer were pruned.
    """
    last = slice(-1, None)
    sep, other = (seen.mean(kind, last, measure="cls_peak") for kind in ("sep", rival))
    sep, other = paired(sep, other)
    return PERCENT * (sep - other) if sep.n_queries else None


def _bars(context: Context, name: str, seen: Looking) -> Figure:
    """What all heads give to the token of each kind that gets most, before and after fine-tuning."""
    kinds = _there(seen)

    def peaks(before: bool) -> list[Estimate]:
        return [PERCENT * seen.mean(kind, before=before) for kind in kinds]

    series = {"model": peaks(False)}
    if seen.before is not None:
        series = {"before": peaks(True), **series}
    return estimate_bars(context, name, kinds, series, digits=1)
