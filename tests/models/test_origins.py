"""Folders as others save them: GTE's own, Qwen3-Reranker's, CrossEncoder's, code that is not run."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers.processors import TemplateProcessing
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from qt_bert.data.templates import TEMPLATES
from qt_bert.errors import CheckpointError, QtBertError
from qt_bert.models.card import Reading
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.origins import adapted
from qt_bert.scoring.bulk import Scorer
from tests.conftest import byte_level
from tests.models.reference import folder_logits

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("狗", "猫追狗" * 5), ("苹果", "苹果手机")]
TEXTS_OF_A_TEMPLATE = ("prefix", "before", "between", "suffix")
ROPE = {"rope_type": "linear", "factor": 8 ** (2 / 8), "rope_theta": 160_000.0}


def edit(path: Path, **changes) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored |= changes
    path.write_text(json.dumps(stored), encoding="utf-8")


@pytest.fixture
def gte(fresh_checkpoint) -> tuple[Path, np.ndarray]:
    """A GTE folder as its authors ship it, and the logits that it must give."""
    folder = fresh_checkpoint("gte", rope_parameters=ROPE)
    logits = folder_logits(folder, TEXTS, padded=True)
    weights = load_file(folder / "model.safetensors")  # packed as theirs, by transformers
    assert "gte.encoder.layer.1.attention.qkv_proj.weight" in weights
    renamed = {name.replace("gte.", "new.", 1): tensor for name, tensor in weights.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del stored["rope_parameters"]
    stored |= {
        "model_type": "new",
        "architectures": ["NewForSequenceClassification"],
        "auto_map": {"AutoConfig": "Alibaba-NLP/new-impl--configuration.NewConfig"},
        "rope_theta": 20_000,
        "rope_scaling": {"type": "ntk", "factor": 8.0},
        "position_embedding_type": "rope",
        "layer_norm_type": "layer_norm",
        "logn_attention_scale": False,
        "pack_qkv": True,
        "unpad_inputs": False,
    }
    (folder / "config.json").write_text(json.dumps(stored), encoding="utf-8")
    return folder, logits


def test_a_gte_as_its_authors_ship_it(gte, capsys):
    folder, logits = gte
    checkpoint = open_checkpoint(folder)
    assert checkpoint.family.model_type == "gte" and checkpoint.family.fast
    assert "its own code (auto_map) is not run" in capsys.readouterr().err
    np.testing.assert_allclose(Scorer(checkpoint).logits(TEXTS), logits, atol=2e-5)
    # NTK scaling by hand: base 20,000 × 8, all frequencies over 8^(2/d), d = 8.
    frequencies = checkpoint.model.gte.rotary_emb.inv_freq
    by_hand = [160_000 ** (-2 * i / 8) / 8 ** (2 / 8) for i in range(4)]
    assert frequencies.tolist() == pytest.approx(by_hand, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logn_attention_scale": True}, "logn_attention_scale True"),
        ({"rope_scaling": {"type": "yarn", "factor": 2}}, "only `ntk` is known"),
        ({"position_embedding_type": "absolute"}, "position_embedding_type 'absolute'"),
        ({"rope_scaling": "ntk"}, r"config.json: no config of GTE \(AttributeError"),
        ({"rope_theta": None}, r"config.json: no config of GTE \(TypeError"),
    ],
)
def test_a_gte_of_another_build_is_refused(gte, changes, message):
    edit(gte[0] / "config.json", **changes)
    with pytest.raises(CheckpointError, match=message):
        open_checkpoint(gte[0])


def test_a_config_of_another_type_stays_as_it_is():
    config = {"model_type": "bert", "rope_scaling": None}
    assert adapted(config, Path("config.json")) == config


@pytest.mark.parametrize("model_type", ["bert", "qwen3"])
def test_code_beside_a_type_that_transformers_has_is_not_run(fresh_checkpoint, model_type, capsys):
    folder = fresh_checkpoint(model_type)
    expected = folder_logits(folder, TEXTS, padded=True)
    edit(folder / "config.json", auto_map={"AutoModel": "modeling_own.Own"})
    (folder / "modeling_own.py").write_text("raise SystemExit('run')", encoding="utf-8")
    np.testing.assert_allclose(Scorer(open_checkpoint(folder)).logits(TEXTS), expected, atol=2e-5)
    assert "is not run" in capsys.readouterr().err


def test_a_folder_of_a_cross_encoder(fresh_checkpoint):
    folder = fresh_checkpoint(labels=1)
    expected = folder_logits(folder, TEXTS, padded=True)
    sigmoid = {"activation_fn": "torch.nn.modules.activation.Sigmoid", "version": "5.1.0"}
    edit(folder / "config.json", sentence_transformers=sigmoid)
    (folder / "modules.json").write_text("[]", encoding="utf-8")
    np.testing.assert_allclose(Scorer(open_checkpoint(folder)).logits(TEXTS), expected, atol=2e-5)


# A causal language model that answers yes or no.


def language_model(folder: Path, **options) -> Path:
    """A tiny Qwen3ForCausalLM with its tokenizer."""
    byte_level(folder)
    config = AutoConfig.for_model(
        "qwen3",
        vocab_size=len(AutoTokenizer.from_pretrained(folder)),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=32,
        max_position_embeddings=1024,
        initializer_range=0.4,
        **options,
    )
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def answers(folder: Path) -> list[float]:
    """log p(yes) − log p(no) as the model's card computes it: padded on the left, prefix and suffix apart."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    template = TEMPLATES["qwen3-reranker"]
    bodies = [template.before + query + template.between + title for query, title in TEXTS]
    prefix, suffix, *rows = tokenizer(
        [template.prefix, template.suffix, *bodies], add_special_tokens=False
    )["input_ids"]
    rows = [prefix + row + suffix for row in rows]
    batch = tokenizer.pad({"input_ids": rows}, padding=True, return_tensors="pt")
    assert batch["attention_mask"][0, 0] == 0 or batch["attention_mask"][1, 0] == 0
    yes, no = (tokenizer.convert_tokens_to_ids(word) for word in ("yes", "no"))
    with torch.inference_mode():
        logits = model(**batch).logits[:, -1].log_softmax(-1)
    return (logits[:, yes] - logits[:, no]).tolist()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("how", ["option", "card", "file"])
def test_a_reranker_that_answers_yes_or_no(tmp_path, tied, how):
    folder = language_model(tmp_path / "model", tie_word_embeddings=tied, pad_token_id=None)
    template = "qwen3-reranker"
    if how == "card":
        card = {"schema": 1, "template": template}
        (folder / "qt_bert.json").write_text(json.dumps(card), encoding="utf-8")
    if how == "file":
        texts = vars(TEMPLATES[template])
        (tmp_path / "template.json").write_text(json.dumps(texts), encoding="utf-8")
        template = str(tmp_path / "template.json")
    checkpoint = open_checkpoint(folder, reading=Reading(None if how == "card" else template))
    assert checkpoint.settings.labels.logits == 1 and checkpoint.family.fast
    logits = Scorer(checkpoint).logits(TEXTS)[:, 0]
    assert logits.tolist() == pytest.approx(answers(folder), abs=2e-5)


def test_the_texts_of_a_template_keep_their_places(tmp_path):
    folder = language_model(tmp_path / "model")
    checkpoint = open_checkpoint(folder, reading=Reading("qwen3-reranker"))
    texts = ("高铁票价", "上海 手机")
    (row,) = checkpoint.pair_tokenizer().encode([texts])
    for side, text in enumerate(texts):
        spans = [span for span, of in zip(row.spans, row.side, strict=True) if of == side]
        # Tokens of one character's bytes have its span each.
        places = {place for start, end in spans for place in range(start, end)}
        assert places == {place for place, character in enumerate(text) if character != " "}
    assert row.cls == len(row) - 1 and row.side[-1] == -1
    (cut,) = checkpoint.pair_tokenizer(len(row) - 2).encode([texts])
    assert cut.title_truncated and not cut.query_truncated and len(cut) == len(row) - 2
    assert cut.input_ids[-5:] == row.input_ids[-5:]


@pytest.mark.parametrize(
    ("option", "stored", "message"),
    [
        (None, None, "give its prompt: --template qwen3-reranker"),
        ("other", None, "neither a file nor one of qwen3-reranker"),
        (None, dict.fromkeys(TEXTS_OF_A_TEMPLATE, "") | {"yes": "票价时刻"}, "tokens"),
        (None, {"prefix": "a"}, "lacks before, between, suffix"),
        (None, {"prefix": 1}, "must be one of"),
        (None, "other", "must be one of"),
    ],
)
def test_a_missing_or_wrong_template_is_named(tmp_path, option, stored, message):
    folder = language_model(tmp_path / "model")
    if stored is not None:
        (folder / "qt_bert.json").write_text(json.dumps({"schema": 1, "template": stored}), "utf-8")
    with pytest.raises(QtBertError, match=message):
        open_checkpoint(folder, reading=Reading(option))


def test_the_head_of_an_untied_model_must_be_there(tmp_path):
    folder = language_model(tmp_path / "model", tie_word_embeddings=False)
    weights = load_file(folder / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"lm_head\.weight is missing"):
        open_checkpoint(folder, reading=Reading("qwen3-reranker"))


def test_layers_that_the_config_does_not_name_refuse_a_reranker_too(tmp_path):
    folder = language_model(tmp_path / "model")
    edit(folder / "config.json", num_hidden_layers=1, layer_types=["full_attention"])
    with pytest.raises(CheckpointError, match=r"no place for \d+ stored weights"):
        open_checkpoint(folder, reading=Reading("qwen3-reranker"))


@pytest.mark.parametrize("ends", [False, True])
def test_a_classifier_that_names_no_padding_reads_the_last_token(fresh_checkpoint, ends):
    """`ends`: the only special token, 0, ends every pair."""
    folder = fresh_checkpoint("qwen3", pad_token_id=None)
    if ends:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        (end,) = tokenizer.convert_ids_to_tokens([0])
        tokenizer.eos_token = tokenizer.pad_token = end
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, 0)]
        )
        tokenizer.save_pretrained(folder)
    logits = Scorer(open_checkpoint(folder)).logits(TEXTS)
    np.testing.assert_allclose(logits, folder_logits(folder, TEXTS), atol=2e-5)
