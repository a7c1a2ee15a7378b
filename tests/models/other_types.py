"""Tiny classifiers of other types of transformers, and of some fast ones, with what each config must say."""

from pathlib import Path

from tests.conftest import TOKENIZERS, byte_level, make_checkpoint, sentencepiece, wordpiece

ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
TYPES: dict[str, dict] = {
    "bert": {},
    "modernbert": {},
    "deberta-v2": {},
    "gte": {},
    "eurobert": {"num_key_value_heads": 2, "rope_parameters": ROPE},
    "jina_embeddings_v3": {"type_vocab_size": 1},
    "nomic_bert": {},
    "mpnet": {},
    "distilbert": {},
    "albert": {"embedding_size": 16},
    "megatron-bert": {},
    "roformer": {"embedding_size": 16},
    "qwen2": {},
    "qwen3": {},
    "gemma": {"num_key_value_heads": 1, "head_dim": 8},
    "minicpm3": {
        "q_lora_rank": 8,
        "kv_lora_rank": 8,
        "qk_nope_head_dim": 4,
        "qk_rope_head_dim": 4,
        "v_head_dim": 8,
        "num_key_value_heads": 2,
    },
}
"""Those that a hook on the attention output matrix was tried with."""

SENTENCEPIECE = ("jina_embeddings_v3", "mpnet")
BYTES = ("eurobert", "gemma", "minicpm3")


def other_checkpoint(folder: Path, model_type: str, labels: int = 2) -> Path:
    """Save a random classifier of a type; returns the folder."""
    for kind, build in ((SENTENCEPIECE, sentencepiece), (BYTES, byte_level)):
        if model_type in kind:
            TOKENIZERS.setdefault(model_type, build)
    TOKENIZERS.setdefault(model_type, wordpiece)
    return make_checkpoint(folder, model_type, labels=labels, **TYPES[model_type])
