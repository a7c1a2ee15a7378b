"""Which heads carry a match into the grade? (Vig et al. 2020; Lu, Chen and Eickhoff 2025)

The clean run reads the pair; the corrupted run reads it with the shared term replaced in the title. The gap
is the fall of the score. A denoising patch gives the corrupted run some heads' outputs z (the input of W_O)
from the clean cache and restores a share of the gap; a noising patch is the reverse. Shares are ratios of
sums over queries, not means of ratios, which a pair with a tiny gap would dominate.
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
from qt_bert.probes.base import Context, Result, estimate_bars, head_table, score_unit
from qt_bert.probes.contests import QUICK_SETS, SETS, against, random_sets
from qt_bert.probes.naming import FunctionHeads, function_heads, named_beside
from qt_bert.probes.streams import (
    PAIRS_A_QUERY,
    few_a_query,
    gathered,
    is_content_word,
    shared_terms,
    tokens_within,
)
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import Estimate, over_queries
from qt_bert.stats.verdict import CLAIM_QUERIES

LEAST_CHARACTERS = 2
"""The least length of a term, or that of its query if shorter."""
QUICK_MAPPED = 16
"""Pairs of a quick run for the map of all heads, on which no claim rests."""
CHECKED = 4
"""Pairs on which the identities are checked."""
SET = "patch:set"


# Corrupted pairs: the rarest shared term replaced in the title, as token ids, so that the clean and the
# corrupted text are equally long.


@dataclass(frozen=True)
class Term:
    """A word of both texts: its tokens in the title, in order, and the number of each occurrence's."""

    word: str
    title: tuple[int, ...]
    length: int


@dataclass(frozen=True, eq=False)
class CorruptedPair:
    """A pair, encoded (`clean`) and with `word` replaced in the title (`corrupted`)."""

    pair: Pair
    word: str
    clean: EncodedPair
    corrupted: EncodedPair


def usable_terms(
    encoded: EncodedPair, query: str, title: str, segmenter: Segmenter, special: Collection[int]
) -> list[Term]:
    """The shared terms of a pair that can be replaced, in the order of the query.

    In the title every occurrence of whole tokens counts, also within longer words; all must have equally
    many tokens, none of them `special` or the token that the classifier reads (it must be the same in
    both runs). The pair must have been encoded with offsets.
    """
    terms = []
    for word, shared in shared_terms(query, title, segmenter).items():
        if len(word) < min(LEAST_CHARACTERS, len(query.strip())):
            continue
        in_query = [token for span in shared.query for token in whole_tokens(encoded, QUERY, span)]
        spans = occurrences(title, shared.title)
        in_title = [tokens for span in spans if (tokens := whole_tokens(encoded, TITLE, span))]
        slot = tuple(chain(*in_title))
        plain = not any(encoded.input_ids[token] in special for token in (*in_query, *slot))
        plain = plain and encoded.at not in slot
        if in_query and plain and len({len(tokens) for tokens in in_title}) == 1:
            terms.append(Term(word, slot, len(in_title[0])))
    return terms


def occurrences(text: str, spans: Iterable[Span]) -> list[Span]:
    """All occurrences in `text` of the words at `spans`, ignoring case."""
    words = sorted({text[start:end] for start, end in spans}, key=lambda word: (-len(word), word))
    return [match.span() for match in re.finditer("|".join(map(re.escape, words)), text, re.I)]


def whole_tokens(encoded: EncodedPair, side: int, span: Span) -> tuple[int, ...]:
    """The tokens that make up exactly `span` of a text; empty where no tokens do."""
    inside = tokens_within(encoded, side, span)
    if not inside or inside[-1] - inside[0] + 1 != len(inside):
        return ()
    ends = encoded.spans[inside[0]][0], encoded.spans[inside[-1]][1]
    return tuple(inside) if ends == span else ()


def document_frequency(pairs: Iterable[Pair], segmenter: Segmenter) -> Counter[str]:
    """The number of distinct queries and titles with each word, ignoring case."""
    texts = {text for pair in pairs for text in (pair.query, pair.title)}
    return Counter(
        word for text in texts for word in {word.casefold() for word in segmenter.words(text)}
    )


class ReplacementWords:
    """Words of queries, as tokens, to replace a term; none has a `special` token."""

    def __init__(
        self,
        tokenizer: PairTokenizer,
        segmenter: Segmenter,
        queries: Iterable[str],
        special: frozenset[int],
    ) -> None:
        distinct = sorted(set(queries))
        by_length: dict[int, dict[tuple[int, ...], str]] = {}
        encodings = tokenizer.encode([(query, "") for query in distinct])
        for query, encoded in zip(distinct, encodings, strict=True):
            for span in segmenter.spans(query):
                word = query[slice(*span)].casefold()
                tokens = whole_tokens(encoded, QUERY, span)
                ids = tuple(encoded.input_ids[token] for token in tokens)
                usable = len(word) >= LEAST_CHARACTERS and is_content_word(word)
                if usable and ids and special.isdisjoint(ids):
                    by_length.setdefault(len(ids), {}).setdefault(ids, word)
        self._by_length = {length: sorted(words.items()) for length, words in by_length.items()}

    def draw(
        self, length: int, taken: frozenset[int], texts: Sequence[str], rng: np.random.Generator
    ) -> tuple[int, ...] | None:
        """The ids of a word of `length` tokens, none `taken`, in none of `texts`; else None."""
        pool, folded = self._by_length.get(length, []), [text.casefold() for text in texts]
        for place in rng.permutation(len(pool)):
            ids, word = pool[place]
            if taken.isdisjoint(ids) and not any(word in text for text in folded):
                return ids
        return None


@dataclass(frozen=True, eq=False)
class Corruption:
    """Corrupts pairs; its draws depend only on the seed and the pair.

    `frequency`: the number of texts with a word; `special`: tokens that no word may have.
    """

    tokenizer: PairTokenizer
    segmenter: Segmenter
    frequency: Mapping[str, int]
    replacements: ReplacementWords
    special: frozenset[int]
    seed: int

    @classmethod
    def of(cls, context: Context) -> Corruption:
        """For a run: word counts from discovery, replacements from the queries of both halves."""
        tokenizer, segmenter = context.model.tokenizer, context.segmenter
        special = frozenset(map(int, context.model.checkpoint.tokenizer.all_special_ids))
        queries = [pair.query for pair in (*context.discovery, *context.validation)]
        replacements = ReplacementWords(tokenizer, segmenter, queries, special)
        frequency = document_frequency(context.discovery, segmenter)
        return cls(tokenizer, segmenter, frequency, replacements, special, context.seed)

    def corrupt(self, pairs: Sequence[Pair]) -> tuple[list[CorruptedPair], dict[str, int]]:
        """The `pairs` that can be corrupted, and the numbers without a shared term or a replacement."""
        corrupted, missing = [], {"no_shared_term": 0, "no_replacement": 0}
        encodings = self.tokenizer.encode([(pair.query, pair.title) for pair in pairs])
        for pair, encoded in zip(pairs, encodings, strict=True):
            terms = usable_terms(encoded, pair.query, pair.title, self.segmenter, self.special)
            if (result := self._corrupted(pair, encoded, terms)) is not None:
                corrupted.append(result)
            else:
                missing["no_replacement" if terms else "no_shared_term"] += 1
        return corrupted, missing

    def _corrupted(
        self, pair: Pair, encoded: EncodedPair, terms: Sequence[Term]
    ) -> CorruptedPair | None:
        """The pair with its rarest replaceable term replaced."""
        digest = hashlib.sha256(f"{pair.query}\0{pair.title}".encode()).digest()
        rng = np.random.default_rng([self.seed, *digest[:8]])
        taken = frozenset(encoded.input_ids)
        for term in sorted(
            terms, key=lambda term: (self.frequency.get(term.word, 0), -len(term.word))
        ):
            ids = self.replacements.draw(term.length, taken, (pair.query, pair.title), rng)
            if ids is not None:
                new = dict(zip(term.title, cycle(ids), strict=False))
                changed = [new.get(place, old) for place, old in enumerate(encoded.input_ids)]
                return CorruptedPair(pair, term.word, encoded, replace(encoded, input_ids=changed))
        return None


# Patched runs, and their shares of the gap.


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
    """Scores of the corrupted run patched from the clean one, or the reverse if `noising`.

    [1 + variants, pairs], row 0 unpatched: expected grades (levels), or the one logit. Raises
    ArgumentError for logits that are not finite.
    """
    scorer, every = context.model, [NONE, *variants]
    runs = ((p.corrupted, p.clean) if noising else (p.clean, p.corrupted) for p in pairs)
    texts = list(chain(*runs))
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
    """Σ moved / Σ gap over queries for each row of `moved` [variants, pairs], a query's pairs averaged."""
    return [over_queries(row, queries) / gap for row in moved]


def check_patches(
    context: Context, pairs: Sequence[CorruptedPair], variants: Sequence[Variant]
) -> None:
    """Check the variants against hooks on the Hugging Face model, then the identities.

    The bound is that of `check_equivalence`. Raises EquivalenceError.
    """
    checkpoint, encoder = in_float32(context.model.checkpoint, context.model.encoder)
    texts = [text for pair in pairs for text in (pair.clean, pair.corrupted)]
    figures = check_equivalence(
        checkpoint, encoder, variants, texts, donors=True, seed=context.seed
    )
    differences = identities(encoder, checkpoint.shape, texts[: 2 * CHECKED], checkpoint.pad)
    for name, difference in differences.items():
        if not difference <= figures["bound"]:
            raise EquivalenceError(
                f"{name}: the logits are off by {difference:.2g}, more than {figures['bound']:.2g}; "
                "the figures of this run cannot be trusted"
            )
    context.guards["patch"] = {**figures, "identities": differences}


def identities(
    encoder: Encoder, shape: Shape, texts: Sequence[EncodedPair], pad: int
) -> dict[str, float]:
    """The distance of logits from known outcomes; `texts` are clean, corrupted, clean, ….

    A run patched with its own outputs is unchanged. The outputs of all heads turn a run into the other
    where the classifier reads one token; a mean of all tokens includes the replaced ones.
    """
    every = Variant("all", (z_patch(shape.all_heads),))

    def logits(of: Sequence[EncodedPair]) -> np.ndarray:
        """Unpatched and with all heads patched [2, texts, outputs]."""
        batches = donor_batches(of, BATCH_TOKENS, pad=pad)
        return gathered(sweep(encoder, batches, [NONE, every]), len(of))["logits"]

    clean, same = logits([text for text in texts[::2] for _ in range(2)])
    unswapped, swapped = logits(texts)
    other = unswapped.reshape(-1, 2, unswapped.shape[-1])[:, ::-1].reshape(unswapped.shape)
    differences = {"a run patched with itself": distance(same, clean)}
    if encoder.reads != "mean":
        differences["the outputs of all heads"] = distance(swapped, other)
    return differences


# The probe.


def measure(context: Context) -> Result:
    """Patch the matching heads together, each alone, and layer-matched sets; then every head alone."""
    corruption = Corruption.of(context)
    eligible, missing = corruption.corrupt(context.validation)
    if not eligible:
        return Result(nothing="no_terms", claims={"restores": "no_terms"}, settings=missing)
    matching = function_heads(context)
    if matching is None:
        return Result(nothing="no_heads", claims={"restores": "no_heads"}, settings=missing)
    most = context.choose(1, PAIRS_A_QUERY)
    pairs = _corrupted_of(few_a_query([each.pair for each in eligible], most), eligible)
    queries = [each.pair.query for each in pairs]
    shape = context.model.checkpoint.shape
    sets, enumerated = random_sets(
        matching.heads,
        shape,
        named=named_beside(context, matching),
        ablated=z_patch,
        name=SET,
        seed=context.seed,
        most=context.choose(QUICK_SETS, SETS),
    )
    # The set first, then each of its heads alone.
    targets = [Variant(SET, (z_patch(matching.heads),), "target")]
    targets += [Variant(f"patch:{head}", (z_patch([head]),), FAMILY) for head in matching.heads]
    check_patches(context, pairs, [*targets, *sets])
    clean, *noised = patched_scores(context, pairs, targets, noising=True)
    corrupted, *denoised = patched_scores(context, pairs, targets)
    gap = over_queries(clean - corrupted, queries)
    result = Result(
        claims={"restores": "few_sets"},
        measurements={"gap": gap},
        facts={
            "set_size": len(matching.heads),
            "heads": ", ".join(map(str, matching.heads)),
            "status": matching.status,
            "pairs": len(pairs),
            "queries": gap.n_queries,
            "gap_unit": score_unit(context.model.checkpoint.settings.labels),
        },
        settings={
            "heads": matching.describe(),
            "pairs": {"looked_at": len(context.validation), "eligible": len(eligible), **missing},
            "gap_under_0": int((clean < corrupted).sum()),
        },
        pairs=[each.pair for each in pairs],
    )
    if context.sign(gap) <= 0:
        few = f"few_queries:{gap.n_queries}"
        reason = few if gap.n_queries < CLAIM_QUERIES else "precondition:gap"
        return replace(result, claims={"restores": reason}, nothing="no_gap")

    parts = [over_queries(row, queries) for row in np.stack(denoised) - corrupted]
    restored = [part / gap for part in parts]
    broken = shares_of(clean - np.stack(noised), gap, queries)

    def run(variants: list[Variant], number: int) -> list[Estimate]:
        unpatched, *patched = patched_scores(context, pairs, variants)
        return [over_queries(row, queries) for row in np.stack(patched) - unpatched]

    contest = against(
        context, "patch.restores", parts[0], sets, run, enumerated=enumerated, whole=gap
    )
    matched = None if contest is None else contest.mean_set / gap
    mapped = pairs
    if not context.full:
        originals = [each.pair for each in pairs]
        mapped = _corrupted_of(spread_over_queries(originals, QUICK_MAPPED, context.seed), pairs)
    columns = _every_head(context, mapped)
    chosen_on = corruption.corrupt(few_a_query(context.discovery, most))[0]
    best = 1 + _best_alone(context, chosen_on, targets[1:])
    return replace(
        result,
        claims={"restores": contest or "few_sets"},
        measurements={
            "gap": gap,
            "restored": restored[0],
            "restored_matched": matched,
            "best_alone": restored[best],
            "noised": broken[0],
        },
        heads=head_table(shape, columns) if columns else None,
        figures=tuple(_figures(context, matching, restored, broken, matched, columns)),
        facts={**result.facts, "best": str(matching.heads[best - 1]), "mapped": len(mapped)},
        settings={
            **result.settings,
            "layer_matched_sets": 0 if contest is None else len(contest.sets),
            "mapped": len(mapped),
        },
    )


def _corrupted_of(chosen: Iterable[Pair], pairs: Iterable[CorruptedPair]) -> list[CorruptedPair]:
    ids = set(map(id, chosen))
    return [each for each in pairs if id(each.pair) in ids]


def _best_alone(
    context: Context, pairs: Sequence[CorruptedPair], targets: Sequence[Variant]
) -> int:
    """The place of the head that restores most on `pairs`, of discovery."""
    if not pairs:
        return 0
    corrupted, *denoised = patched_scores(context, pairs, targets)
    queries = [each.pair.query for each in pairs]
    return int(np.argmax([over_queries(row - corrupted, queries).value for row in denoised]))


def _every_head(context: Context, pairs: Sequence[CorruptedPair]) -> dict[str, FloatArray] | None:
    """The share restored by every head alone and its interval, each [layers, heads]; None without a gap."""
    shape = context.model.checkpoint.shape
    queries = [each.pair.query for each in pairs]
    clean = patched_scores(context, pairs, [], noising=True)[0]
    corrupted, *denoised = patched_scores(context, pairs, single_patches(shape))
    gap = over_queries(clean - corrupted, queries)
    if context.sign(gap) <= 0:
        return None
    shares = shares_of(np.stack(denoised) - corrupted, gap, queries)
    ends = [each.interval(context.resamples, context.seed) or (np.nan, np.nan) for each in shares]
    return {
        "restoring": shape.spread([each.value for each in shares]),
        "restoring_low": shape.spread([low for low, _ in ends]),
        "restoring_high": shape.spread([high for _, high in ends]),
    }


def _figures(
    context: Context,
    matching: FunctionHeads,
    restored: Sequence[Estimate],
    broken: Sequence[Estimate],
    matched: Estimate | None,
    columns: Mapping[str, FloatArray] | None,
) -> Iterator[Figure]:
    """The set, its heads alone and the mean layer-matched set as bars; every head on a map."""
    yield estimate_bars(
        context,
        "shares",
        ["together", *map(str, matching.heads), "matched"],
        {"denoising": [*restored, matched], "noising": [*broken, None]},
    )
    if columns:
        yield head_map(
            "heads", columns["restoring"], marked=map(str, matching.heads), scale="diverging"
        )
