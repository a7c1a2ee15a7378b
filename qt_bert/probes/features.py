"""Do heads attend to words of a kind, or to special tokens? (Kovaleva et al. 2019, 4.3; `dark_secrets_of_bert`)

The source's measure is the *peak*: the mean attention from all tokens of a pair to one token of a kind,
the token with most; texts without the kind do not count. Its kinds are nouns, verbs, pronouns, subjects,
objects, negation, [CLS] and [SEP]; we add numbers and punctuation. Heads are named by their *lift*: the
attention to all tokens of a kind over that of uniform attention to all visible tokens. [CLS] is the
special token that the classifier reads, which a causal model may lack; [SEP] are all other special
tokens, including those of a template.
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
from qt_bert.data.treebank import Sentence, halves
from qt_bert.errors import PairFileError
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch, row_at
from qt_bert.models.forward import Encoder
from qt_bert.probes.base import Context, Result, estimate_bars, head_table
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.naming import (
    Named,
    by_query,
    means,
    name_heads,
    one_sided_p,
    stability_of_means,
)
from qt_bert.probes.streams import is_punctuation
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, ratio
from qt_bert.stats.estimate import Estimate, over_queries, paired
from qt_bert.stats.judgements import index_queries

QUICK_PAIRS = {"discovery": 60, "validation": 120}
QUICK_SENTENCES = {"discovery": 60, "validation": 120}
LEAST_SENTENCES = 4
"""Of each half: two pairs are needed for resampling."""
LEAST_LIFT = 1.5
"""The lift that a named head must reach."""
RIVAL_SHARE = 0.1
"""The share of queries that must have a kind compared with [SEP]."""
HALF = 0.5
PERCENT = 100.0


# Kinds of tokens: special ones, punctuation, parts of speech, subject and object.


SPECIALS = ("cls", "sep")
OF_TEXTS = ("punctuation", "noun", "verb", "pronoun", "number", "negation")
OF_ARCS = ("subject", "object")
"""Known only for the sentences of a treebank."""
TUNED, OTHER = "tuned", "other"
"""Nouns, objects and negation together, to which tuning adds by the source; tokens of no other kind."""
KINDS = (*SPECIALS, *OF_TEXTS, *OF_ARCS, TUNED, OTHER)
EMPTY = ("cls", "sep", "punctuation")
"""Kinds that are no words."""

_DENYING = """
    不 没 没有 无 非 未 别 勿 莫 甭 不是 不会 不能 不可 不可以 不要 不用 不得 不必 不想 不再 不曾 不愿 不肯
    不该 不应 并不 并非 无法 没法 没能 从不 从未 从没 未必 未曾 毫无 绝不 决不 无须 无需
"""
NEGATIONS = frozenset(_DENYING.split())
"""Negating words by form: neither jieba nor every treebank marks them."""

_BY_TAG = {"n": "noun", "v": "verb", "r": "pronoun", "m": "number"}
_BY_UPOS = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "PRON": "pronoun", "NUM": "number"}
_ROLES = {"nsubj": "subject", "obj": "object"}
_TUNED = ("noun", "object", "negation")
PLACE = {kind: place for place, kind in enumerate(KINDS)}


class Labelled(NamedTuple):
    """A text and the kinds of its characters: 0 or 1 [characters, KINDS]."""

    text: str
    kinds: FloatArray


def by_tags(text: str, tag: Callable[[str], list[Tagged]]) -> Labelled:
    """`text` by jieba's tags: n… nouns, v… verbs, r… pronouns, m… numbers."""
    return _labelled(
        text, (((start, end), (_BY_TAG.get(of[:1], ""),)) for (start, end), of in tag(text))
    )


def by_treebank(sentence: Sentence) -> Labelled:
    """A treebank's sentence by its parts of speech, subjects and direct objects.

    Without parts of speech no token is of TUNED or OTHER.
    """
    words = []
    for span, word in zip(sentence.spans, sentence.words, strict=True):
        role = _ROLES.get((word.relation or "").split(":")[0], "")
        words.append((span, (_BY_UPOS.get(word.upos or "", ""), role)))
    labelled = _labelled(sentence.text, words)
    if not any(word.upos for word in sentence.words):
        labelled.kinds[:, [PLACE[TUNED], PLACE[OTHER]]] = 0
    return labelled


def _labelled(text: str, words: Iterable[tuple[tuple[int, int], Iterable[str]]]) -> Labelled:
    kinds = np.zeros((len(text), len(KINDS)))
    for (start, end), of_word in words:
        for kind in filter(None, of_word):
            kinds[start:end, PLACE[kind]] = 1
        if text[start:end] in NEGATIONS:
            kinds[start:end, PLACE["negation"]] = 1
    marks = [is_punctuation(character) for character in text]
    kinds[marks] = 0  # taggers may call a punctuation mark a noun, or a number
    kinds[marks, PLACE["punctuation"]] = 1
    kinds[:, PLACE[TUNED]] = kinds[:, [PLACE[kind] for kind in _TUNED]].max(axis=1)
    kinds[:, PLACE[OTHER]] = 1 - kinds.max(axis=1)
    return Labelled(text, kinds)


def of_tokens(encoded: EncodedPair, query: Labelled, title: Labelled) -> FloatArray:
    """The kinds of a pair's tokens [tokens, KINDS], each as a share of the token's characters.

    The pair must have been encoded with offsets. Tokens without characters are of no kind.
    """
    kinds = np.zeros((len(encoded), len(KINDS)))
    for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side == SPECIAL:
            kinds[token, PLACE["cls" if token == encoded.cls else "sep"]] = 1
        elif end > start:
            kinds[token] = (query, title)[side].kinds[start:end].mean(axis=0)
    return kinds


# The texts: pairs by jieba's tags, sentences by a treebank's.


class LabelledPair(NamedTuple):
    """Two texts that the model reads together; `query` groups them for resampling."""

    query: str
    texts: tuple[Labelled, Labelled]


def labelled_pairs(context: Context, pairs: Sequence[Pair]) -> list[LabelledPair]:
    """Queries and titles by jieba's tags."""
    tag = jieba_tagger(context.request.userdict)
    texts = dict.fromkeys(text for pair in pairs for text in (pair.query, pair.title))
    labelled = {text: by_tags(text, tag) for text in texts}
    return [
        LabelledPair(pair.query, (labelled[pair.query], labelled[pair.title])) for pair in pairs
    ]


def labelled_sentences(context: Context) -> dict[str, list[LabelledPair]] | None:
    """The distinct sentences of all treebanks by half, paired in order as query and title.

    None without treebanks. Raises PairFileError for a half of fewer than LEAST_SENTENCES.
    """
    if not context.request.treebank:
        return None
    parts = halves(context.request.treebank)
    pairs = {}
    for half, sentences in (("discovery", parts.discovery), ("validation", parts.validation)):
        if len(sentences) < LEAST_SENTENCES:
            paths = ", ".join(map(str, context.request.treebank))
            raise PairFileError(
                f"{paths}: {len(sentences)} different sentences in the half for {half}, which needs "
                f"{LEAST_SENTENCES}; give a larger treebank"
            )
        limit = context.choose(QUICK_SENTENCES[half], len(sentences))
        places = np.random.default_rng(context.seed).permutation(len(sentences))[:limit]
        drawn = [by_treebank(sentences[place]) for place in sorted(places)]
        couples = zip(drawn[:-1:2], drawn[1::2], strict=True)
        pairs[half] = [LabelledPair(first.text, (first, second)) for first, second in couples]
    return pairs


# Attention of each head to each kind.


MEASURES = ("share", "peak", "cls_peak")
"""Mean attention from all tokens to a kind, and to its token with most (the source's measure); the
latter from the classification token alone."""


@dataclass(frozen=True, eq=False)
class KindAttention:
    """Attention to kinds in the model, and in its base if there is one, on the same pairs.

    `base_rate` [pairs, layers, KINDS]: the share of uniform attention. `after` (the model) and `before`
    (its base) [pairs, layers, heads, KINDS, MEASURES]. NaN where a pair has no token of the kind, and at
    pruned heads.
    """

    queries: list[str]
    base_rate: FloatArray
    after: FloatArray
    before: FloatArray | None

    def rate(self, kind: str) -> FloatArray:
        """The base rate of a kind by query [queries, layers]."""
        return by_query(self.base_rate[..., PLACE[kind]], self.queries)

    def of(self, kind: str, measure: str = "share") -> FloatArray:
        """One of MEASURES for a kind, means by query [queries, layers, heads]."""
        return by_query(self.after[..., PLACE[kind], MEASURES.index(measure)], self.queries)

    def lift(self, kind: str) -> FloatArray:
        """The share of attention over the base rate, both means over queries [layers, heads]."""
        return ratio(means(self.of(kind)), means(self.rate(kind))[:, None])

    def mean(
        self, kind: str, layers: slice = slice(None), *, before: bool = False, measure: str = "peak"
    ) -> Estimate:
        """One of MEASURES for a kind, mean over the heads of `layers` that are there."""
        of_model = self.before if before else self.after
        assert of_model is not None, "`before` needs a base"
        values = of_model[:, layers, :, PLACE[kind], MEASURES.index(measure)]
        known = np.isfinite(values)
        sums = np.where(known, values, 0.0).sum(axis=(1, 2), dtype=np.float64)
        return over_queries(ratio(sums, known.sum(axis=(1, 2)).astype(np.float64)), self.queries)

    def has(self, kind: str) -> bool:
        """Whether any pair has a token of the kind."""
        return bool(np.isfinite(self.base_rate[..., PLACE[kind]]).any())


def kind_attention(
    scorer: Scorer, base: Encoder | None, pairs: Sequence[LabelledPair], *, shown: Progress = silent
) -> KindAttention:
    """The attention of the model, and of `base` on the same tokens; `shown` counts pairs."""
    shape = scorer.checkpoint.shape
    # Single precision: these arrays are the largest with --full and a large model.
    size = (len(pairs), *shape.size, len(KINDS), len(MEASURES))
    encoders = [encoder for encoder in (scorer.encoder, base) if encoder is not None]
    attention = [np.full(size, np.nan, np.float32) for _ in encoders]
    rates = np.full((len(pairs), shape.layers, len(KINDS)), np.nan)
    texts = [(pair.texts[0].text, pair.texts[1].text) for pair in pairs]
    for batch in scorer.fresh().batches(texts, batch_tokens(), offsets=True):
        kinds = [
            of_tokens(encoded, *pairs[row].texts)
            for row, encoded in zip(batch.rows, batch.encoded, strict=True)
        ]
        uniform = uniform_attention(scorer.encoder, batch)
        rates[batch.rows] = [
            weights[:, : len(of_pair)] @ of_pair
            for weights, of_pair in zip(uniform, kinds, strict=True)
        ]
        compute = kind_weights(batch, kinds)
        for encoder, store in zip(encoders, attention, strict=True):
            reduction = Reduction("kinds", "attention", tuple(range(len(encoder.layers))), compute)
            (swept,) = sweep(encoder, [batch], [NONE], [reduction])
            store[batch.rows] = swept.reduced["kinds"][0]
        shown.advance(len(batch))
    missing = rates == 0
    rates[missing] = np.nan
    for of_model in attention:
        of_model[np.broadcast_to(missing[:, :, None, :, None], of_model.shape)] = np.nan
        for layer, head in shape.absent:
            of_model[:, layer, head] = np.nan
    before = attention[1] if base is not None else None
    return KindAttention([pair.query for pair in pairs], rates, attention[0], before)  # type: ignore[arg-type]


def uniform_attention(encoder: Encoder, batch: Batch) -> FloatArray:
    """Mean attention to each token were every row uniform over its visible tokens [B, layers, L]."""
    real = batch.real.double()
    layers = []
    for layer in range(len(encoder.layers)):
        visible = encoder.visible(layer, batch.length).to(real) * real[:, None]
        rows = visible / visible.sum(-1, keepdim=True).clamp_min(1)
        layers.append(torch.einsum("bi,bij->bj", real / real.sum(1, keepdim=True), rows))
    return torch.stack(layers, dim=1).numpy()


def kind_weights(batch: Batch, kinds: Sequence[FloatArray]) -> Callable[[View], torch.Tensor]:
    """A function from attention maps [B, heads, L, L] to [B, heads, KINDS, MEASURES].

    Rows are averaged over all real tokens, including special ones, as in the source.
    """
    size, length = batch.input_ids.shape
    weights = np.zeros((size, length, len(KINDS)), np.float32)
    for row, of_pair in enumerate(kinds):
        weights[row, : len(of_pair)] = of_pair

    def compute(view: View) -> torch.Tensor:
        maps, real = view.values.float(), view.batch.real.float()
        of, rows = torch.from_numpy(weights).to(maps), real / real.sum(1, keepdim=True)

        def peak(columns: torch.Tensor) -> torch.Tensor:
            return (columns[..., None] * of[:, None]).amax(2)

        together = torch.einsum("bhij,bi->bhj", maps, rows)
        read = row_at(maps, view.batch.at, axes=2)[:, :, 0]
        return torch.stack([together @ of, peak(together), peak(read)], dim=-1)

    return compute


def named(attention: KindAttention, kinds: Sequence[str]) -> dict[str, Named]:
    """The heads named for each of `kinds`; q is over all heads and kinds together."""
    present = [kind for kind in kinds if attention.has(kind)]
    if not present:
        return {}
    p = np.stack(
        [one_sided_p(attention.of(kind) - attention.rate(kind)[..., None]) for kind in present],
        axis=-1,
    )
    on_texts = 1 - np.sum([np.nan_to_num(means(attention.of(kind))) for kind in SPECIALS], axis=0)
    heads = {}
    for place, kind in enumerate(present):
        choice = np.full(on_texts.shape, place)
        heads[kind] = name_heads(attention.lift(kind), p, on_texts, least=LEAST_LIFT, choice=choice)
    return heads


# The probe.


def measure(context: Context) -> Result:
    """Measure pairs, and a treebank's sentences, with the model and the one before fine-tuning."""
    sentences = labelled_sentences(context)  # first: a broken file ends the run at once
    shape = context.model.checkpoint.shape
    before = None
    if context.request.base is not None:
        base = open_base(context.request.base, context.model.checkpoint)
        before = scorer_like(context, base).encoder

    sample = {}
    for half, pairs in (("discovery", context.discovery), ("validation", context.validation)):
        limit = context.choose(QUICK_PAIRS[half], len(pairs))
        sample[half] = spread_over_queries(pairs, limit, context.seed)
    texts = {"pairs": {half: labelled_pairs(context, pairs) for half, pairs in sample.items()}}
    if sentences is not None:
        texts["treebank"] = sentences

    columns: dict[str, FloatArray] = {}
    sets: dict[str, list[Head]] = {}
    stable: dict[str, Stability | None] = {}
    measurements: dict[str, Estimate | float | None] = {}
    figures: list[Figure] = []
    attention: dict[str, dict[str, KindAttention]] = {}
    for name, of_half in texts.items():
        attention[name] = {}
        for half, labelled in of_half.items():
            with context.progress(len(labelled), "pairs") as shown:
                attention[name][half] = kind_attention(context.model, before, labelled, shown=shown)
        discovery, validation = attention[name]["discovery"], attention[name]["validation"]
        for kind in kinds_present(validation):
            columns[f"{kind}_{name}"] = means(validation.of(kind))
            columns[f"{kind}_{name}_peak"] = means(validation.of(kind, "peak"))
            columns[f"{kind}_{name}_lift"] = validation.lift(kind)
        for kind, heads in named(discovery, (*OF_TEXTS, *OF_ARCS)).items():
            columns[f"{kind}_{name}_q"] = heads.q
            sets[f"{kind}_{name}"] = heads.heads()
            stable[f"{kind}_{name}"] = stability_by_lift(
                kind, heads.heads(), (discovery, validation), shape, context.seed
            )
        measurements[f"added_peak_{name}"] = added_by_tuning(validation)
        figures.append(_bars(context, f"kinds_{name}", validation))

    discovery, validation = attention["pairs"]["discovery"], attention["pairs"]["validation"]
    on_empty = np.sum([np.nan_to_num(validation.of(kind)) for kind in EMPTY], axis=0).mean(axis=0)
    sets["over_half"] = [head for head in shape.all_heads if on_empty[head] > HALF]
    rival = rival_of(discovery, validation)
    measurements |= {
        "cls_attention": PERCENT * validation.mean("cls"),
        "sep_attention": PERCENT * validation.mean("sep"),
        **trends(validation),
        "cls_looks_at_sep": looks_at_sep(validation, rival),
        "heads_over_half": PERCENT * len(sets["over_half"]) / len(shape.all_heads),
    }
    if validation.has("sep"):
        peaks, marked = PERCENT * columns["sep_pairs_peak"], sets["over_half"]
        figures.append(head_map("heads_sep", peaks, marked=marked, low=0.0, digits=0))
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
            "treebank": "read" if sentences else "no_treebank",
            "reads": len(validation.queries),
            "queries": index_queries(validation.queries)[1],
            "sentences": 2 * len(attention["treebank"]["validation"].queries) if sentences else 0,
        },
        settings={
            "treebanks": [path.name for path in context.request.treebank],
            "least_lift": LEAST_LIFT,
        },
        pairs=sample["validation"],
    )


def stability_by_lift(
    kind: str, heads: Sequence[Head], halves: Sequence[KindAttention], shape: Shape, seed: int
) -> Stability | None:
    """The stability of `heads`, named for `kind` by their lift: windows give layers base rates of their own."""
    first, again = (ratio(half.of(kind), means(half.rate(kind))[:, None]) for half in halves)
    return stability_of_means(first, again, heads, shape.all_heads, seed)


def kinds_present(attention: KindAttention) -> list[str]:
    """The kinds that the texts have, except TUNED."""
    return [kind for kind in KINDS if kind != TUNED and attention.has(kind)]


def added_by_tuning(attention: KindAttention) -> Estimate | None:
    """Attention that tuning adds to nouns, objects and negation, in percent of that to [CLS] and [SEP].

    Mean over all heads. None without a base, without such tokens, or without [CLS] and [SEP].
    """
    special = [attention.mean(kind) for kind in SPECIALS if attention.has(kind)]
    if attention.before is None or not attention.has(TUNED) or not special:
        return None
    rise = attention.mean(TUNED) - attention.mean(TUNED, before=True)
    gain, held = paired(rise, sum(special[1:], start=special[0]))
    return PERCENT * (gain / held)


def trends(attention: KindAttention) -> dict[str, Estimate | None]:
    """How much more attention [CLS] gets in the first third of the layers, and [SEP] in the last third.

    In points; None for a single layer, or where all heads of a third were pruned.
    """
    layers = attention.after.shape[1]
    size = max(1, layers // 3)
    first, last = slice(0, size), slice(layers - size, layers)
    differences: dict[str, Estimate | None] = {}
    for name, kind, sign in (("cls_early", "cls", -PERCENT), ("sep_late_peak", "sep", PERCENT)):
        early, late = (attention.mean(kind, third) for third in (first, last))
        defined = layers > 1 and early.n_queries and late.n_queries
        differences[name] = sign * (late - early) if defined else None
    return differences


def rival_of(chosen_on: KindAttention, also_in: KindAttention) -> str:
    """The kind other than [SEP] to which [CLS] of the last layer attends most on `chosen_on`.

    Only kinds that RIVAL_SHARE of the queries have there, and that `also_in` has.
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


def looks_at_sep(attention: KindAttention, rival: str) -> Estimate | None:
    """The last layer's peak attention from [CLS] to [SEP], less that to the `rival` kind.

    In points; None where all heads of that layer were pruned.
    """
    last = slice(-1, None)
    sep, other = (attention.mean(kind, last, measure="cls_peak") for kind in ("sep", rival))
    sep, other = paired(sep, other)
    return PERCENT * (sep - other) if sep.n_queries else None


def _bars(context: Context, name: str, attention: KindAttention) -> Figure:
    """Peak attention of all heads to each kind, before and after fine-tuning."""
    kinds = kinds_present(attention)

    def peaks(before: bool) -> list[Estimate]:
        return [PERCENT * attention.mean(kind, before=before) for kind in kinds]

    series = {"model": peaks(False)}
    if attention.before is not None:
        series = {"before": peaks(True), **series}
    return estimate_bars(context, name, kinds, series, digits=1)
