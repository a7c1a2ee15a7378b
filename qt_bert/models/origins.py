"""Folders in other formats: GTE's own config, sentence-transformers, Qwen3-Reranker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qt_bert.data.templates import Template
from qt_bert.errors import CheckpointError
from qt_bert.files import read_json


def adapted(config: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """A config.json as transformers reads it: GTE's `new`, which ships its own code, becomes `gte`.

    transformers' `gte` is the same model, but does not read the old name nor NTK scaling (without it,
    frequencies are 7 % off). NTK scaling by a factor f over heads of width d is a base f times as large
    and frequencies divided by f^(2/d), which transformers calls `linear` scaling. Raises CheckpointError
    for another kind of GTE.
    """
    result = dict(config)
    scaling = result.get("rope_scaling") or {}
    is_new = result.get("model_type") == "new"
    if not is_new and not (result.get("model_type") == "gte" and scaling.get("type") == "ntk"):
        return result
    supported = {
        "position_embedding_type": "rope",
        "layer_norm_type": "layer_norm",
        "logn_attention_scale": False,
    }
    for name, value in supported.items():
        if result.get(name, value) != value:
            raise CheckpointError(
                f"{path}: a `new` model with {name} {result[name]!r}; of that build only {name} "
                f"{value!r} is known"
            )
    if scaling and (scaling.get("type") != "ntk" or scaling.get("mixed_b") is not None):
        raise CheckpointError(
            f"{path}: rope_scaling {dict(scaling)!r}; of this build only `ntk` is known"
        )
    factor, base = float(scaling.get("factor", 1.0)), float(result.get("rope_theta", 10_000.0))
    width = int(result["hidden_size"]) // int(result["num_attention_heads"])
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": base}
    if scaling:
        rope = {"rope_type": "linear", "factor": factor ** (2 / width), "rope_theta": base * factor}
    for name in ("auto_map", "rope_scaling", "rope_theta"):
        result.pop(name, None)
    names = [str(name).replace("New", "Gte", 1) for name in result.get("architectures") or ()]
    return result | {"model_type": "gte", "architectures": names, "rope_parameters": rope}


def word_ids(tokenizer: Any, template: Template, where: str) -> tuple[int, int]:
    """The token ids of yes and no. Raises CheckpointError for a word that is not one token."""
    token_ids = []
    for word in (template.yes, template.no):
        ids = tokenizer(word, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise CheckpointError(
                f"{where}: the answer {word!r} is {len(ids)} tokens of this model; name words of one "
                "token as `yes` and `no` of the template"
            )
        token_ids.append(int(ids[0]))
    return token_ids[0], token_ids[1]


def modules_of(folder: Path) -> dict[str, str]:
    """Folder → kind of each module in the `modules.json` of sentence-transformers, if there is one."""
    path = folder / "modules.json"
    try:
        listed = read_json(path) if path.is_file() else []
        return {module["path"]: module["type"].rpartition(".")[2] for module in listed}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not a list of modules ({error})") from error


def check_modules(folder: Path) -> None:
    """Raise CheckpointError where a model is more than the transformer in `folder`."""
    around = modules_of(folder.parent)
    listed = around if folder.name in around else modules_of(folder)
    more = [kind for kind in listed.values() if kind not in ("Transformer", "LogitScore")]
    if more:
        raise CheckpointError(
            f"{folder}: modules.json adds {', '.join(more)}, which is not read: the scores would be another "
            "model's (with Pooling, no cross-encoder's); remove the file where the classifier is all of it"
        )
