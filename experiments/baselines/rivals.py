"""Models that grade a pair another way than a cross-encoder does, and how they are tuned.

`lstm-attention` is the interactive LSTM matcher ESIM (Chen et al. 2017, "Enhanced LSTM for Natural
Language Inference"): token vectors, trained from random; an LSTM in both directions reads each text;
every token of the one is aligned with a weighted mean of the other's; what differs is composed by a
second LSTM, pooled by mean and maximum, and joined. The source of the comparison
(heads_of_query_title_bert, section 1) names its matcher "LSTM-Attention" and gives no details.

`two-tower`: one encoder reads query and title apart; they meet in four products of their [CLS]
vectors, as in Sentence-BERT's classification objective (Reimers & Gurevych 2019, section 3: u, v,
|u − v|), with the product u·v of InferSent (Conneau et al. 2017) beside it.

`bert+lstm` (heads_of_query_title_bert, 2.4: BERT reads the texts apart): both, side by side, one
linear output on them, trained together.

All read the pairs that the cross-encoder reads (same tokenizer, same cut), and take them apart. There
is no dropout anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel

from experiments.baselines.lexical import texts_of
from qt_bert.data.pairs import GRADES
from qt_bert.data.tokenise import PairTokenizer, length_batches
from qt_bert.files import read_json, write_json
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.loading import load_config, open_for_tuning
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.progress import progress
from qt_bert.training.batches import BatchLayout, buckets_for, training_set
from qt_bert.training.finetune import TrainJob, TuneSettings, epochs_of, steps_judged
from qt_bert.training.losses import label_set_loss
from qt_bert.training.masters import MasterWeights, linear_schedule
from qt_bert.training.selection import reading
from qt_bert.training.state import FACTS

ENCODES = {"lstm-attention": False, "two-tower": True, "bert+lstm": True}
"""Whether a BERT reads the texts, by the name of the model."""
MATCHER_SIZE = 192
COMPARED = 4
"""Vectors that `compared` joins."""
LABELS = ModelLabels(len(GRADES), tuple((grade,) for grade in GRADES))
BATCH_TOKENS = 4096


@dataclass(frozen=True, eq=False)
class Side:
    """One text of each of B pairs, `[CLS] … [SEP]`, padded on the right to L tokens.

    `ids` [B, L]; `real` [B, L] is True at tokens and False at padding.
    """

    ids: torch.Tensor
    real: torch.Tensor

    @classmethod
    def of(cls, texts: Sequence[np.ndarray], pad: int) -> Side:
        """Token ids of texts, padded to the longest."""
        lengths = torch.tensor([len(text) for text in texts])
        ids = torch.full((len(texts), int(lengths.max())), pad)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.from_numpy(text)
        return cls(ids, torch.arange(ids.shape[1]) < lengths[:, None])

    @property
    def lengths(self) -> torch.Tensor:
        """Tokens of each row [B]."""
        return self.real.sum(-1)


def apart(ids: np.ndarray, types: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Query and title of a BERT's pair, by its token types; each between the first token and a separator."""
    return ids[types == 0], np.append(ids[:1], ids[types == 1])


class BiLstm(nn.Module):
    """Rows [B, L, inputs] with their lengths [B] → [B, L, 2 × size], 0 at padding.

    Two LSTMs, one over each row turned round within its own length: padding stands behind the text
    for both, so that neither sees it. Packed sequences give the same, more slowly.
    """

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.left_to_right = nn.LSTM(inputs, size, batch_first=True)
        self.right_to_left = nn.LSTM(inputs, size, batch_first=True)

    def forward(self, rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        places = torch.arange(rows.shape[1])
        real = places < lengths[:, None]
        turned = torch.where(real, lengths[:, None] - 1 - places, places)
        ahead = self.left_to_right(rows)[0]
        back = _taken(self.right_to_left(_taken(rows, turned))[0], turned)
        return torch.cat([ahead, back], -1) * real[..., None]


def _taken(rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Of each row the vectors at `places` [B, L]."""
    return rows.gather(1, places[..., None].expand_as(rows))


class Matcher(nn.Module):
    """Two sides → the matcher's features of each pair [B, size]."""

    def __init__(self, vocabulary: int, pad: int, size: int) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocabulary, size, padding_idx=pad)
        self.reading = BiLstm(size, size)
        self.enhanced = nn.Linear(8 * size, size)
        self.composing = BiLstm(size, size)
        self.joined = nn.Linear(8 * size, size)

    def forward(self, query: Side, title: Side) -> torch.Tensor:
        a, b = (self.reading(self.embeddings(one.ids), one.lengths) for one in (query, title))
        to_query, to_title = aligned(a, b, query.real, title.real)
        both = [self._composed(query, a, to_query), self._composed(title, b, to_title)]
        return torch.tanh(self.joined(torch.cat(both, -1)))

    def _composed(self, side: Side, own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Mean and maximum over a text's tokens of what they are beside what they align with."""
        enhanced = self.enhanced(torch.cat([own, other, own - other, own * other], -1))
        return pooled(self.composing(F.relu(enhanced), side.lengths), side.real)


def aligned(
    a: torch.Tensor, b: torch.Tensor, real_a: torch.Tensor, real_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Soft alignment: for each token of `a` [B, n, w] a mean of `b` [B, m, w], and the other way.

    Weights are softmax(a·bᵀ) over the other text's real tokens, as in ESIM without a scale.
    """
    scores = torch.matmul(a, b.transpose(1, 2)).float()
    lowest = torch.finfo(scores.dtype).min
    to_b = scores.masked_fill(~real_b[:, None], lowest).softmax(-1).to(a.dtype)
    to_a = scores.masked_fill(~real_a[..., None], lowest).softmax(1).to(a.dtype)
    return torch.matmul(to_b, b), torch.matmul(to_a.transpose(1, 2), a)


def pooled(tokens: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """[mean; maximum] over the real tokens of [B, L, w], which are 0 at padding."""
    mean = tokens.sum(1) / real.sum(1, keepdim=True)
    most = tokens.masked_fill(~real[..., None], torch.finfo(tokens.dtype).min).amax(1)
    return torch.cat([mean.to(tokens.dtype), most], -1)


def compared(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """[u; v; |u − v|; u·v] of vectors [B, width]."""
    return torch.cat([u, v, (u - v).abs(), u * v], -1)


class Rival(nn.Module):
    """A pair's features and the linear layer on them that gives the logits of the five grades.

    `config` holds `kind` (a key of ENCODES), `vocabulary`, `pad`, and `encoder`, the config of the
    BERT that reads the texts apart, or None.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        width = 0
        self.encoder = self.matcher = None
        if config["encoder"] is not None:
            encoder = AutoModel.from_config(
                AutoConfig.for_model(**config["encoder"]), attn_implementation="eager"
            )
            encoder.pooler = None
            self.encoder, width = encoder, COMPARED * int(encoder.config.hidden_size)
        if config["kind"] != "two-tower":
            self.matcher = Matcher(config["vocabulary"], config["pad"], MATCHER_SIZE)
            width += MATCHER_SIZE
        self.classifier = nn.Linear(width, len(GRADES))

    @classmethod
    def new(cls, kind: str, base: Path) -> Rival:
        """From the weights of the encoder in `base`, or of that its vocabulary alone; else from
        torch's seed."""
        model = open_for_tuning(base, len(GRADES)) if ENCODES[kind] else None
        config = load_config(base) if model is None else model[0].config
        described = None
        if model is not None:
            described = json.loads(config.to_json_string(use_diff=True))
            for name in ("architectures", "transformers_version", "dtype"):
                described.pop(name, None)
            described["model_type"] = config.model_type
        made = cls(
            {
                "kind": kind,
                "vocabulary": int(config.vocab_size),
                "pad": int(config.pad_token_id or 0),
                "encoder": described,
            }
        )
        if model is not None:
            made.encoder = getattr(model[0], model[1].backbone)
            made.encoder.pooler = None
        return made

    def forward(self, query: Side, title: Side) -> torch.Tensor:
        """Logits [B, 5]."""
        features = []
        if self.encoder is not None:
            features.append(compared(self._first(query), self._first(title)))
        if self.matcher is not None:
            features.append(self.matcher(query, title))
        logits: torch.Tensor = self.classifier(torch.cat(features, -1))
        return logits

    def _first(self, side: Side) -> torch.Tensor:
        """The last hidden state of each text's [CLS] [B, hidden]."""
        assert self.encoder is not None
        found = self.encoder(input_ids=side.ids, attention_mask=side.real.long())
        first: torch.Tensor = found.last_hidden_state[:, 0]
        return first

    def save_pretrained(
        self, folder: Path, state_dict: Mapping[str, torch.Tensor], **_: Any
    ) -> None:
        """Write config.json and the weights, as `save_checkpoint` asks."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "config.json", {"model_type": "rival", **self.config})
        save_file({n: v.contiguous() for n, v in state_dict.items()}, folder / "model.safetensors")


class RivalScorer:
    """Grades pairs by a tuned rival: `logits` as `Scorer` gives them."""

    def __init__(self, model: Rival, tokenizer: PairTokenizer) -> None:
        self.model, self.tokenizer = model, tokenizer

    @classmethod
    def open(cls, folder: Path, max_length: int) -> RivalScorer:
        """The model that `tune_rival` left in `folder`, in float32."""
        config = read_json(folder / "config.json")
        model = Rival({name: config[name] for name in ("kind", "vocabulary", "pad", "encoder")})
        state = load_file(folder / "model.safetensors")
        model.load_state_dict({name: value.float() for name, value in state.items()})
        return cls(model.eval(), PairTokenizer(open_tokenizer(folder), max_length))

    @torch.inference_mode()
    def logits(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Float32 logits [pairs, 5], in the order of the pairs."""
        encoded = self.tokenizer.encode(pairs, offsets=False)
        texts = [apart(np.array(one.input_ids), np.array(one.token_type_ids)) for one in encoded]
        out = np.empty((len(texts), len(GRADES)), np.float32)
        for rows in length_batches([len(one) for one in encoded], BATCH_TOKENS):
            out[rows] = self.model(*_sides([texts[i] for i in rows], self._pad)).float().numpy()
        return out

    @property
    def _pad(self) -> int:
        return int(self.model.config["pad"])


def tune_rival(kind: str, job: TrainJob, out: Path, settings: TuneSettings) -> dict[str, Any]:
    """Tune a rival by `job` into the folder `out`; returns the facts of its training.

    Batches, weights of labels, schedule and choice of the best weights are those of `qt-bert train`
    (texts padded instead of packed, uncompiled, to the end). A folder that is there is taken as it is.
    """
    if (out / FACTS).exists():
        return dict(read_json(out / FACTS))
    assert job.dev is not None
    torch.manual_seed(settings.seed)
    model, tokenizer = Rival.new(kind, job.base).train(), open_tokenizer(job.base)
    reader = PairTokenizer(tokenizer, job.max_length)
    examples = training_set(job.sources, reader, LABELS).examples
    texts = [apart(one.input_ids, one.token_type_ids) for one in examples]
    dev, scorer = job.dev.read(labelled=True), RivalScorer(model, reader)
    # A title apart has a [CLS] of its own.
    layout = BatchLayout(buckets_for(job.max_length + 1), settings.slots, scorer._pad, 0)
    epochs = epochs_of([range(len(a) + len(b)) for a, b in texts], layout, settings)
    plans = [[i for row in plan.rows for i in row] for epoch in epochs for plan in epoch]
    judged = steps_judged([len(epoch) for epoch in epochs], settings.evaluations)
    masters = MasterWeights(
        model, getattr(torch, settings.dtype), lr=settings.lr, weight_decay=settings.weight_decay
    )
    kept, best, merit = masters.float32_state(model), None, -np.inf
    warmup = max(1, int(settings.warmup * len(plans)))
    with progress(len(plans), f"tuning {kind}", "steps") as shown:
        for step, plan in enumerate(plans, 1):
            logits = model(*_sides([texts[i] for i in plan], scorer._pad)).float()
            allowed = torch.from_numpy(np.stack([examples[i].allowed for i in plan]))
            weights = torch.tensor([examples[i].weight for i in plan])
            (label_set_loss(logits, allowed) * weights / weights.sum()).sum().backward()
            masters.step(linear_schedule(step - 1, warmup=warmup, total=len(plans)))
            shown.advance(1)
            if step in judged:
                model.eval()
                found = reading(scorer.logits(texts_of(dev)), dev, LABELS, job.stop_on)
                model.train()
                if found is not None and found[1] > merit:
                    (best, merit), kept = found, masters.float32_state(model)
    facts = {
        "base": job.base.name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": len(plans),
        "pairs_seen": sum(map(len, plans)),
        "best": best,
    }
    save_checkpoint(
        out,
        model.float(),
        tokenizer,
        state=kept,
        settings=ModelSettings(LABELS, job.max_length),
        texts={FACTS: json.dumps(facts, indent=1)},
    )
    return facts


def _sides(texts: Sequence[tuple[np.ndarray, np.ndarray]], pad: int) -> tuple[Side, Side]:
    queries, titles = zip(*texts, strict=True)
    return Side.of(queries, pad), Side.of(titles, pad)
