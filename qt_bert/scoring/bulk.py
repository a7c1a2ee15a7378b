"""Logits of many pairs: tokenised together, computed in rows of one length, handed back in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.encoder import Checkpoint, Encoder
from qt_bert.errors import ArgumentError
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.progress import Progress, silent

BATCH_TOKENS = {"float32": 1024, "bfloat16": 4096}
"""Tokens a forward pass takes at most (one pair, if that is longer): small batches stay in cache."""


@dataclass
class Counts:
    """What a scorer has seen."""

    pairs: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0


class Scorer:
    """Scores pairs with one checkpoint; counts what it had to truncate in `counts`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        longest = checkpoint.longest
        if max_length is not None and max_length > longest:
            raise ArgumentError(
                f"--max-length {max_length}: {checkpoint.name} has positions for {longest} tokens"
            )
        self.checkpoint = checkpoint
        self.encoder = Encoder(checkpoint.model, checkpoint.family)
        self.tokenizer = checkpoint.pair_tokenizer(max_length)
        self.batch_tokens = batch_tokens or BATCH_TOKENS[checkpoint.dtype]
        self.pad = int(checkpoint.model.config.pad_token_id or 0)
        self.counts = Counts()

    @torch.inference_mode()
    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray:
        """Float32 logits [pair, output] of (query, title) pairs, in their order."""
        encoded = self.tokenizer.encode(pairs, offsets=False)
        self._count(encoded)
        out = np.empty((len(pairs), self.checkpoint.model.config.num_labels), np.float32)
        for rows in length_batches([len(e) for e in encoded], self.batch_tokens):
            inputs = self._tensors([encoded[i] for i in rows])
            out[rows] = self.encoder.logits(*inputs).float().numpy()
            shown.advance(len(rows))
        return out

    def _count(self, encoded: Sequence[EncodedPair]) -> None:
        self.counts.pairs += len(encoded)
        self.counts.truncated_titles += sum(e.title_truncated for e in encoded)
        self.counts.truncated_queries += sum(e.query_truncated for e in encoded)

    def _tensors(
        self, rows: Sequence[EncodedPair]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Ids, segment ids and mask; no mask for rows of one length."""
        lengths = [len(row) for row in rows]
        longest = max(lengths)
        ids = np.full((len(rows), longest), self.pad, np.int64)
        types = np.zeros((len(rows), longest), np.int64)
        for i, row in enumerate(rows):
            ids[i, : lengths[i]] = row.input_ids
            types[i, : lengths[i]] = row.token_type_ids
        if min(lengths) == longest:
            return torch.from_numpy(ids), torch.from_numpy(types), None
        mask = np.arange(longest) < np.array(lengths)[:, None]
        return torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(mask).long()


def length_batches(lengths: Sequence[int], budget: int) -> Iterator[np.ndarray]:
    """Row indices of batches of at most `budget` tokens, longest first.

    A batch ends where the length changes, unless it is under half full; then it goes on into
    shorter rows, which are padded.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    start = 0
    for i in range(1, len(order) + 1):
        longest = lengths[order[start]]
        full = (i - start + 1) * longest > budget
        changes = i < len(order) and lengths[order[i]] != lengths[order[i - 1]]
        if i == len(order) or full or (changes and 2 * (i - start) * longest >= budget):
            yield order[start:i]
            start = i
