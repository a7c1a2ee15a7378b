"""A checkpoint whose tokenizer reads full-width letters and traditional characters as it reads others.

python -m experiments.normalisation.run --model MODEL --out OUT
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Container, Mapping
from pathlib import Path

import opencc
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, normalizers

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.errors import CheckpointError
from qt_bert.files import atomic_folder, read_json, write_json
from qt_bert.models.checkpoint import check_place
from qt_bert.models.folder import MANIFEST, verify_folder, write_manifest

_HAN = range(0x4E00, 0xA000)
_FULL_WIDTH = range(0xFF01, 0xFF5F)
_TO_ASCII = 0xFEE0

_BOTH = frozenset("乾徵")
"""Characters of simplified texts too (乾隆, 宫商角徵羽), where they have no other simplified form."""


def replacements(vocabulary: Container[str]) -> dict[str, str]:
    """Character → the one that is read for it: OpenCC's simplified one, or ASCII for a full-width one.

    Where the vocabulary has a full-width sign (，？！), it stays: such signs are Chinese punctuation.
    """
    simplified = opencc.OpenCC("t2s")
    found = {}
    for character in map(chr, _HAN):
        plain = simplified.convert(character)
        if plain != character and plain in vocabulary and character not in _BOTH:
            found[character] = plain
    for number in _FULL_WIDTH:
        if chr(number) not in vocabulary:
            found[chr(number)] = chr(number - _TO_ASCII)
    return found


def charsmap(replaced: Mapping[str, str]) -> bytes:
    """The map in the form that `tokenizers` looks up in one pass: SentencePiece compiles it."""
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rules.write_text("".join(f"{ord(a):X}\t{ord(b):X}\n" for a, b in replaced.items()))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]),  # it compiles while it trains
            model_writer=model,
            model_type="char",
            vocab_size=8,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(rules),
            minloglevel=2,
        )
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # made at import
    proto.ParseFromString(model.getvalue())
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def normalised(model: Path, out: Path) -> int:
    """Copy the checkpoint `model` to `out` with such a tokenizer; returns how many characters it maps.

    Places of tokens stay those of the text as it was given, for a character is read as one
    character. Raises CheckpointError for no checkpoint, and where the tokenizer has a map already;
    RunFolderError where `out` holds anything.
    """
    verify_folder(model)
    check_place(out, overwrite=False)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    if not isinstance(tokenizer.normalizer, normalizers.BertNormalizer):
        raise CheckpointError(f"{model / 'tokenizer.json'}: its normaliser is not BERT's own alone")
    replaced = replacements(tokenizer.get_vocab())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(charsmap(replaced)), tokenizer.normalizer]
    )
    # BertTokenizer would put BERT's own normaliser back; the plain class needs BERT's input names.
    settings = read_json(model / "tokenizer_config.json") | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    with atomic_folder(out) as folder:
        for file in model.iterdir():
            if file.is_file() and file.name != MANIFEST:
                shutil.copy(file, folder / file.name)
        tokenizer.save(str(folder / "tokenizer.json"))
        write_json(folder / "tokenizer_config.json", settings)
        write_manifest(folder)
    return len(replaced)


def main(arguments: list[str] | None = None) -> None:
    """Write the copy; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    with one_line_faults():
        number = normalised(options.model, options.out)
    print(f"{number:,} characters are read as others: {options.out}")


if __name__ == "__main__":
    main()
