"""Text shards and pair files as flat arrays of token ids, tokenised once and cached."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from qt_bert.data.lines import TextSource
from qt_bert.errors import PairFileError
from qt_bert.files import atomic_write, sha256_file
from qt_bert.progress import progress
from qt_bert.training.recipes import PairSource, rejects_file


def text_lines(path: Path) -> Iterator[str]:
    """The non-empty lines of a shard (.txt, .gz, .xz). Raises PairFileError for a bad file."""
    return (text for _, line in TextSource(path).texts() if (text := line.strip()))


_STORES, _PARTS = ("fragments", "first", "second"), ("ids", "offsets")


@dataclass(frozen=True)
class TokenStore:
    """Token ids of many texts: text i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]


@dataclass(frozen=True)
class Corpus:
    """Fragments of text, and matching texts (`first[i]`, `second[i]`); `sha256` is of the inputs."""

    fragments: TokenStore
    first: TokenStore
    second: TokenStore
    sha256: str = ""


def load_corpus(
    tokenizer_folder: Path, shards: list[Path], pairs: list[PairSource], cache: Path
) -> Corpus:
    """Tokenise shards and pair files with the folder's tokenizer, or reuse `cache` (an .npz).

    The cache is keyed by the SHA-256 of tokenizer and input files.
    """
    digest = hashlib.sha256(sha256_file(tokenizer_folder / "tokenizer.json").encode())
    for part in (*map(sha256_file, shards), *(source.options_key for source in pairs)):
        digest.update(part.encode())
    key = digest.hexdigest()
    if cache.exists():
        with np.load(cache) as stored:
            if str(stored["key"]) == key:
                fragments, first, second = (
                    TokenStore(*(stored[f"{n}_{p}"] for p in _PARTS)) for n in _STORES
                )
                return Corpus(fragments, first, second, key)
    encode = _encoder(tokenizer_folder)
    fragments = encode(line for shard in shards for line in text_lines(shard))
    if not len(fragments):
        raise PairFileError(f"{', '.join(map(str, shards))}: no line of text to train on")
    matched = [
        (p.query, p.title)
        for number, source in enumerate(pairs, 1)
        for p in source.read(rejects_path=rejects_file(cache.parent, number))
    ]
    first = encode((q for q, _ in matched), True)
    second = encode((t for _, t in matched), True)
    corpus = Corpus(fragments, first, second, key)
    with atomic_write(cache) as temporary, open(temporary, "wb") as handle:
        arrays = {f"{n}_{p}": getattr(getattr(corpus, n), p) for n in _STORES for p in _PARTS}
        np.savez(handle, key=np.array(key), **arrays)
    return corpus


def _encoder(tokenizer_folder: Path) -> Callable[..., TokenStore]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    dtype = np.uint16 if tokenizer.get_vocab_size() <= 2**16 else np.int32

    def encode(texts: Iterable[str], keep_empty: bool = False) -> TokenStore:
        parts: list[np.ndarray] = []
        lengths: list[int] = [0]
        stream = iter(texts)
        with progress(None, "tokenising", "texts") as shown:
            while block := list(islice(stream, 20_000)):
                for encoding in tokenizer.encode_batch_fast(block, add_special_tokens=False):
                    if encoding.ids or keep_empty:
                        parts.append(np.array(encoding.ids, dtype))
                        lengths.append(len(encoding.ids))
                shown.advance(len(block))
        ids = np.concatenate(parts) if parts else np.zeros(0, dtype)
        return TokenStore(ids, np.cumsum(lengths, dtype=np.int64))

    return encode
