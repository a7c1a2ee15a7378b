"""Which heads carry a match into the grade? (Vig et al. 2020; Lu, Chen and Eickhoff 2025)

A clean run reads a pair as it is; a corrupted run reads it with the term that query and title share
replaced in the title. The gap is what that takes from the score. A denoising patch gives the corrupted
run some heads' outputs z (the input of W_O) from the clean cache, and a share of the gap comes back; a
noising patch is the reverse. Shares are ratios of sums over queries, never means of ratios: a pair
without a gap would own such a mean.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle

import numpy as np

from qt_bert.ablation.checks import BATCH_TOKENS, check_equivalence, distance, in_float32
from qt_bert.ablation.engine import batch_tokens, sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.patches import FAMILY, Patch, donor_batches, recipient_batches, single_patches
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.models.forward import Encoder
from qt_bert.probes.base import Context, Result
from qt_bert.probes.contests import CONTEST_PAIRS, PAIRS_A_QUERY, against, few_a_query, random_sets
from qt_bert.probes.naming import FunctionHeads, function_heads, named_beside
from qt_bert.probes.shared import estimate_bars, head_table, lies_above_0, score_unit
from qt_bert.probes.streams import gathered, is_content_word, shared_terms, tokens_within
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, over_queries
from qt_bert.stats.verdict import LEAST_QUERIES

LEAST_CHARACTERS = 2
"""A term is so long, or as long as its query where that is shorter."""
QUICK_MAPPED = 32
"""Pairs of a quick run for all heads one by one, which nothing is claimed of."""
CHECKED = 4
"""Pairs that the identities are checked on."""
SET = "patch:set"


# Corrupted pairs: the rarest term of both texts replaced in the title, as token ids, so that the clean
# and the corrupted text are equally long whatever the tokenizer.


@dataclass(frozen=True)
class Term:
    """A word of both texts: its tokens in the title, in order, and how many each occurrence has."""

    word: str
    title: tuple[int, ...]
    length: int


@dataclass(frozen=True, eq=False)
class CorruptedPair:
    """A pair as it is (`clean`) and with `word` replaced in the title (`corrupted`)."""

    pair: Pair
    word: str
    clean: EncodedPair
    corrupted: EncodedPair


def usable_terms(
    encoded: EncodedPair, query: str, title: str, segmenter: Segmenter, special: Collection[int]
) -> list[Term]:
    """The terms of a pair that can be replaced, in the order of the query.

    Words are those that `shared_terms` finds. In the title every occurrence counts that is made of
    whole tokens, within longer words too; all must have as many tokens, and none may be `special`, or
    the token that is read, which has to be one in both runs. The pair must have been encoded with offsets.
    """
    found = []
    for word, shared in shared_terms(query, title, segmenter).items():
        if len(word) < min(LEAST_CHARACTERS, len(query.strip())):
            continue
        asked = [token for span in shared.query for token in whole_tokens(encoded, QUERY, span)]
        spans = occurrences(title, shared.title)
        there = [tokens for span in spans if (tokens := whole_tokens(encoded, TITLE, span))]
        slot = tuple(chain(*there))
        plain = not any(encoded.input_ids[token] in special for token in (*asked, *slot))
        plain = plain and encoded.at not in slot
        if asked and plain and len({len(tokens) for tokens in there}) == 1:
            found.append(Term(word, slot, len(there[0])))
    return found


def occurrences(text: str, spans: Iterable[Span]) -> list[Span]:
    """Everywhere that what stands at `spans` stands in `text`, whatever the case."""
    spelled = sorted({text[start:end] for start, end in spans}, key=lambda one: (-len(one), one))
    return [one.span() for one in re.finditer("|".join(map(re.escape, spelled)), text, re.I)]


def whole_tokens(encoded: EncodedPair, side: int, span: Span) -> tuple[int, ...]:
    """The tokens that spell exactly the characters `span` of a text; none where tokens cut it otherwise."""
    inside = tokens_within(encoded, side, span)
    if not inside or inside[-1] - inside[0] + 1 != len(inside):
        return ()
    ends = encoded.spans[inside[0]][0], encoded.spans[inside[-1]][1]
    return tuple(inside) if ends == span else ()


def document_frequency(pairs: Iterable[Pair], segmenter: Segmenter) -> Counter[str]:
    """In how many different texts, queries and titles, each word stands; case does not count."""
    texts = {text for pair in pairs for text in (pair.query, pair.title)}
    return Counter(
        word for text in texts for word in {one.casefold() for one in segmenter.words(text)}
    )


class Replacements:
    """Words of queries, as tokens, to stand in a term's place; `special` tokens make no word."""

    def __init__(
        self,
        tokenizer: PairTokenizer,
        segmenter: Segmenter,
        queries: Iterable[str],
        special: Collection[int],
    ) -> None:
        distinct = sorted(set(queries))
        found: dict[int, dict[tuple[int, ...], str]] = {}
        encodings = tokenizer.encode([(query, "") for query in distinct])
        for query, encoded in zip(distinct, encodings, strict=True):
            for span in segmenter.spans(query):
                word = query[slice(*span)].casefold()
                tokens = whole_tokens(encoded, QUERY, span)
                ids = tuple(encoded.input_ids[token] for token in tokens)
                usable = len(word) >= LEAST_CHARACTERS and is_content_word(word)
                if usable and ids and not any(one in special for one in ids):
                    found.setdefault(len(ids), {}).setdefault(ids, word)
        self._by_length = {length: sorted(words.items()) for length, words in found.items()}

    def draw(
        self, length: int, taken: Collection[int], texts: Sequence[str], rng: np.random.Generator
    ) -> tuple[int, ...] | None:
        """Tokens of a word of `length` tokens, none of them `taken`, that stands in none of `texts`.

        None where there is no such word.
        """
        pool, folded = self._by_length.get(length, []), [text.casefold() for text in texts]
        for place in rng.permutation(len(pool)):
            ids, word = pool[place]
            if not any(one in taken for one in ids) and not any(word in text for text in folded):
                return ids
        return None


@dataclass(frozen=True, eq=False)
class Corruption:
    """Corrupts pairs; what it draws depends on the seed and the pair alone.

    `frequency` counts the texts that have a word, `special` are tokens that no word may hold.
    """

    tokenizer: PairTokenizer
    segmenter: Segmenter
    frequency: Mapping[str, int]
    replacements: Replacements
    special: frozenset[int]
    seed: int

    @classmethod
    def of(cls, context: Context) -> Corruption:
        """For a run: words counted on discovery, replacements drawn from the queries of both halves."""
        tokenizer, segmenter = context.model.tokenizer, context.segmenter
        special = frozenset(map(int, context.model.checkpoint.tokenizer.all_special_ids))
        queries = [pair.query for pair in (*context.discovery, *context.validation)]
        replacements = Replacements(tokenizer, segmenter, queries, special)
        frequency = document_frequency(context.discovery, segmenter)
        return cls(tokenizer, segmenter, frequency, replacements, special, context.seed)

    def corrupt(self, pairs: Sequence[Pair]) -> tuple[list[CorruptedPair], dict[str, int]]:
        """All `pairs` that can be corrupted, and how many have no shared term or no replacement."""
        found, missing = [], {"no_shared_term": 0, "no_replacement": 0}
        encodings = self.tokenizer.encode([(pair.query, pair.title) for pair in pairs])
        for pair, encoded in zip(pairs, encodings, strict=True):
            terms = usable_terms(encoded, pair.query, pair.title, self.segmenter, self.special)
            one = self._corrupted(pair, encoded, terms)
            if one is not None:
                found.append(one)
            else:
                missing["no_replacement" if terms else "no_shared_term"] += 1
        return found, missing

    def _corrupted(
        self, pair: Pair, encoded: EncodedPair, terms: Sequence[Term]
    ) -> CorruptedPair | None:
        """With the rarest term replaced that another word can stand in for."""
        digest = hashlib.sha256(f"{pair.query}\0{pair.title}".encode()).digest()
        rng = np.random.default_rng([self.seed, *digest[:8]])
        taken = frozenset(encoded.input_ids)
        for term in sorted(
            terms, key=lambda one: (self.frequency.get(one.word, 0), -len(one.word))
        ):
            ids = self.replacements.draw(term.length, taken, (pair.query, pair.title), rng)
            if ids is not None:
                put = dict(zip(term.title, cycle(ids), strict=False))
                changed = [put.get(at, one) for at, one in enumerate(encoded.input_ids)]
                return CorruptedPair(pair, term.word, encoded, replace(encoded, input_ids=changed))
        return None


# Patched runs, and the shares of the gap that they move.


def z_patch(heads: Iterable[Head]) -> Patch:
    """The other run's outputs in place of these heads' own."""
    return Patch(tuple(heads))


def patched_scores(
    context: Context,
    pairs: Sequence[CorruptedPair],
    variants: Sequence[Variant],
    *,
    noising: bool = False,
) -> FloatArray:
    """Scores of the corrupted run under patches from the clean cache, or the reverse if `noising`.

    A score is the expected grade (level), or the one logit. → [1 + variants, pairs], row 0 unpatched.
    Raises ArgumentError where a variant gives no finite logits.
    """
    scorer, every = context.model, [NONE, *variants]
    each = ((one.corrupted, one.clean) if noising else (one.clean, one.corrupted) for one in pairs)
    texts = list(chain(*each))
    batches = list(recipient_batches(texts, batch_tokens(len(every)), pad=scorer.pad))
    with context.progress(len(every) * len(pairs), "runs") as shown:
        logits = gathered(sweep(scorer.encoder, batches, every, shown=shown), len(texts))["logits"]
    logits = logits[:, 1::2]
    broken = np.argwhere(~np.isfinite(logits).all(axis=(1, 2)))
    if len(broken):
        raise ArgumentError(
            f"variant {every[broken[0][0]].name} gives no finite logits; try --dtype float32"
        )
    return ranking_scores(logits, scorer.checkpoint.settings.labels)


def shares_of(moved: FloatArray, gap: Estimate, queries: Sequence[str]) -> list[Estimate]:
    """Σ moved / Σ gap over queries, a query's pairs averaged, of each row of `moved` [variants, pairs]."""
    return [over_queries(row, queries) / gap for row in moved]


def check_patches(
    context: Context, pairs: Sequence[CorruptedPair], variants: Sequence[Variant]
) -> None:
    """The equivalence check: variants against hooks on the Hugging Face model, then the identities.

    The bound is that of `prove`, 1e-5 or what float32 itself rounds. Raises EquivalenceError.
    """
    checkpoint, encoder = in_float32(context.model.checkpoint, context.model.encoder)
    texts = [text for one in pairs for text in (one.clean, one.corrupted)]
    figures = check_equivalence(
        checkpoint, encoder, variants, texts, donors=True, seed=context.seed
    )
    found = identities(encoder, checkpoint.shape, texts[: 2 * CHECKED], checkpoint.pad)
    for name, off in found.items():
        if not off <= figures["bound"]:
            raise EquivalenceError(
                f"{name}: the logits are off by {off:.2g}, more than {figures['bound']:.2g}; no "
                "figure of this run could be trusted"
            )
    context.guards["patch"] = {**figures, "identities": found}


def identities(
    encoder: Encoder, shape: Shape, texts: Sequence[EncodedPair], pad: int
) -> dict[str, float]:
    """How far logits are off where the outcome is known; `texts` are clean, corrupted, clean, ….

    A run patched with its own outputs stays as it is. The outputs of all heads turn a run into the
    other one where one token is read, which is the same in both: a mean has the replaced ones in it.
    """
    every = Variant("all", (z_patch(shape.all_heads),))

    def logits(of: Sequence[EncodedPair]) -> np.ndarray:
        """Unpatched and with all heads patched [2, texts, outputs]."""
        batches = donor_batches(of, BATCH_TOKENS, pad=pad)
        return gathered(sweep(encoder, batches, [NONE, every]), len(of))["logits"]

    plain, same = logits([text for text in texts[::2] for _ in range(2)])
    own, turned = logits(texts)
    other = own.reshape(-1, 2, own.shape[-1])[:, ::-1].reshape(own.shape)
    found = {"a run patched with itself": distance(same, plain)}
    if encoder.reads != "mean":
        found["the outputs of all heads"] = distance(turned, other)
    return found


# The probe.


def measure(context: Context) -> Result:
    """Patch the matching heads together, each alone, and layer-matched sets; then every head alone."""
    eligible, missing = Corruption.of(context).corrupt(context.validation)
    if not eligible:
        return Result(nothing="no_terms", claims={"restores": "no_terms"}, settings=missing)
    asked = function_heads(context)
    if asked is None:
        return Result(nothing="no_heads", claims={"restores": "no_heads"}, settings=missing)
    most = context.choose(CONTEST_PAIRS, PAIRS_A_QUERY)
    pairs = _those_of(few_a_query([one.pair for one in eligible], most), eligible)
    queries = [one.pair.query for one in pairs]
    shape = context.model.checkpoint.shape
    sets, enumerated = random_sets(
        asked.heads,
        shape,
        named=named_beside(context, asked),
        ablated=z_patch,
        name=SET,
        seed=context.seed,
    )
    # The set first, then each of its heads alone.
    targets = [Variant(SET, (z_patch(asked.heads),), "target")]
    targets += [Variant(f"patch:{head}", (z_patch([head]),), FAMILY) for head in asked.heads]
    check_patches(context, pairs, [*targets, *sets])
    clean, *noised = patched_scores(context, pairs, targets, noising=True)
    corrupted, *denoised = patched_scores(context, pairs, targets)
    gap = over_queries(clean - corrupted, queries)
    found = Result(
        claims={"restores": "few_sets"},
        measurements={"gap": gap},
        facts={
            "set_size": len(asked.heads),
            "heads": ", ".join(map(str, asked.heads)),
            "status": asked.status,
            "pairs": len(pairs),
            "queries": gap.n_queries,
            "gap_unit": score_unit(context.model.checkpoint.settings.labels),
        },
        settings={
            "heads": asked.describe(),
            "pairs": {"looked_at": len(context.validation), "eligible": len(eligible), **missing},
            "gap_under_0": int((clean < corrupted).sum()),
        },
        pairs=[one.pair for one in pairs],
    )
    if not lies_above_0(context, gap):
        reason = "few_queries" if gap.n_queries < LEAST_QUERIES else "precondition:gap"
        return replace(found, claims={"restores": reason}, nothing="no_gap")

    restored = shares_of(np.stack(denoised) - corrupted, gap, queries)
    broken = shares_of(clean - np.stack(noised), gap, queries)

    def run(some: list[Variant], number: int) -> list[Estimate]:
        plain, *under = patched_scores(context, pairs, some)
        return shares_of(np.stack(under) - plain, gap, queries)

    contest = against(context, "patch.restores", restored[0], sets, run, enumerated=enumerated)
    matched = None if contest is None else restored[0] - contest.beyond
    mapped = pairs
    if not context.full:
        listed = [one.pair for one in pairs]
        mapped = _those_of(spread_over_queries(listed, QUICK_MAPPED, context.seed), pairs)
    columns = _every_head(context, mapped)
    best = 1 + int(np.argmax([one.value for one in restored[1:]]))
    return replace(
        found,
        claims={"restores": contest or "few_sets"},
        measurements={
            "gap": gap,
            "restored": restored[0],
            "restored_matched": matched,
            "best_alone": restored[best],
            "noised": broken[0],
        },
        heads=head_table(shape, columns) if columns else None,
        figures=tuple(_figures(context, asked, restored, broken, matched, columns)),
        facts={**found.facts, "best": str(asked.heads[best - 1]), "mapped": len(mapped)},
        settings={
            **found.settings,
            "layer_matched_sets": 0 if contest is None else len(contest.sets),
            "mapped": len(mapped),
        },
    )


def _those_of(chosen: Iterable[Pair], pairs: Iterable[CorruptedPair]) -> list[CorruptedPair]:
    wanted = set(map(id, chosen))
    return [one for one in pairs if id(one.pair) in wanted]


def _every_head(context: Context, pairs: Sequence[CorruptedPair]) -> dict[str, FloatArray] | None:
    """Share restored by every head alone, with its interval, each [layers, heads]; None without a gap.

    Values stand at places of heads that are there, NaN elsewhere.
    """
    shape = context.model.checkpoint.shape
    queries = [one.pair.query for one in pairs]
    clean = patched_scores(context, pairs, [], noising=True)[0]
    corrupted, *denoised = patched_scores(context, pairs, single_patches(shape))
    gap = over_queries(clean - corrupted, queries)
    if not lies_above_0(context, gap):
        return None
    shares = shares_of(np.stack(denoised) - corrupted, gap, queries)
    ends = [one.interval(context.resamples, context.seed) or (np.nan, np.nan) for one in shares]
    return {
        "restoring": shape.spread([one.value for one in shares]),
        "restoring_low": shape.spread([low for low, _ in ends]),
        "restoring_high": shape.spread([high for _, high in ends]),
    }


def _figures(
    context: Context,
    asked: FunctionHeads,
    restored: Sequence[Estimate],
    broken: Sequence[Estimate],
    matched: Estimate | None,
    columns: Mapping[str, FloatArray] | None,
) -> Iterator[Figure]:
    """The set, its heads alone and the mean layer-matched set as bars; every head on a map."""

    nowhere = Estimate(float("nan"), np.empty(0), ())
    yield estimate_bars(
        context,
        "shares",
        ["together", *map(str, asked.heads), "matched"],
        {"denoising": [*restored, matched or nowhere], "noising": [*broken, nowhere]},
    )
    if columns:
        yield head_map(
            "heads", columns["restoring"], marked=map(str, asked.heads), scale="diverging"
        )
