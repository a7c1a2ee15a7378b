"""A vocabulary cut: which tokens stay, tokenizer and ids that follow, equal logits, what is lost."""

import gzip
import json
import lzma
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from qt_bert import errors
from qt_bert.data.reader import ReaderOptions
from qt_bert.models.card import Reading
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.folder import stored_bytes
from qt_bert.models.loading import stored_dtype
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.origins import word_ids
from qt_bert.planning import vocabulary
from qt_bert.planning.export import export_transformers
from qt_bert.planning.prune import save_smaller
from qt_bert.planning.vocabulary import (
    Vocabulary,
    chosen_tokens,
    prune_vocabulary,
    read_texts,
    rows_with,
)
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FAMILIES
from tests.models.reference import folder_logits
from tests.models.test_origins import language_model

FEW = Reading(allow_unknown=True)
LINES = ["北京到上海高铁票价", "上海到北京高铁票价", "京东小哥", "高铁票价", "abc 12"]
LOST = "query\ttitle\tgrade\n北京\t上海高铁\t5\n北京\t怎么去\t1\n京东\t狗追猫\t2\n"


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    """Texts, and pairs of which some have other characters."""
    texts, pairs = tmp_path / "texts.txt", tmp_path / "lost.tsv"
    texts.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    pairs.write_text(LOST, encoding="utf-8")
    return texts, pairs


def random_classifier(folder: Path, family: str, tokenizer, *, spare: int = 0) -> Path:
    """Save a tiny model of one output, with `spare` rows without a token, beside its tokenizer."""
    tokenizer.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer) + spare,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=32,
        max_position_embeddings=99,
        type_vocab_size=1,
        num_labels=1,
        **{
            f"{name}_token_id": getattr(tokenizer, f"{name}_token_id")
            for name in ("pad", "bos", "eos")
        },
    )
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_texts_that_keep_their_tokens_keep_their_logits(checkpoint_of, files, tmp_path, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    made = prune_vocabulary(checkpoint, files[0], tmp_path / "cut", pairs=files[1])
    assert made["texts"]["changed"] == 0 and made["texts"]["pairs"] == len(LINES)
    assert made["difference"] <= 1e-6 and made["weights"][1] < made["weights"][0]
    pairs = [(LINES[0], LINES[1]), (LINES[2], LINES[3])]
    expected = Scorer(checkpoint).logits(pairs)
    logits = folder_logits(made["folder"], pairs, padded=True)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    config = AutoConfig.from_pretrained(made["folder"])
    tokenizer = AutoTokenizer.from_pretrained(made["folder"])
    assert config.vocab_size == len(tokenizer) == made["tokens"][1] < made["tokens"][0]
    assert config.pad_token_id == tokenizer.pad_token_id
    old = checkpoint.tokenizer
    assert tokenizer.special_tokens_map == old.special_tokens_map
    assert tokenizer.get_vocab().keys() < old.get_vocab().keys()
    rows = AutoModelForSequenceClassification.from_pretrained(made["folder"]).get_input_embeddings()
    row = rows.weight[tokenizer.get_vocab()["a"]]  # a token's row is its own
    table = checkpoint.model.get_input_embeddings().weight
    torch.testing.assert_close(row, table[old.get_vocab()["a"]])


def test_what_is_lost_is_counted(checkpoint_of, files, tmp_path, capsys):
    checkpoint, rejects = open_checkpoint(checkpoint_of()), tmp_path / "rejects.tsv"
    for path, blank in zip(files, (" \n", "狗\t\t1\n" * 2), strict=True):
        path.write_text(path.read_text("utf-8") + blank, "utf-8")
    made = prune_vocabulary(checkpoint, files[0], tmp_path / "cut", pairs=files[1], rejects=rejects)
    assert made["rejected"] == len(rejects.read_text("utf-8").splitlines()) - 1 == 1
    assert "lost.tsv: 2 rows rejected" in capsys.readouterr().err
    # 怎 么 去 and 狗 追 猫 are in no text: six of seventeen characters, each unknown now.
    assert made["others"] == {"pairs": 3, "changed": 2, "unknown": 6}
    lost = made["lost"]
    assert lost["graded"] == 3 and lost["metrics"]["spearman"]["n"] == 3 and lost["largest"] > 0


def test_bytes_stay_so_that_no_text_is_unknown(checkpoint_of, files, tmp_path):
    checkpoint, (texts, pairs) = open_checkpoint(checkpoint_of("qwen3")), files
    made = prune_vocabulary(checkpoint, texts, tmp_path / "cut", keep=280, pairs=pairs)
    tokenizer = AutoTokenizer.from_pretrained(made["folder"])
    assert len(tokenizer) == 280 and made["others"]["unknown"] == 0
    assert tokenizer.decode(tokenizer("狗追猫 déjà 🐶")["input_ids"]) == "狗追猫 déjà 🐶"


def vocabulary_of(model) -> Vocabulary:
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(model), unk_token="?", pad_token="?"
    )
    return Vocabulary(fast, "name")


def ids(vocab) -> dict[str, int]:
    return {token: number for number, token in enumerate(vocab)}


def within(vocabulary: Vocabulary, token: int) -> set[str]:
    return {vocabulary.tokens[part] for part in vocabulary.within(token)}


def test_a_merged_token_needs_all_on_the_way_to_it():
    # "abcd" is ((ab)c)d by these ranks; bc and cd are merges, too, but none on that way.
    tokens = ["?", *"abcd", "ab", "bc", "cd", "abc", "abcd"]
    merges = [("a", "b"), ("b", "c"), ("c", "d"), ("ab", "c"), ("abc", "d")]
    known = vocabulary_of(models.BPE(ids(tokens), merges, unk_token="?"))
    assert within(known, tokens.index("abc")) == {*"abc", "abc", "ab"}
    spec = known.only(ids(sorted({0, *known.within(tokens.index("abc"))})))
    assert spec["model"]["merges"] == [("a", "b"), ("ab", "c")]
    assert spec["model"]["vocab"] == {"?": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "abc": 5}
    again = Tokenizer.from_str(json.dumps(spec))
    assert again.encode("abcab").tokens == ["abc", "ab"] and again.encode("d").tokens == ["?"]


def test_pieces_of_words_and_of_sentences_fall_into_characters():
    words = ["?", "play", "##ing", "p", "##l", "##a", "##y", "##i", "##n", "##g", "i"]
    known = vocabulary_of(models.WordPiece(ids(words), unk_token="?"))
    assert within(known, 1) == {"play", "p", "##l", "##a", "##y"}
    assert within(known, 2) == {"##ing", "##i", "##n", "##g"}
    pieces = [("?", 0.0), ("▁北京", -3.0), ("▁", -4.0), ("北", -5.0), ("京", -6.0), ("狗", -9.0)]
    known = vocabulary_of(models.Unigram(pieces, unk_id=0))
    assert within(known, 1) == {"▁北京", "▁", "北", "京"}
    assert set(known.needed()) == {0}
    spec = known.only({0: 0, 1: 1, 5: 2})
    assert spec["model"]["vocab"] == [["?", 0.0], ["▁北京", -3.0], ["狗", -9.0]]


def test_bytes_are_needed_and_other_kinds_are_refused():
    tokens = ["?", *(f"<0x{n:02X}>" for n in range(256)), "狗"]
    assert len(vocabulary_of(models.BPE(ids(tokens), [], byte_fallback=True)).needed()) == 257
    with pytest.raises(errors.CheckpointError, match="name: a tokenizer of the kind WordLevel"):
        vocabulary_of(models.WordLevel({"?": 0}, "?"))


def test_the_tokens_of_most_texts_stay_with_their_parts(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of())
    known = Vocabulary(checkpoint.tokenizer, "")
    pairs = [("狗狗", "猫"), ("狗", "ab"), ("ab", "猫")]
    counts = rows_with(checkpoint.pair_tokenizer(), known, pairs)
    by_name = {known.tokens[token]: rows for token, rows in counts.items()}
    assert by_name == {"[CLS]": 3, "[SEP]": 3, "狗": 2, "猫": 2, "a": 2, "##b": 2}
    needed = {0, 1}
    dog = known.ids["狗"]
    counts = Counter({dog: 3, known.ids["a"]: 1, known.ids["猫"]: 2, 2: 5})
    assert chosen_tokens(counts, needed, known, keep=4) == sorted({0, 1, 2, dog})
    assert chosen_tokens(counts, needed, known, min_count=3) == sorted({0, 1, 2, dog})
    assert len(chosen_tokens(counts, needed, known)) == 6
    with pytest.raises(errors.ArgumentError, match="--keep 1: 2 tokens must stay"):
        chosen_tokens(counts, needed, known, keep=1)


def unigram():
    """A tokenizer whose padding is its sixth token, with two pieces of several characters."""
    special = ["<s>", "</s>", "<unk>", "x", "y", "<pad>"]
    pieces = [(t, 0.0 if t[0] == "<" else -9.0) for t in special]
    pieces += [(c, -7.0) for c in sorted(set("".join(LINES).replace(" ", "▁") + "猫狗"))]
    pieces += [("北京到上海高铁票价", -4.0), ("高铁", -4.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 1)],
    )
    names = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "unk": "<unk>"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        **{f"{name}_token": token for name, token in names.items()},
    )


def test_a_longer_piece_that_goes_leaves_its_characters(files, tmp_path):
    folder = random_classifier(tmp_path / "model", "xlm-roberta", unigram(), spare=7)
    checkpoint = open_checkpoint(folder, reading=FEW)
    made = prune_vocabulary(checkpoint, files[0], tmp_path / "cut", min_count=2, pairs=files[1])
    there = AutoTokenizer.from_pretrained(made["folder"]).get_vocab()
    assert "北京到上海高铁票价" not in there and {"高铁", "北", "海"} <= there.keys()
    # 小 and abc are in one text each
    assert made["texts"]["changed"] == 3 and made["texts"]["unknown"] > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_yes_or_no_model_keeps_its_template_and_its_one_row(files, tmp_path, dtype):
    """The row, yes − no, of a model in bfloat16 lies between two of its numbers."""
    causal = language_model(tmp_path / "causal", tie_word_embeddings=True, dtype=dtype)
    assert stored_dtype(causal) == getattr(torch, dtype)
    checkpoint = open_checkpoint(causal, reading=Reading("qwen3-reranker"), compact=True)
    made = prune_vocabulary(checkpoint, files[0], tmp_path / "cut", pairs=files[1])
    opened = open_checkpoint(made["folder"])
    template = checkpoint.settings.template
    assert opened.settings.template == template
    assert len(word_ids(opened.tokenizer, template, "")) == 2
    texts = [(LINES[0], LINES[1]), (LINES[2], LINES[3])]
    expected = Scorer(checkpoint).logits(texts)
    np.testing.assert_allclose(Scorer(opened).logits(texts), expected, atol=1e-5)
    plain = export_transformers(checkpoint, tmp_path / "plain")["folder"]
    np.testing.assert_allclose(Scorer(open_checkpoint(plain)).logits(texts), expected, atol=1e-5)
    sizes = [stored_bytes(Path(folder)) for folder in (causal, plain)]
    assert sizes[1] < 1.1 * sizes[0]


def test_what_a_smaller_model_keeps_stays_beside_it(checkpoint_of, files, tmp_path):
    teacher = open_checkpoint(checkpoint_of(layers=3, heads=4))
    kept = (KeptLayer(layer=0, heads=(1,)), KeptLayer(layer=2, heads=(0, 1, 2, 3), units=7))
    small = smaller_checkpoint(teacher, kept, units={2: range(7)})
    pruned = open_checkpoint(save_smaller(tmp_path / "pruned", small), compact=True)
    made = prune_vocabulary(pruned, files[0], tmp_path / "cut", pairs=files[1])
    opened = open_checkpoint(made["folder"], compact=True)
    assert opened.kept == pruned.kept
    logits = [Scorer(model).logits([(LINES[0], LINES[1])]) for model in (opened, pruned)]
    np.testing.assert_allclose(*logits, atol=1e-6)


def test_pairs_are_texts_and_calibration_stays(checkpoint_of, files, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of())
    checkpoint.settings = replace(checkpoint.settings, calibration={"temperature": 2.0})
    made = prune_vocabulary(checkpoint, files[1], tmp_path / "cut")
    assert made["texts"]["pairs"] == 3
    assert open_checkpoint(made["folder"]).settings.calibration == {"temperature": 2.0}
    assert {"狗", "怎"} <= AutoTokenizer.from_pretrained(made["folder"]).get_vocab().keys()


def test_nothing_is_saved_where_it_would_be_another_model(
    checkpoint_of, files, tmp_path, monkeypatch
):
    checkpoint, (texts, pairs) = open_checkpoint(checkpoint_of()), files
    out = tmp_path / "new" / "cut"
    with pytest.raises(errors.ArgumentError, match="no text keeps all its tokens"):
        prune_vocabulary(checkpoint, texts, out, min_count=99, pairs=pairs)
    monkeypatch.setattr(vocabulary, "SAME", -1.0)
    with pytest.raises(errors.EquivalenceError, match="nothing was saved"):
        prune_vocabulary(checkpoint, texts, out, pairs=pairs)
    monkeypatch.undo()
    assert list(out.parent.iterdir()) == []
    prune_vocabulary(checkpoint, texts, out, pairs=pairs)
    with pytest.raises(errors.RunFolderError, match="not empty"):
        prune_vocabulary(checkpoint, texts, out, pairs=pairs)
    with pytest.raises(errors.ArgumentError, match="which is read"):
        prune_vocabulary(checkpoint, texts, texts.parent, pairs=pairs, overwrite=True)


@pytest.mark.parametrize("family", ["xlm-roberta", "roberta", "qwen2"])
def test_classes_that_build_their_tokenizer_anew_build_the_smaller_one(family, files, tmp_path):
    characters = sorted(set("▁".join(LINES) + "猫狗")) + pre_tokenizers.ByteLevel.alphabet()
    vocab = ["<s>", "<pad>", "</s>", "<unk>", "<|endoftext|>", *dict.fromkeys(characters)]
    vocab += ["ab", "abc", "zz", "<mask>"]
    if family == "xlm-roberta":
        tokenizer = transformers.XLMRobertaTokenizer(vocab=[(token, -5.0) for token in vocab])
    else:
        kind = {"roberta": transformers.RobertaTokenizer, "qwen2": transformers.Qwen2Tokenizer}
        tokenizer = kind[family](vocab=ids(vocab), merges=[("a", "b"), ("ab", "c"), ("z", "z")])
    folder = random_classifier(tmp_path / "model", family, tokenizer)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    checkpoint = open_checkpoint(folder, reading=FEW)
    made = prune_vocabulary(checkpoint, files[0], tmp_path / "cut", pairs=files[1])
    small = AutoTokenizer.from_pretrained(made["folder"])
    assert type(small) is type(tokenizer) and made["texts"]["changed"] == 0
    assert small.tokenize("abc")[-1] == tokenizer.tokenize("abc")[-1] == "abc" or family == "qwen2"
    assert "zz" not in small.get_vocab()
    both = [folder_logits(path, [(LINES[0], LINES[4])]) for path in (made["folder"], folder)]
    np.testing.assert_allclose(*both, atol=1e-6)


# The texts of a file.


def titles(path: Path, rejects: Path | None = None, **options: object) -> list[str]:
    return [title for _, title in read_texts(path, ReaderOptions(**options), rejects)[0]]


@pytest.mark.parametrize(
    ("suffix", "packed"), [(".txt", bytes), (".txt.gz", gzip.compress), (".txt.xz", lzma.compress)]
)
def test_one_text_a_line_as_query_and_as_title(tmp_path, suffix, packed):
    path = tmp_path / f"texts{suffix}"
    path.write_bytes(packed("狗追猫\r\n\n 猫 \n狗\t猫\n".encode("gb18030")))
    expected = [(text, text) for text in ("狗追猫", " 猫 ", "狗\t猫")]
    assert read_texts(path, ReaderOptions()) == (expected, 0)


def test_query_and_title_of_a_file_of_pairs(pair_file, tmp_path):
    assert titles(pair_file)[:2] == ["衣服沾了油怎么洗掉", "红烧排骨的家常做法"]
    path = tmp_path / "p.jsonl"
    path.write_text('{"q": "狗", "name": "猫"}\n', encoding="utf-8")
    assert read_texts(path, ReaderOptions(columns="query=q,title=name")) == ([("狗", "猫")], 0)


def test_a_text_file_of_pairs_is_known_by_its_tabs_or_its_options(pair_file, tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_bytes(pair_file.read_bytes())
    assert titles(path) == titles(pair_file)
    path.write_text("猫\n", encoding="utf-8")
    with pytest.raises(errors.PairFileError, match="no column"):
        titles(path, no_header=True)


def test_lines_without_a_text_are_counted_and_listed(tmp_path):
    path, rejects = tmp_path / "texts.txt", tmp_path / "rejects.tsv"
    path.write_bytes("狗\n  \n猫\0\n".encode() + b"\xff\xff\n" + "苹果\n".encode())
    pairs, rejected = read_texts(path, ReaderOptions(), rejects)
    assert ([title for _, title in pairs], rejected) == (["狗", "苹果"], 3)
    rows = [line.split("\t")[:2] for line in rejects.read_text(encoding="utf-8").splitlines()[1:]]
    assert rows == [["2", "empty query"], ["3", "NUL character"], ["4", "undecodable bytes"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the file has no rows"),
        (b" \n \n", "not one of 2 rows is a pair"),
        ("狗\n".encode() + b" \n" * 11, "11 of the first 12 rows"),
        (b"PK\x03\x04", "zip archive"),
    ],
)
def test_a_file_without_texts(tmp_path, content, message):
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    with pytest.raises(errors.PairFileError, match=message):
        titles(path)
