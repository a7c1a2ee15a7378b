"""A smaller vocabulary: rows of the embeddings that no text needs go; tokenizer and token ids follow."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.tokenise import SPECIAL, PairTokenizer
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.files import atomic_folder, check_apart
from qt_bert.models.checkpoint import (
    Checkpoint,
    check_place,
    open_checkpoint,
    open_tokenizer,
    save_checkpoint,
)
from qt_bert.models.folder import stored_bytes
from qt_bert.models.loading import behind_padding, stored_dtype
from qt_bert.models.origins import word_ids
from qt_bert.models.pruned import is_plain
from qt_bert.planning.prune import CHECKED, kept_text
from qt_bert.progress import Progress, progress
from qt_bert.scoring.bulk import WINDOW, Scorer
from qt_bert.scoring.judge import default_scheme
from qt_bert.scoring.tables import count_rows, windows
from qt_bert.scoring.title_run import WholeComparison, compare_scorers, open_titles
from qt_bert.shipped import DEV, shipped

# The vocabulary of a fast tokenizer, as tokenizer.json has it: what a token falls into, and a smaller one.


class Vocabulary:
    """The tokens of a fast tokenizer of transformers.

    Raises CheckpointError for one that is no WordPiece, unigram or BPE.
    """

    def __init__(self, tokenizer: Any, where: str) -> None:
        self.spec: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
        self.model: dict[str, Any] = self.spec["model"]
        self.ids: dict[str, int] = tokenizer.get_vocab()
        self.tokens = {one: token for token, one in self.ids.items()}
        self.added = {int(one["id"]) for one in self.spec["added_tokens"]}
        kind, prefix = self.model.get("type"), self.model.get("continuing_subword_prefix") or ""
        odd = kind == "BPE" and (prefix or self.model.get("end_of_word_suffix"))
        if kind not in ("WordPiece", "Unigram", "BPE") or odd:
            named = f"{kind} with marks within words" if odd else kind
            raise CheckpointError(
                f"{where}: a tokenizer of the kind {named}; the vocabulary of WordPiece, Unigram and BPE "
                "can be made smaller"
            )
        self.prefix = prefix

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(map(_merge, self.model["merges"]))}

    def within(self, token: int) -> frozenset[int]:
        """A token, and all shorter ones that are needed to make it or that stand in for it once it is gone.

        These are, of BPE, all that its merges make on the way to it; of WordPiece and unigram, its
        characters.
        """
        text = self.tokens[token]
        if token in self.added:
            return frozenset([token])
        if self.model["type"] == "BPE":
            parts = self._merged(text)
        elif self.prefix and text.startswith(self.prefix):
            parts = {f"{self.prefix}{one}" for one in text.removeprefix(self.prefix)}
        else:
            parts = {text[:1], *(f"{self.prefix}{one}" for one in text[1:])}
        return frozenset([token, *(self.ids[one] for one in parts if one in self.ids)])

    def _merged(self, text: str) -> set[str]:
        """Every piece that there is while the merges are applied, the one of the lowest rank first."""
        parts, seen = list(text), set(text)
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, len(self._ranks)) for pair in pairwise(parts)]
            at = ranks.index(min(ranks))
            if ranks[at] == len(self._ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            seen.add(parts[at])
        return seen

    def length(self, token: int) -> int:
        """Characters of a token, without the mark of a piece within a word."""
        return len(self.tokens[token].removeprefix(self.prefix))

    def needed(self) -> set[int]:
        """Tokens that any text may need: added and special ones, that of the unknown, bytes.

        Of a unigram also the piece of the lowest score, by which the unknown is scored.
        """
        model, found = self.model, set(self.added)
        if model["type"] == "Unigram":
            found.add(int(np.argmin([score for _, score in model["vocab"]])))
            found |= {one for one in (model["unk_id"],) if one is not None}
        names = [model.get("unk_token")]
        if model.get("byte_fallback"):
            names += [f"<0x{byte:02X}>" for byte in range(256)]
        if '"ByteLevel"' in json.dumps([self.spec["normalizer"], self.spec["pre_tokenizer"]]):
            from tokenizers.pre_tokenizers import ByteLevel

            names += ByteLevel.alphabet()
        found |= {self.ids[name] for name in names if name in self.ids}
        padding = (self.spec["padding"] or {}).get("pad_id", -1)
        return found | ({padding} & self.tokens.keys())

    def only(self, places: Mapping[int, int]) -> dict[str, Any]:
        """The tokenizer.json with the tokens of `places` alone: old id → new one, in the same order."""
        spec, model = dict(self.spec), dict(self.model)
        if model["type"] == "Unigram":
            model["vocab"] = [one for old, one in enumerate(model["vocab"]) if old in places]
            model["unk_id"] = places.get(model["unk_id"])
        else:
            stay = {token: places[old] for token, old in model["vocab"].items() if old in places}
            model["vocab"] = stay
        if model["type"] == "BPE":
            merges = map(_merge, model["merges"])
            model["merges"] = [
                (a, b) for a, b in merges if a in stay and b in stay and a + b in stay
            ]
        spec["model"] = model
        spec["added_tokens"] = [one | {"id": places[one["id"]]} for one in spec["added_tokens"]]
        spec["post_processor"] = _moved(spec["post_processor"], places)
        if spec["padding"]:
            spec["padding"] = spec["padding"] | {"pad_id": places.get(spec["padding"]["pad_id"], 0)}
        return spec


def _merge(merge: Any) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _moved(part: Any, places: Mapping[int, int]) -> Any:
    """A post-processor with new token ids."""
    if isinstance(part, list):
        return [_moved(one, places) for one in part]
    if not isinstance(part, dict):
        return part
    made = {name: _moved(value, places) for name, value in part.items()}
    if "ids" in part:
        made["ids"] = [places[one] for one in part["ids"]]
    for name in ("sep", "cls"):
        if isinstance(part.get(name), list):
            token, old = part[name]
            made[name] = [token, places[old]]
    return made


# Which tokens stay, and a tokenizer and a model with these alone.


def rows_with(
    tokenizer: PairTokenizer, vocabulary: Vocabulary, texts: Iterable[tuple[str, str]]
) -> Counter[int]:
    """In how many of the pairs each token is, itself or within a longer one.

    A part is in as many pairs as the whole, or more: however many of the most frequent tokens stay,
    each stays with its parts.
    """
    within: dict[int, frozenset[int]] = {}
    counts = Counter[int]()
    for window in windows(texts, WINDOW):
        for one in tokenizer.encode(window, offsets=False):
            there = set(one.input_ids)
            within |= {token: vocabulary.within(token) for token in there - within.keys()}
            counts.update(frozenset().union(*(within[token] for token in there)))
    return counts


def chosen(
    counts: Mapping[int, int],
    needed: set[int],
    vocabulary: Vocabulary,
    keep: int | None = None,
    min_count: int = 1,
) -> list[int]:
    """The tokens that stay, sorted: those needed and, of others in `min_count` pairs or more, those in
    most pairs, `keep` in all at most; of equals the shorter first. ArgumentError for too small a `keep`."""
    if keep is not None and keep < len(needed):
        raise ArgumentError(
            f"--keep {keep}: {len(needed)} tokens must stay (special tokens, bytes, those of the template)"
        )
    found = [one for one, rows in counts.items() if rows >= min_count and one not in needed]
    found.sort(key=lambda one: (-counts[one], vocabulary.length(one), one))
    return sorted(needed.union(found if keep is None else found[: keep - len(needed)]))


def needed_by(checkpoint: Checkpoint, vocabulary: Vocabulary) -> set[int]:
    """What must stay: of the tokenizer, of the config, of pairs' special tokens and of the template."""
    config, tokenizer = checkpoint.model.config, checkpoint.tokenizer
    (pair,) = checkpoint.pair_tokenizer(WHOLE).encode([("a", "a")], offsets=False)
    special = zip(pair.input_ids, pair.side, strict=True)
    found = vocabulary.needed() | {one for one, side in special if side == SPECIAL}
    found |= {*tokenizer.all_special_ids, *tokenizer("")["input_ids"]}
    found |= {one for ids in _named_ids(config).values() for one in ids}
    if template := checkpoint.settings.template:
        found |= set(word_ids(tokenizer, template, str(checkpoint.folder)))
    if behind_padding(config):  # positions are counted from its number, which has to stay
        found |= set(range(checkpoint.pad))
    return {one for one in found if one in vocabulary.tokens} | {checkpoint.pad}


def _named_ids(config: Any) -> dict[str, list[int]]:
    """The config's token ids, by field."""
    named = {name: value for name, value in vars(config).items() if name.endswith("_token_id")}
    lists = {name: one if isinstance(one, list) else [one] for name, one in named.items()}
    return {name: ids for name, ids in lists.items() if None not in ids}


def smaller_tokenizer(tokenizer: Any, config: Any, spec: dict[str, Any]) -> Any:
    """The tokenizer with another tokenizer.json, opened as a folder's is."""
    with tempfile.TemporaryDirectory() as work:
        config.save_pretrained(work)
        tokenizer.save_pretrained(work)
        text = json.dumps(spec, ensure_ascii=False)
        (Path(work) / "tokenizer.json").write_text(text, encoding="utf-8")
        return open_tokenizer(Path(work))


def with_tokens(model: Any, places: Mapping[int, int]) -> Any:
    """A copy of a classifier with these rows of its embeddings (old → new), wherever they are used."""
    table = model.get_input_embeddings()
    rows = nn.Parameter(table.weight.detach()[list(places)].clone())
    made = copy.deepcopy(model, {id(table.weight): rows})
    made.get_input_embeddings().num_embeddings = made.config.vocab_size = len(places)
    for name, ids in _named_ids(model.config).items():
        moved = [places.get(one, one) for one in ids]
        one = isinstance(getattr(model.config, name), int)
        setattr(made.config, name, moved[0] if one else moved)
    return made


# `qt-bert prune --vocabulary`: counted, cut, saved, opened again and held against the whole.


WHOLE = 1_000_000
"""Tokens of a pair at most where tokens are counted: nothing is cut."""

SAME = 1e-6
"""How far a logit of a text that keeps all its tokens may lie from the whole model's, as a share of
the largest logit where that is above 1."""


@dataclass(frozen=True)
class Recut:
    """Of so many pairs with so many tokens: pairs that are `changed`, tokens that are no more there,
    and how many more are unknown."""

    pairs: int
    changed: int
    tokens: int
    gone: int
    unknown: int


@dataclass(frozen=True)
class SmallerVocabulary:
    """What came of it: tokens, parameters and bytes of the weights, before and after; what becomes of
    the `texts`, and of the other pairs of the file `on`, whose logits and metrics are in `lost`.

    On `texts` that keep all their tokens logits lie within `difference` of the whole model's. `rejected`
    rows of both files held no text.
    """

    folder: Path
    tokens: tuple[int, int]
    parameters: tuple[int, int]
    weights: tuple[int, int]
    texts: Recut
    difference: float
    on: str
    others: Recut
    lost: WholeComparison
    rejected: int


def prune_vocabulary(
    checkpoint: Checkpoint,
    texts: Path,
    out: Path,
    *,
    keep: int | None = None,
    min_count: int = 1,
    pairs: str | Path | None = None,
    reader: ReaderOptions | None = None,
    rejects: Path | None = None,
    overwrite: bool = False,
) -> SmallerVocabulary:
    """Save `checkpoint` (opened in float32, compact) in `out` with the tokens that `texts` need.

    `texts` has a text a line (.txt), or pairs; those of `pairs` (by default the dev split that
    ships) show what is lost elsewhere. `reader` reads `pairs`, or `texts` where none are given.

    Raises ArgumentError as `chosen` and `check_apart` do and where no text keeps all its tokens,
    CheckpointError as `Vocabulary` does and for a model with other weights of the vocabulary's size,
    EquivalenceError where a text that keeps its tokens is read otherwise, PairFileError for a file,
    RunFolderError as `check_place` does.
    """
    check_place(out, overwrite)
    on = Path(pairs or shipped(DEV))
    for read in (checkpoint.folder, texts, on):
        check_apart(out, read)
    own = reader or ReaderOptions()
    other = ReaderOptions(max_rejects=own.max_rejects)
    source = open_titles(texts, own if pairs is None else other, rejects)
    scheme = default_scheme(checkpoint.settings.labels)
    judged = (other if pairs is None else own).open(on, default_map=scheme)
    whole = checkpoint.pair_tokenizer(WHOLE)
    vocabulary = Vocabulary(checkpoint.tokenizer, checkpoint.name)
    needed = needed_by(checkpoint, vocabulary)
    with progress(count_rows(texts), "counting tokens", "texts") as shown:
        counts = rows_with(whole, vocabulary, _counted(source.pairs(), shown))
    kept = chosen(counts, needed, vocabulary, keep, min_count)
    places = {old: new for new, old in enumerate(kept)}
    model = with_tokens(checkpoint.model, places)
    if is_plain(checkpoint.model) and not is_plain(model):
        raise CheckpointError(
            f"{checkpoint.name}: other weights than the embeddings have a row a token; its vocabulary "
            "cannot be cut"
        )
    with atomic_folder(out) as folder:
        save_checkpoint(
            folder,
            model,
            smaller_tokenizer(checkpoint.tokenizer, model.config, vocabulary.only(places)),
            settings=checkpoint.settings,
            texts=kept_text(checkpoint),
            dtype=stored_dtype(checkpoint.folder),
            plain=is_plain(model),
        )
        small = open_checkpoint(folder, device=str(checkpoint.device), compact=True)
        with progress(count_rows(texts), "comparing tokens", "texts") as shown:
            recut, same = _recut(checkpoint, small, places, _counted(source.pairs(), shown))
        scorers = Scorer(checkpoint), Scorer(small)
        difference = _difference(*scorers, same)
        read_pairs = list(judged)
        others, _ = _recut(checkpoint, small, places, ((p.query, p.title) for p in read_pairs))
        with progress(2 * len(read_pairs), "what is lost", "pairs") as shown:
            lost = compare_scorers(read_pairs, *scorers, shown)
        return SmallerVocabulary(
            folder=out,
            tokens=(checkpoint.model.config.vocab_size, len(kept)),
            parameters=(checkpoint.parameters, small.parameters),
            weights=(stored_bytes(checkpoint.folder), stored_bytes(folder)),
            texts=recut,
            difference=difference,
            on=on.name,
            others=others,
            lost=lost,
            rejected=source.rejected + judged.rejected,
        )


def _counted(texts: Iterable[tuple[str, str]], shown: Progress) -> Iterator[tuple[str, str]]:
    for one in texts:
        yield one
        shown.advance()


def _recut(
    checkpoint: Checkpoint,
    small: Checkpoint,
    places: Mapping[int, int],
    texts: Iterable[tuple[str, str]],
) -> tuple[Recut, list[tuple[str, str]]]:
    """What becomes of the tokens of these pairs, and the first of those that keep all of theirs.

    Raises EquivalenceError where such a pair is cut otherwise. One with an unknown word may be: a
    WordPiece gives up a word whose longest pieces lead nowhere, and these pieces may be gone.
    """
    tokenizers = [one.pair_tokenizer(WHOLE) for one in (checkpoint, small)]
    marks = [one.tokenizer.unk_token_id for one in (checkpoint, small)]
    found = np.zeros(5, np.int64)
    same: list[tuple[str, str]] = []
    for window in windows(texts, WINDOW):
        both = [one.encode(window, offsets=False) for one in tokenizers]
        for pair, old, new in zip(window, *both, strict=True):
            expected = [places.get(one, -1) for one in old.input_ids]
            if -1 not in expected and marks[0] not in old.input_ids and expected != new.input_ids:
                raise EquivalenceError(
                    f"{pair[0][:40]!r} keeps all its tokens, and the smaller vocabulary cuts it "
                    "otherwise; nothing was saved"
                )
            gone = (Counter(expected) - Counter(new.input_ids)).total()
            unknown = new.input_ids.count(marks[1]) - old.input_ids.count(marks[0])
            changed = expected != new.input_ids
            tokens = len(old) - old.side.count(SPECIAL)
            found += (1, changed, tokens, gone, max(0, unknown))
            if not changed and len(same) < CHECKED:
                same.append(pair)
    return Recut(*found.tolist()), same


def _difference(whole: Scorer, cut: Scorer, texts: Sequence[tuple[str, str]]) -> float:
    """The largest difference of a logit. Raises EquivalenceError where it is above SAME."""
    if not texts:
        raise ArgumentError("no text keeps all its tokens: raise --keep, or lower --min-count")
    expected, found = (one.logits(texts) for one in (whole, cut))
    difference = float(np.abs(expected - found).max())
    if not difference <= SAME * max(1.0, float(np.abs(expected).max())):
        raise EquivalenceError(
            f"logits of texts that keep all their tokens differ by {difference:.2e}; nothing was saved"
        )
    return difference
