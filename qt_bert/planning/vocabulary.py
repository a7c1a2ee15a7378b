"""A smaller vocabulary: rows of the embeddings that no text needs go; tokenizer and token ids follow."""

from __future__ import annotations

import copy
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers.pre_tokenizers import ByteLevel
from torch import nn

from qt_bert.data.lines import NO_EXTRA, PACKED_SUFFIXES, RawRow, TextSource
from qt_bert.data.pairs import Pair, Reject
from qt_bert.data.reader import PairReader, ReaderOptions, RowParser
from qt_bert.data.tokenise import SPECIAL, PairTokenizer
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.files import atomic_folder, check_apart
from qt_bert.models.checkpoint import Checkpoint, check_place, save_checkpoint
from qt_bert.models.folder import stored_bytes
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.origins import word_ids
from qt_bert.models.pruned import is_plain
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.planning.prune import CHECKED, largest_difference
from qt_bert.progress import Progress, note_once, progress
from qt_bert.scoring.bulk import WINDOW, Scorer
from qt_bert.scoring.judge import default_scheme, judge_logits
from qt_bert.scoring.tables import windows
from qt_bert.shipped import DEV, shipped
from qt_bert.stats.comparison import compare
from qt_bert.text import counted

WHOLE = 1_000_000
"""Tokens of a pair at most where tokens are counted: nothing is cut."""

SAME = 1e-6
"""How far a logit of a text that keeps all its tokens may lie from the whole model's, as a share of
the largest logit where that is above 1."""


class Vocabulary:
    """A tokenizer.json's tokens. Raises CheckpointError for no WordPiece, unigram or BPE."""

    def __init__(self, tokenizer: Any, where: str) -> None:
        self.spec: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
        self.model: dict[str, Any] = self.spec["model"]
        self.ids: dict[str, int] = tokenizer.get_vocab()
        self.tokens = {number: token for token, number in self.ids.items()}
        self.added = {int(entry["id"]) for entry in self.spec["added_tokens"]}
        if self.model.get("type") not in ("WordPiece", "Unigram", "BPE"):
            raise CheckpointError(
                f"{where}: a tokenizer of the kind {self.model.get('type')}; the vocabulary of WordPiece, "
                "Unigram and BPE can be made smaller"
            )
        # Older files write a merge as one text.
        merges = [m.split(" ") if isinstance(m, str) else m for m in self.model.get("merges", [])]
        self.merges: list[tuple[str, str]] = [(left, right) for left, right in merges]
        self._parts: dict[str, set[str]] = defaultdict(set)
        for left, right in self.merges:
            self._parts[left + right] |= {left, right}

    def within(self, token: int) -> frozenset[int]:
        """A token, and the shorter ones that it is merged from (BPE) or that replace it (its characters)."""
        text = self.tokens[token]
        if token in self.added:
            return frozenset([token])
        if self.model["type"] == "BPE":
            parts, left = {text}, [text]
            while left:
                new = self._parts.get(left.pop(), set()) - parts
                parts |= new
                left += new
        else:
            mark = self.model.get("continuing_subword_prefix") or ""
            rest = text.removeprefix(mark)
            first = text[: len(text) - len(rest) + 1]
            parts = {first, *(mark + character for character in rest[1:])}
        return frozenset([token, *(self.ids[part] for part in parts if part in self.ids)])

    def needed(self) -> set[int]:
        """Tokens that any text may need: added, special and unknown tokens, and bytes."""
        names = [self.model.get("unk_token"), *(f"<0x{byte:02X}>" for byte in range(256))]
        if self.model["type"] == "BPE":
            names += ByteLevel.alphabet()
        ids = self.added | {self.ids[name] for name in names if name in self.ids}
        unknown = self.model.get("unk_id")  # of a unigram
        return ids if unknown is None else ids | {unknown}

    def only(self, places: Mapping[int, int]) -> dict[str, Any]:
        """The tokenizer.json with the tokens of `places` alone: old id → new one, in the same order."""
        spec, model = dict(self.spec), dict(self.model)
        if model["type"] == "Unigram":
            model["vocab"] = [entry for old, entry in enumerate(model["vocab"]) if old in places]
            model["unk_id"] = places.get(model["unk_id"])
        else:
            stay = {token: places[old] for token, old in model["vocab"].items() if old in places}
            model["vocab"] = stay
        if model["type"] == "BPE":
            model["merges"] = [(a, b) for a, b in self.merges if {a, b, a + b} <= stay.keys()]

        def moved(part: dict[str, Any]) -> dict[str, Any]:
            for name in part.keys() & {"ids", "sep", "cls"}:
                if isinstance(part[name], list):
                    part[name] = [places[x] if isinstance(x, int) else x for x in part[name]]
            return part

        processor = json.loads(json.dumps(spec["post_processor"]), object_hook=moved)
        added = [entry for entry in spec["added_tokens"] if entry["id"] in places]
        added = [entry | {"id": places[entry["id"]]} for entry in added]
        return spec | {
            "model": model,
            "added_tokens": added,
            "post_processor": processor,
            "padding": None,
        }


def rows_with(
    tokenizer: PairTokenizer, vocabulary: Vocabulary, texts: Iterable[tuple[str, str]]
) -> Counter[int]:
    """Token → number of pairs that contain it, itself or within a longer token."""
    within: dict[int, frozenset[int]] = {}
    counts = Counter[int]()
    for window in windows(texts, WINDOW):
        for pair in tokenizer.encode(window, offsets=False):
            tokens = set(pair.input_ids)
            within |= {token: vocabulary.within(token) for token in tokens - within.keys()}
            counts.update(frozenset().union(*(within[token] for token in tokens)))
    return counts


def chosen_tokens(
    counts: Mapping[int, int],
    needed: set[int],
    vocabulary: Vocabulary,
    keep: int | None = None,
    min_count: int = 1,
) -> list[int]:
    """The tokens to keep, sorted: the `needed`, then the most frequent that are in at least `min_count`
    pairs, ties the shorter first, up to `keep` in all. Raises ArgumentError where `keep` is too small."""
    keep = len(vocabulary.tokens) if keep is None else keep
    if keep < len(needed):
        raise ArgumentError(
            f"--keep {keep}: {len(needed)} tokens must stay (special tokens, bytes, those of the template)"
        )
    candidates = [
        token for token, rows in counts.items() if rows >= min_count and token not in needed
    ]
    candidates.sort(key=lambda token: (-counts[token], len(vocabulary.tokens[token]), token))
    return sorted(needed.union(candidates[: keep - len(needed)]))


def needed_by(checkpoint: Checkpoint, vocabulary: Vocabulary) -> set[int]:
    """The tokens that must stay: those of the tokenizer, the config, pairs' special tokens, the template."""
    (pair,) = checkpoint.pair_tokenizer(WHOLE).encode([("a", "a")], offsets=False)
    special = zip(pair.input_ids, pair.side, strict=True)
    tokens = vocabulary.needed() | {token for token, side in special if side == SPECIAL}
    tokens |= {token for ids in _named_ids(checkpoint.model.config).values() for token in ids}
    if template := checkpoint.settings.template:
        tokens |= set(word_ids(checkpoint.tokenizer, template, str(checkpoint.folder)))
    if checkpoint.family.first_position(0):  # positions are counted from the padding's id: it stays
        tokens |= set(range(checkpoint.pad))
    tokens &= vocabulary.tokens.keys() & set(range(checkpoint.model.config.vocab_size))
    return tokens | {checkpoint.pad}


def _named_ids(config: Any) -> dict[str, list[int]]:
    """The config's token ids, by field."""
    named = {name: value for name, value in vars(config).items() if name.endswith("_token_id")}
    lists = {name: value if isinstance(value, list) else [value] for name, value in named.items()}
    return {name: ids for name, ids in lists.items() if None not in ids}


def with_tokens(model: Any, places: Mapping[int, int]) -> Any:
    """A copy of a classifier with the embedding rows of `places` alone (old id → new)."""
    table = model.get_input_embeddings()
    rows = nn.Parameter(table.weight.detach()[list(places)].clone())
    smaller = copy.deepcopy(model, {id(table.weight): rows})
    smaller.get_input_embeddings().num_embeddings = smaller.config.vocab_size = len(places)
    for name, ids in _named_ids(model.config).items():
        moved = [places.get(token, token) for token in ids]
        single = isinstance(getattr(model.config, name), int)
        setattr(smaller.config, name, moved[0] if single else moved)
    return smaller


def read_texts(
    path: Path, options: ReaderOptions, rejects: Path | None = None
) -> tuple[list[tuple[str, str]], int]:
    """The texts of a file as pairs, in order, and the number of rejected rows, listed in `rejects`.

    A `.txt` (plain, .gz or .xz) has a text a line, used as query and as title, unless its first line has
    a tab or `options` name its columns; any other file holds pairs, as `PairReader` reads them. Raises
    PairFileError where it cannot be read.
    """
    reader = options.open(path, rejects_path=rejects)
    packed = path.suffix.lower() in PACKED_SUFFIXES
    text = (Path(path.stem) if packed else path).suffix.lower() == ".txt"
    if text and not options.columns and not options.no_header:
        first = next(iter(TextSource(path).lines()), (0, ""))
        if "\t" not in (first.text if isinstance(first, Reject) else first[1]):
            reader = LineReader(path, max_rejects=options.max_rejects, rejects_path=rejects)
    return [(pair.query, pair.title) for pair in reader], reader.rejected


class LineReader(PairReader):
    """The lines of a text file, each as query and as title."""

    def rows(self) -> Iterator[Pair | Reject]:
        for item in TextSource(self.path).lines():
            if isinstance(item, Reject):
                yield item
            else:
                line, text = item
                yield RowParser().parse(RawRow(line, text, text, None, None, NO_EXTRA, text))


def prune_vocabulary(
    checkpoint: Checkpoint,
    texts: Path,
    out: Path,
    *,
    keep: int | None = None,
    min_count: int = 1,
    pairs: Path | None = None,
    reader: ReaderOptions | None = None,
    rejects: Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Save `checkpoint` (opened in float32, compact) in `out` with the tokens that `texts` need.

    `texts` has a text a line (.txt), or pairs; the loss is measured on `pairs` (default: the dev split
    that ships). Both are held in memory. Returns `tokens` and bytes of the `weights` before and after;
    how the tokens of the `texts` and of the `others` (`pairs`) change; the largest `difference` of a
    logit on texts that keep all their tokens; the metrics `lost` on `pairs`; the `rejected` rows of
    `texts`, which are listed in `rejects`. Those of `pairs` are printed.

    Raises ArgumentError as `chosen_tokens` and `check_apart` do and where no text keeps all its tokens,
    CheckpointError as `Vocabulary` does, EquivalenceError where a text that keeps its tokens gets other
    logits, PairFileError as `read_texts` does, RunFolderError as `check_place` does.
    """
    check_place(out, overwrite)
    reader = reader or ReaderOptions()
    held_out, options = (shipped(DEV), ReaderOptions()) if pairs is None else (pairs, reader)
    for path in (checkpoint.folder, texts, held_out):
        check_apart(out, path)
    needed, rejected = read_texts(texts, reader, rejects)
    opened = options.open(held_out, default_map=default_scheme(checkpoint.settings.labels))
    others = list(opened)
    if opened.rejected:
        note_once(f"{held_out}: {counted(opened.rejected, 'row')} rejected")
    vocabulary = Vocabulary(checkpoint.tokenizer, checkpoint.name)
    counts = rows_with(checkpoint.pair_tokenizer(WHOLE), vocabulary, needed)
    kept = chosen_tokens(counts, needed_by(checkpoint, vocabulary), vocabulary, keep, min_count)
    places = {old: new for new, old in enumerate(kept)}
    model = with_tokens(checkpoint.model, places)
    with tempfile.TemporaryDirectory() as work:  # the tokenizer, opened as a folder's is
        model.config.save_pretrained(work)
        checkpoint.tokenizer.save_pretrained(work)
        spec = json.dumps(vocabulary.only(places), ensure_ascii=False)
        (Path(work) / "tokenizer.json").write_text(spec, encoding="utf-8")
        tokenizer = open_tokenizer(Path(work), allow_unknown=True)
    settings = checkpoint.settings
    with atomic_folder(out) as folder:
        save_checkpoint(
            folder,
            model,
            tokenizer,
            settings=replace(settings, rest={**settings.rest, "allow_unknown": True}),
            kept=checkpoint.kept,
            like=checkpoint.folder,
            plain=is_plain(model),
        )
        small = open_checkpoint(folder, device=str(checkpoint.device), compact=True)
        scorers = Scorer(checkpoint), Scorer(small)
        changed, same = _recut(checkpoint, small, places, needed)
        if not same:
            raise ArgumentError("no text keeps all its tokens: raise --keep, or lower --min-count")
        expected, actual = (scorer.logits(same) for scorer in scorers)
        difference, allowed = largest_difference(actual, expected, SAME)
        if not difference <= allowed:
            raise EquivalenceError(
                f"logits of texts that keep all their tokens differ by {difference:.2e}; nothing was "
                "saved"
            )
        changed_elsewhere, _ = _recut(
            checkpoint, small, places, [(p.query, p.title) for p in others]
        )
        with progress(2 * len(others), "what is lost", "pairs") as shown:
            lost = _lost(others, *scorers, shown)
        return {
            "folder": str(out),
            "tokens": (checkpoint.model.config.vocab_size, len(kept)),
            "weights": (stored_bytes(checkpoint.folder), stored_bytes(folder)),
            "texts": changed,
            "difference": difference,
            "others": changed_elsewhere,
            "lost": lost,
            "rejected": rejected,
        }


def _recut(
    checkpoint: Checkpoint,
    small: Checkpoint,
    places: Mapping[int, int],
    texts: Sequence[tuple[str, str]],
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Counts of the `pairs`, of those whose tokens `changed`, and of additional `unknown` tokens; and the
    first pairs whose tokens all stay.

    A pair with an unknown word that is tokenised differently is not among these: WordPiece gives up a
    word when its longest pieces lead nowhere, and these pieces may have been removed.
    """
    both = checkpoint, small
    (old_unknown, new_unknown) = (model.tokenizer.unk_token_id for model in both)
    counts, same = Counter(pairs=len(texts), changed=0, unknown=0), []
    for window in windows(texts, WINDOW):
        cut = (model.pair_tokenizer(WHOLE).encode(window, offsets=False) for model in both)
        for pair, old, new in zip(window, *cut, strict=True):
            moved = [places.get(token) for token in old.input_ids]
            counts["changed"] += moved != new.input_ids
            counts["unknown"] += new.input_ids.count(new_unknown) - old.input_ids.count(old_unknown)
            if moved == new.input_ids or not {None, places.get(old_unknown)} & set(moved):
                same.append(pair)
    return dict(counts), same[:CHECKED]


METRICS = ("accuracy", "qwk", "spearman", "ndcg_at_5")


def _lost(pairs: Sequence[Pair], whole: Scorer, cut: Scorer, shown: Progress) -> dict[str, Any]:
    """The largest difference of a logit on `pairs`; both models' metrics on graded ones."""
    labels = whole.checkpoint.settings.labels
    texts = [(pair.query, pair.title) for pair in pairs]
    first, second = (scorer.logits(texts, shown) for scorer in (whole, cut))
    graded = [row for row, pair in enumerate(pairs) if pair.grades is not None]
    metrics = {}
    if graded:
        graded_pairs = [pairs[row] for row in graded]
        judged = [judge_logits(values[graded], graded_pairs, labels) for values in (first, second)]
        differences = compare(*judged, metrics=METRICS, most_different=0).metrics
        metrics = {name: asdict(difference) for name, difference in differences.items()}
    largest = float(np.abs(first - second).max())
    return {"pairs": len(pairs), "largest": largest, "graded": len(graded), "metrics": metrics}
