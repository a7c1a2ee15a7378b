from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.data.tokenise import QUERY, EncodedPair, PairTokenizer
from qt_bert.errors import CheckpointError
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import (
    LEAST_CHANGE,
    LEAST_TELLING,
    FilledTerm,
    Filler,
    Side,
    effects_of,
    explain_pair,
    fill,
    filled_terms,
    filler_of,
)
from qt_bert.scoring.judge import read_outputs

PAIR = ("京东小哥", "京东小哥，最近在干嘛")


def test_changes_by_hand(checkpoint_of):
    texts: tuple[Side, ...] = ("query", "title", "title", "title")
    empty = EncodedPair([], [], [], [], False, False)
    filled = [FilledTerm(side, n, n + 1, "词", empty) for n, side in enumerate(texts)]
    moves = (-1.5, 0.0, 1.5, -LEAST_CHANGE / 2)
    result = effects_of(filled, np.array([2.0, *(2 + move for move in moves)]))
    assert [term.change for term in result] == pytest.approx(list(moves))
    assert [term.score for term in result] == pytest.approx([0.5, 2.0, 3.5, 2 - LEAST_CHANGE / 2])
    assert [term.moved for term in result] == [True, False, True, False]
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    whole = replace(explain_pair(*PAIR, scorer, segmenter("jieba")), terms=result)
    assert whole.most_telling is result[0]  # the first of equals
    small = [replace(term, change=LEAST_TELLING / 2) for term in result]
    assert replace(whole, terms=small).most_telling is None


def test_all_tokens_of_a_term_are_filled_and_no_other():
    ids, sides = [101, 7, 8, 102, 7, 9, 102], [-1, 0, 0, -1, 1, 1, -1]
    spans = [(0, 0), (0, 1), (1, 3), (0, 0), (0, 2), (2, 3), (0, 0)]
    whole = EncodedPair(list(ids), [0] * 7, sides, spans, False, False)
    filler = Filler("[MASK]", 103)
    assert fill(whole, "query", 1, 2, filler).input_ids == [101, 7, 103, 102, 7, 9, 102]
    assert fill(whole, "title", 1, 3, filler).input_ids == [101, 7, 8, 102, 103, 103, 102]
    assert fill(whole, "title", 3, 5, filler) is None  # cut off with the end of the text
    assert whole.input_ids == ids


@pytest.mark.parametrize(
    ("text", "words", "tokens", "terms"),
    [
        # A token over the edge of two words; over a space and a mark; over three words.
        ("abcdef", "ab cd ef", "a bc d ef", ["abcd", "ef"]),
        ("ab, cd e", "ab ,_ cd _ e", "ab,_cd _e", ["ab, cd", "e"]),
        ("abcdef", "ab cd ef", "abcdef", ["abcdef"]),
        # Two edges in a row; no word shares a token; the last word was cut off.
        ("abcdef", "ab cd ef", "a bc de f", ["abcdef"]),
        ("abcdef", "ab cd ef", "a b cd ef", ["ab", "cd", "ef"]),
        ("abcdef", "ab cd ef", "ab c", ["ab", "cd"]),
    ],
)
def test_words_that_share_a_token_are_one_term(text, words, tokens, terms):
    def spans(pieces):
        ends = np.cumsum([len(piece) for piece in pieces.split()]).tolist()
        return list(zip([0, *ends], ends, strict=False))

    of, cut = spans(tokens), Segmenter("by hand", lambda _: spans(words))
    n = len(of)
    whole = EncodedPair(list(range(n)), [0] * n, [QUERY] * n, of, False, False)
    result = filled_terms(text, "", whole, cut, Filler("[MASK]", 99))
    assert [term.term for term in result if term.side == "query"] == terms
    filled = [{at for at, id in enumerate(term.encoded.input_ids) if id == 99} for term in result]
    assert sum(map(len, filled)) == len(set().union(*filled))


def test_words_within_words_stay_where_tokens_tell_them_apart():
    whole = EncodedPair([1, 2], [0, 0], [QUERY] * 2, [(0, 2), (2, 4)], False, False)
    cut = Segmenter("search", lambda _: [(0, 2), (0, 4), (1, 4), (2, 4)])
    result = filled_terms("abcd", "", whole, cut, Filler("[MASK]", 99))
    assert [term.term for term in result if term.side == "query"] == ["ab", "abcd", "cd"]


def test_a_tokenizer_that_folds_width_gives_each_word_once():
    """Word-level tokens of NFKC text, as some search models have them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    names = ["[UNK]", "iphone15", "cafe", "5kg", "大米"]
    backend = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PairTokenizer(backend, 32)
    query, title = "ｉＰｈｏｎｅ１５ Café", "５㎏ 大米 红烧排骨的做法"
    (whole,) = tokenizer.encode([(query, title)])
    result = filled_terms(query, title, whole, segmenter("jieba"), Filler("[UNK]", 0))
    terms = ["ｉＰｈｏｎｅ１５", "Café", "５㎏", "大米", "红烧排骨的做法"]
    assert [term.term for term in result] == terms


def test_a_checkpoint_reads_fillers_in_the_term_s_place(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    result = explain_pair(*PAIR, scorer, segmenter("jieba"))
    assert result.filler == "[MASK]" and scorer.counts.pairs == 1
    mask, labels = scorer.checkpoint.tokenizer.mask_token_id, scorer.checkpoint.settings.labels
    for term in result.terms:
        text = result.query if term.side == "query" else result.title
        assert text[term.start : term.end] == term.term
        (whole,) = scorer.tokenizer.encode([PAIR])
        first = 1 if term.side == "query" else 2 + len(result.query)  # a character is a token
        ids = list(whole.input_ids)
        ids[first + term.start : first + term.end] = [mask] * len(term.term)
        alone = read_outputs(scorer.logits_of([replace(whole, input_ids=ids)]), labels)
        assert term.score == pytest.approx(float(alone.expected[0]), abs=1e-5)
        assert term.change == pytest.approx(term.score - result.score, abs=1e-5)
    assert "，" not in [term.term for term in result.terms]
    assert [term.term for term in result.terms if term.side == "query"]


def test_a_text_of_one_term_is_filled_too(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of("electra", labels=1)))
    result = explain_pair("狗", "狗追猫", scorer, segmenter("jieba"))
    assert [term.term for term in result.terms if term.side == "query"] == ["狗"]
    largest = max(result.terms, key=lambda term: abs(term.change))
    assert result.most_telling == (largest if abs(largest.change) >= LEAST_TELLING else None)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_terms_beyond_the_cut_are_left_out(checkpoint_of, family):
    scorer = Scorer(open_checkpoint(checkpoint_of(family)), max_length=16)
    title = "最近在干嘛" * 10
    (whole,) = scorer.tokenizer.encode([("京东", title)])
    filler = filler_of(scorer.checkpoint)
    assert filler.token == ("[MASK]" if family == "bert" else "<mask>")
    result = filled_terms("京东", title, whole, segmenter("jieba"), filler)
    assert {term.side for term in result} == {"query", "title"}
    assert max(term.start for term in result) < max(end for _, end in whole.spans)
    assert all(filler.id in term.encoded.input_ids for term in result)


def test_the_filler_depends_on_the_tokenizer():
    class Tokens(SimpleNamespace):
        """A tokenizer of single tokens; `blank` are the ids of `_`."""

        blank = (7, 8)

        def convert_tokens_to_ids(self, token):
            return {"[MASK]": 4, "[UNK]": 1}[token]

        def __call__(self, text, add_special_tokens):
            assert (text, add_special_tokens) == ("_", False)
            return {"input_ids": self.blank}

    def of(pad=0, **tokens):
        return SimpleNamespace(tokenizer=Tokens(**tokens), folder="m", pad=pad)

    both = {"mask_token": "[MASK]", "unk_token": "[UNK]"}
    assert filler_of(of(**both)) == ("[MASK]", 4)
    assert filler_of(of(unk_token="[UNK]")) == ("[UNK]", 1)
    assert filler_of(of(pad=1, unk_token="[UNK]", blank=(7,))) == ("_", 7)
    with pytest.raises(CheckpointError, match="neither a mask nor an unknown token"):
        filler_of(of())
