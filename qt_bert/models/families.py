"""The encoder families: a declaration each of where a layer's weights are and how they are used.

A layer is self-attention and a feed-forward block, each with a residual connection and a norm before or
after it (Vaswani et al. 2017). Declared are: positions (learned; rotary, Su et al. 2021; relative, He et
al. 2021, DeBERTa), the visible tokens (all, a window, earlier ones), heads that share a key, a plain or
gated feed-forward block, and which token's last state the classifier reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from qt_bert.errors import CheckpointError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, eq=False)
class Rows:
    """Some output rows of a linear layer that holds several: used where a `torch.nn.Linear` is."""

    linear: Any
    start: int
    stop: int

    @property
    def weight(self) -> torch.Tensor:
        return self.linear.weight[self.start : self.stop]  # type: ignore[no-any-return]

    @property
    def bias(self) -> torch.Tensor | None:
        bias = self.linear.bias
        return None if bias is None else bias[self.start : self.stop]


@dataclass(frozen=True)
class Parts:
    """The parts of a layer, as paths from its module; by default those of a Hugging Face BERT.

    `attention` is the module that is given the attention mask. `projections` are query, key and value:
    three linear layers, or one that holds the rows of all. `up` are the linear layers that make the
    feed-forward units: one, or, where the block is gated, the activated one and its gate, or one that
    holds the rows of both.
    """

    attention: str = "attention"
    projections: tuple[str, ...] = (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    )
    width: str = "attention.self.attention_head_size"
    output: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    up: tuple[str, ...] = ("intermediate.dense",)
    activation: str = "intermediate.intermediate_act_fn"
    down: str = "output.dense"
    units_norm: str = "output.LayerNorm"
    positional: tuple[str, ...] = ()
    """Further projections whose rows belong to heads, where a model has them."""
    query_norm: str | None = None
    key_norm: str | None = None
    sharing: str | None = None
    window: str | None = None
    kind: str | None = None


def at(module: Any, path: str) -> Any:
    """The part of a module at a path."""
    return attrgetter(path)(module)


def put(module: Any, path: str, part: Any) -> None:
    """Put another part at a path."""
    owner, _, name = path.rpartition(".")
    setattr(at(module, owner) if owner else module, name, part)


ReadOut = Literal["first", "last", "mean"]
"""Which token's last state the classifier reads: the first, the last one, or the mean of all."""


BEHIND_PADDING = (
    *("camembert", "data2vec-text", "esm", "ibert", "layoutlmv3", "lilt", "longformer", "luke"),
    *("markuplm", "mpnet", "xmod"),
)
"""Types besides RoBERTa's whose positions begin after that of padding."""


def counts_behind_padding(model_type: str) -> bool:
    """Whether positions begin after that of padding."""
    return "roberta" in model_type or model_type in BEHIND_PADDING


@dataclass(frozen=True)
class Family:
    """One value of `model_type` in a config.json.

    `backbone` is the attribute of the Hugging Face model with the embeddings and the layers; `classifier`
    the weight whose rows are the labels; `head` maps the state that is read [batch, 1, hidden], after the
    final norm if any, to logits [batch, labels].
    """

    model_type: str
    backbone: str
    classifier: str
    head: Callable[[Any, torch.Tensor], torch.Tensor]
    layers: str = "encoder.layer"
    embeddings: str = "embeddings"
    parts: Parts = field(default_factory=Parts)
    positions: Literal["learned", "rotary", "relative"] = "learned"
    norm_before: bool = False
    gated: bool = False
    causal: bool = False
    segments: bool = True
    final_norm: str | None = None
    read_out: Callable[[Any], ReadOut] = lambda config: "first"
    fast: bool = True
    """Whether the fast engine runs it; else `models.plain` does."""
    cannot: Callable[[Any], str] = lambda config: ""
    """Why the fast engine cannot run a model of this config; empty where it can."""

    def first_position(self, pad: int) -> int:
        """The index of the first position embedding: RoBERTa's begin after `pad`."""
        return pad + 1 if counts_behind_padding(self.model_type) else 0

    def backbone_of(self, model: Any) -> Any:
        """The bare encoder. Raises CheckpointError where the fast engine does not run the family."""
        if not self.fast:
            raise CheckpointError(needs_fast(self.model_type))
        return getattr(model, self.backbone)

    def layers_of(self, model: Any) -> Any:
        """The model's layers, lowest first: a `torch.nn.ModuleList`."""
        return at(self.backbone_of(model), self.layers)

    def projections(self, module: Any) -> tuple[Any, Any, Any]:
        """A layer's query, key and value: linear layers, or rows of one."""
        projections = [at(module, path) for path in self.parts.projections]
        if len(projections) == 3:
            return tuple(projections)  # type: ignore[return-value]
        size = projections[0].out_features // 3
        return tuple(Rows(projections[0], n * size, (n + 1) * size) for n in range(3))  # type: ignore[return-value]

    def width(self, module: Any) -> int:
        """The width of a head."""
        return int(at(module, self.parts.width))

    def heads(self, module: Any) -> int:
        """How many (query) heads a layer has."""
        return int(at(module, self.parts.output).in_features) // self.width(module)

    def sharing(self, module: Any) -> int:
        """How many heads share one key and value: one in most families."""
        return int(at(module, self.parts.sharing)) if self.parts.sharing else 1

    def groups(self, module: Any) -> int:
        """How many keys and values a layer has: as many as heads, or fewer where heads share them."""
        return self.heads(module) // self.sharing(module)

    def units(self, module: Any) -> int:
        """How many feed-forward units a layer has."""
        return int(at(module, self.parts.down).in_features)

    def window(self, module: Any) -> int | None:
        """How many tokens a token of this layer sees to either side; None: all."""
        reach = at(module, self.parts.window) if self.parts.window else None
        return None if reach is None else int(reach) - 1  # transformers counts the token itself

    def kind(self, module: Any) -> str | None:
        """The kind of a layer, of a model whose layers differ: `full_attention`, `sliding_attention`."""
        return at(module, self.parts.kind) if self.parts.kind else None

    def embed(
        self,
        model: Any,
        input_ids: torch.Tensor,
        types: torch.Tensor,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Embeddings [batch, length, hidden] of tokens with their types, both [batch, length].

        `positions` number the learned position embeddings (None: by place); other kinds have none.
        """
        backbone = self.backbone_of(model)
        embeddings = at(backbone, self.embeddings)
        if not self.segments:
            own = {"position_ids": positions} if self.positions == "learned" else {}
            return embeddings(input_ids, **own)  # type: ignore[no-any-return]
        hidden = embeddings(input_ids=input_ids, token_type_ids=types, position_ids=positions)
        projected = getattr(backbone, "embeddings_project", None)
        return hidden if projected is None else projected(hidden)  # type: ignore[no-any-return]


def needs_fast(model_type: str) -> str:
    """The message for a command that needs the fast engine, of a model that it does not run."""
    why = "; the line above says what keeps this one from it" * (model_type in FAMILIES)
    return (
        f"a {model_type} model can be scored, evaluated, compared, calibrated, explained by terms and run "
        "without some heads; maps, sweeps, probes, plans, training and export need the fast engine, "
        f"which runs {', '.join(sorted(FAMILIES))}{why}"
    )


def _pooled(model: Any, read: torch.Tensor) -> torch.Tensor:
    return model.classifier(model.base_model.pooler(read))


def _direct(model: Any, read: torch.Tensor) -> torch.Tensor:
    return model.classifier(read)


FAMILIES = {
    family.model_type: family
    for family in (
        Family("bert", "bert", "classifier.weight", _pooled),
        Family("ernie", "ernie", "classifier.weight", _pooled),
        Family("roberta", "roberta", "classifier.out_proj.weight", _direct),
        Family("xlm-roberta", "roberta", "classifier.out_proj.weight", _direct),
        Family("electra", "electra", "classifier.out_proj.weight", _direct),
        Family(
            "gte",
            "gte",
            "classifier.weight",
            _pooled,
            layers="layers",
            parts=Parts(
                attention="self_attn",
                projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                width="self_attn.head_dim",
                output="self_attn.o_proj",
                attention_norm="post_attention_layernorm",
                up=("mlp.gate_proj", "mlp.up_proj"),
                activation="mlp.act_fn",
                down="mlp.down_proj",
                units_norm="post_mlp_layernorm",
            ),
            positions="rotary",
            gated=True,
        ),
        Family(
            "modernbert",
            "model",
            "classifier.weight",
            lambda model, read: model.classifier(model.head(read[:, 0])),
            layers="layers",
            parts=Parts(
                attention="attn",
                projections=("attn.Wqkv",),
                width="attn.head_dim",
                output="attn.Wo",
                attention_norm="attn_norm",
                up=("mlp.Wi",),
                activation="mlp.act",
                down="mlp.Wo",
                units_norm="mlp_norm",
                window="attn.sliding_window",
                kind="attention_type",
            ),
            positions="rotary",
            norm_before=True,
            gated=True,
            segments=False,
            final_norm="final_norm",
            read_out=lambda config: "mean" if config.classifier_pooling == "mean" else "first",
        ),
        *(
            Family(
                model_type,
                "model",
                "score.weight",
                lambda model, read: model.score(read[:, 0]),
                layers="layers",
                embeddings="embed_tokens",
                parts=Parts(
                    attention="self_attn",
                    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                    width="self_attn.head_dim",
                    output="self_attn.o_proj",
                    attention_norm="input_layernorm",
                    up=("mlp.gate_proj", "mlp.up_proj"),
                    activation="mlp.act_fn",
                    down="mlp.down_proj",
                    units_norm="post_attention_layernorm",
                    query_norm=normed and "self_attn.q_norm",
                    key_norm=normed and "self_attn.k_norm",
                    sharing="self_attn.num_key_value_groups",
                    window="self_attn.sliding_window",
                ),
                positions="rotary",
                norm_before=True,
                gated=True,
                causal=True,
                segments=False,
                final_norm="norm",
                read_out=lambda config: "last",
            )
            for model_type, normed in (("qwen2", None), ("qwen3", "norm"))
        ),
        Family(
            "deberta-v2",
            "deberta",
            "classifier.weight",
            lambda model, read: model.classifier(model.pooler(read)),
            parts=Parts(
                projections=(
                    "attention.self.query_proj",
                    "attention.self.key_proj",
                    "attention.self.value_proj",
                ),
                positional=("attention.self.pos_key_proj", "attention.self.pos_query_proj"),
            ),
            positions="relative",
            cannot=lambda config: (
                "it has a convolution beside its first layer"
                if getattr(config, "conv_kernel_size", 0) > 0
                else ""
            ),
        ),
    )
}


def family_of(model_type: str, where: str) -> Family:
    """The family of a `model_type`; a plain one (`fast` is False) if only transformers has it. Raises
    CheckpointError where transformers has no sequence classifier of it."""
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    )

    if model_type not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES:
        raise CheckpointError(
            f"{where}: transformers has no sequence classifier of model_type {model_type!r}; "
            f"the fast engine runs {', '.join(sorted(FAMILIES))}"
        )
    return plain_family(model_type)


def plain_family(model_type: str) -> Family:
    """The family of a type that runs in transformers' own forward (`models.plain`)."""
    return Family(model_type, "", "", lambda model, read: read, fast=False)
