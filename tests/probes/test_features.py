"""Attention to kinds of tokens: planted heads, numbers by hand, the whole probe, odd inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.checkpoint import smaller_checkpoint
from qt_bert.encoder.heads import Head, Shape
from qt_bert.errors import CheckpointError, PairFileError
from qt_bert.pairs import Pair
from qt_bert.pairs.tagging import Tagged, jieba_tagger
from qt_bert.pairs.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.pairs.treebank import Sentence, Word
from qt_bert.planning.saving import save_smaller
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.features import PROBE
from qt_bert.probes.linguistic import measures
from qt_bert.probes.linguistic.claims import rival
from qt_bert.probes.linguistic.kinds import KINDS, Labelled, by_people, by_tags, of_tokens, place_of
from qt_bert.probes.linguistic.looking import Looking, look
from qt_bert.probes.linguistic.study import by_lift, named
from qt_bert.probes.linguistic.texts import Read
from qt_bert.probes.probe import run_probe
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results import Bars, Finding, HeatMap, ProbeResult
from qt_bert.results.kept import KeptLayer
from tests.probes.planted_kinds import SHAPE, opened, plant

Build = Callable[..., Path]
NOUNS = "狗猫"
NOUN_HEAD, SEP_HEAD, LAST_SEP = Head(0, 1), Head(2, 2), Head(2, 3)
WORDS = ("北京", "上海", "高铁", "票价", "手机", "苹果", "电影", "假期", "排骨", "衣服")


def tag_dogs(text: str) -> list[Tagged]:
    """狗 and 猫 are nouns, 追 is a verb; nothing else has a tag."""
    tags = {"狗": "n", "猫": "n", "追": "v"}
    return [Tagged((i, i + 1), tags.get(c, "x")) for i, c in enumerate(text)]


def read(query: str, title: str) -> Read:
    return Read(query, (by_tags(query, tag_dogs), by_tags(title, tag_dogs)))


def columns(labelled: Labelled, kind: str) -> list[float]:
    return labelled.kinds[:, place_of(kind)].tolist()


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("planted") / "kinds"
    jobs = {tuple(NOUN_HEAD): NOUNS, tuple(SEP_HEAD): "[SEP]", tuple(LAST_SEP): "[SEP]"}
    return plant(checkpoint_of(**SHAPE), out, jobs)


@pytest.fixture(scope="module")
def even(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant(checkpoint_of(**SHAPE), tmp_path_factory.mktemp("planted") / "even", {})


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., ProbeContext]:
    def build(model: Path, pairs: list[Pair] | None = None, **facts: Any) -> ProbeContext:
        split = Split(pairs[::2], pairs[1::2], 0) if pairs else None
        return ProbeContext(
            label="features",
            files=PairFiles(pairs=pair_file),
            read_pairs=(lambda labels: split) if split else None,
            work=tmp_path / "sweeps" / "features",
            open_model=lambda: opened(model),
            **{"resamples": 200, **facts},
        )

    return build


def made_pairs() -> list[Pair]:
    """Forty pairs of as many queries."""
    return [
        Pair(
            f"{WORDS[i % 10]}{WORDS[i // 10]}",
            f"{WORDS[(i + 3) % 10]}，我去",
            (4,),
            str(i),
            i,
            "4",
            {},
        )
        for i in range(40)
    ]


def by_id(result: ProbeResult) -> dict[str, Finding]:
    return {finding.id: finding for finding in result.findings}


def test_kinds_of_characters_by_jiebas_tags() -> None:
    text = "我不想去北京，35"
    found = by_tags(text, jieba_tagger())
    assert columns(found, "pronoun") == [1, 0, 0, 0, 0, 0, 0, 0, 0]
    assert columns(found, "negation") == [0, 1, 1, 0, 0, 0, 0, 0, 0]
    assert columns(found, "noun") == [0, 0, 0, 0, 1, 1, 0, 0, 0]
    assert columns(found, "punctuation") == [0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert columns(found, "number") == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert columns(found, "tuned") == [0, 1, 1, 0, 1, 1, 0, 0, 0]
    assert columns(found, "subject") == [0] * 9
    assert (found.kinds.max(axis=1) == 1).all()  # every character is of some kind


def test_kinds_of_a_treebanks_words() -> None:
    words = (
        Word("狗", "NOUN", 1, "nsubj:pass"),
        Word("没有", "VERB", -1, "root"),
        Word("猫", "PROPN", 1, "obj"),
        Word("。", "PUNCT", 1, "punct"),
    )
    found = by_people(Sentence("s", words))
    assert columns(found, "subject") == [1, 0, 0, 0, 0]
    assert columns(found, "object") == [0, 0, 0, 1, 0]
    assert columns(found, "negation") == [0, 1, 1, 0, 0]
    assert columns(found, "noun") == [1, 0, 0, 1, 0]
    assert columns(found, "tuned") == [1, 1, 1, 1, 0]


def test_without_parts_of_speech_what_needs_them_is_not_known() -> None:
    words = (Word("狗", None, 1, "nsubj"), Word("叫", None, -1, None))
    found = by_people(Sentence("s", words))
    assert columns(found, "subject") == [1, 0]
    assert columns(found, "tuned") == columns(found, "other") == columns(found, "noun") == [0, 0]


def test_a_token_of_several_words_is_of_each_by_its_characters() -> None:
    query = Labelled("abcd", np.zeros((4, len(KINDS))))
    query.kinds[:1, place_of("noun")] = 1
    # [CLS] abcd [SEP] 狗 [SEP]
    encoded = EncodedPair(
        [0, 1, 2, 3, 2],
        [0, 0, 0, 1, 1],
        [SPECIAL, QUERY, SPECIAL, TITLE, SPECIAL],
        [(0, 0), (0, 4), (0, 0), (0, 1), (0, 0)],
        False,
        False,
    )
    found = of_tokens(encoded, query, by_tags("狗", tag_dogs))
    assert found[:, place_of("noun")].tolist() == [0, 0.25, 0, 1, 0]
    assert found[:, place_of("cls")].tolist() == [1, 0, 0, 0, 0]
    assert found[:, place_of("sep")].tolist() == [0, 0, 1, 0, 1]


def test_planted_attention_has_its_lift_by_hand(planted: Path) -> None:
    # [CLS] 狗 追 猫 [SEP] 猫 [SEP]: three of seven tokens are nouns, two are [SEP].
    found = look(opened(planted), None, [read("狗追猫", "猫")])
    assert found.rate("noun")[0] == pytest.approx(3 / 7)
    assert found.rate("sep")[0] == pytest.approx(2 / 7)
    nouns, seps = found.lift("noun"), found.lift("sep")
    assert nouns[NOUN_HEAD] == pytest.approx(7 / 3, abs=1e-4)
    assert seps[NOUN_HEAD] == pytest.approx(0, abs=1e-4)
    assert seps[SEP_HEAD] == pytest.approx(7 / 2, abs=1e-4)
    assert nouns[0, 0] == pytest.approx(1, abs=1e-5)  # attends evenly
    assert found.of("noun", measure="peak")[0, 0, 1] == pytest.approx(1 / 3, abs=1e-4)
    assert found.of("sep", measure="cls_peak")[0, 2, 2] == pytest.approx(1 / 2, abs=1e-4)
    assert found.of("noun", measure="cls_share")[0, 0, 1] == pytest.approx(1, abs=1e-4)


def test_a_kind_that_is_not_there_is_left_out(planted: Path) -> None:
    reads = [read("狗追猫", "猫"), read("追追", "追")]
    found = look(opened(planted), None, reads)
    assert np.isnan(found.of("noun")[1]).all() and np.isnan(found.rate("noun")[1])
    assert found.lift("noun")[NOUN_HEAD] == pytest.approx(7 / 3, abs=1e-4)
    assert not found.has("number") and found.has("verb")


def test_padding_takes_no_part(planted: Path) -> None:
    alone = look(opened(planted), None, [read("狗追猫", "猫")])
    reads = [read("狗追猫", "猫"), read("狗追猫狗追猫狗追", "猫追狗猫追狗")]
    together = look(opened(planted), None, reads)
    np.testing.assert_allclose(together.after[0], alone.after[0], atol=1e-5)


def test_exactly_the_planted_heads_are_named(planted: Path) -> None:
    reads = [
        read(f"{c}狗追{c}{c}", f"猫{d}{d}{d}")
        for c, d in zip("铁票价时刻表", "查询怎么去除", strict=True)
    ]
    found = look(opened(planted), None, reads)
    heads = named(found, ("noun", "verb", "number"))
    assert heads["noun"].heads() == [NOUN_HEAD]
    assert heads["verb"].heads() == []
    assert "number" not in heads  # not in these texts
    assert by_lift(found, "noun")(np.ones(6))[0] == NOUN_HEAD


def looking(after: np.ndarray, before: np.ndarray | None = None) -> Looking:
    """One layer a row, one head; shares of [CLS], [SEP] and punctuation by hand."""

    def spread(shares: np.ndarray) -> np.ndarray:
        found = np.full((*shares.shape[:3], len(KINDS), 4), np.nan)
        for place, kind in enumerate(("cls", "sep", "punctuation", "tuned")):
            found[..., place_of(kind), :] = shares[..., place, None]
        return found

    reads = len(after)
    rates = np.full((reads, len(KINDS)), 0.25)
    queries = [str(i) for i in range(reads)]
    return Looking(queries, rates, spread(after), None if before is None else spread(before))


def test_heads_over_half_by_hand() -> None:
    shares = np.zeros((4, 2, 1, 4))
    shares[:, 0, 0, :3] = 0.3, 0.2, 0.1
    shares[:, 1, 0, :3] = 0.1, 0.2, 0.1
    seen = looking(shares)
    value, samples = measures.empty_share(seen, Shape(2, 1), 20, 0)
    assert value == 0.5 and set(samples) == {0.5}
    assert measures.empty_heads(seen, Shape(2, 1)) == [Head(0, 0)]


def test_what_tuning_added_counts_the_heads_that_gained() -> None:
    before, after = np.zeros((3, 2, 1, 4)), np.zeros((3, 2, 1, 4))
    after[:, 0, 0, 3], after[:, 1, 0, 3] = 0.2, -0.1
    seen = looking(after, before)
    heads = measures.gaining(seen, "tuned", Shape(2, 1))
    assert heads.tolist() == [[True], [False]]
    np.testing.assert_allclose(measures.gained(seen, "tuned", heads), 0.1)


@pytest.mark.parametrize(
    ("layers", "first", "last"), [(2, [0], [1]), (4, [0], [3]), (6, [0, 1], [4, 5])]
)
def test_thirds_of_the_layers(layers: int, first: list[int], last: list[int]) -> None:
    ends = measures.thirds(layers)
    assert ends is not None
    assert [list(range(layers))[one] for one in ends] == [first, last]


def test_one_layer_has_no_order() -> None:
    assert measures.thirds(1) is None


def test_the_probe_tells_what_was_planted(
    planted: Path, even: Path, context: Callable[..., ProbeContext]
) -> None:
    result = run_probe(PROBE, context(planted, made_pairs(), base=even))
    found = by_id(result)
    assert found["sep_late"].verdict == "reproduced"  # two of the last layer's heads look at [SEP]
    assert found["cls_early"].verdict == "reproduced"  # and so give [CLS] nothing
    assert found["cls_looks_at_sep"].verdict == "reproduced"
    assert found["heads_over_half"].value == pytest.approx(100 * 2 / 12)
    assert found["heads_over_half"].verdict == "not reproduced"
    assert set(result.sets["over_half"]) == {str(SEP_HEAD), str(LAST_SEP)}
    assert found["added_is_little_pairs"].verdict == "reproduced"
    assert found["sep_late_before"].verdict is None
    assert found["sep_late_before"].value == pytest.approx(0, abs=1e-3)
    assert result.settings["treebank"]["en"].startswith("No treebank")
    assert not [name for name in found if "treebank" in name]
    shares = next(f for f in result.figures if f.name == "shares_pairs")
    assert isinstance(shares, Bars) and len(shares.series) == 3


def test_without_a_base_nothing_is_said_of_tuning(
    planted: Path, context: Callable[..., ProbeContext]
) -> None:
    result = run_probe(PROBE, context(planted, made_pairs()))
    assert not [one for one in by_id(result) if "added" in one or "before" in one]
    assert "--base" in result.summary.en
    assert not [figure for figure in result.figures if figure.name.startswith("change")]


def treebank(path: Path, sentences: int) -> Path:
    """Sentences of three words, no two alike: subject, verb, object."""
    rows = []
    for i in range(sentences):
        first, last = WORDS[i % 10], WORDS[(i // 10 + 1) % 10] + "猫" * (i % 3)
        cells = [(first, "NOUN", 2, "nsubj"), ("追", "VERB", 0, "root"), (last, "NOUN", 2, "obj")]
        rows += [
            f"{k}\t{form}\t_\t{upos}\t_\t_\t{head}\t{label}\t_\t_"
            for k, (form, upos, head, label) in enumerate(cells, start=1)
        ]
        rows.append("")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_a_treebank_adds_subjects_and_objects(
    planted: Path, even: Path, context: Callable[..., ProbeContext], tmp_path: Path
) -> None:
    path = treebank(tmp_path / "made.conllu", 60)
    result = run_probe(PROBE, context(planted, made_pairs(), base=even, treebanks=(path,)))
    assert by_id(result)["added_is_little_treebank"].primary
    assert result.settings["treebank"] == ["made.conllu"]
    lift = next(f for f in result.figures if f.name == "lift_treebank")
    assert isinstance(lift, HeatMap)
    assert {"主语", "宾语"} <= {getattr(c, "zh", c) for c in lift.columns}
    stored = ProbeResult.read(_written(result, tmp_path))
    assert stored.sets == result.sets


def _written(result: ProbeResult, folder: Path) -> Path:
    result.write(folder / "features.json")
    return folder / "features.json"


def test_too_small_a_treebank_is_refused(
    planted: Path, context: Callable[..., ProbeContext], tmp_path: Path
) -> None:
    path = treebank(tmp_path / "small.conllu", 2)
    with pytest.raises(PairFileError, match=r"small\.conllu.*larger treebank"):
        run_probe(PROBE, context(planted, made_pairs(), treebanks=(path,)))


def test_a_base_of_another_shape_is_refused(
    planted: Path, checkpoint_of: Build, context: Callable[..., ProbeContext]
) -> None:
    with pytest.raises(CheckpointError, match="--base"):
        run_probe(PROBE, context(planted, made_pairs(), base=checkpoint_of(layers=1)))


def test_pruned_heads_take_no_part(
    checkpoint_of: Build, context: Callable[..., ProbeContext], tmp_path: Path
) -> None:
    teacher = open_checkpoint(checkpoint_of(layers=3, heads=4, hidden=32))
    kept = tuple(KeptLayer(layer=n, heads=heads) for n, heads in enumerate([(1, 3), (), (0,)]))
    folder = save_smaller(tmp_path / "small", smaller_checkpoint(teacher, kept))
    result = run_probe(PROBE, context(folder, made_pairs()))
    assert [one.head for one in result.heads] == ["L0H1", "L0H3", "L2H0"]
    (drawn,) = (one for one in result.figures if one.name == "heads_sep")
    assert isinstance(drawn, HeatMap) and drawn.values[1] == (None,) * 4
    (layers,) = (one for one in result.figures if one.name == "lift_pairs")
    assert isinstance(layers, HeatMap) and set(layers.values[1]) == {None}


@pytest.mark.parametrize(
    ("family", "labels", "layers"), [("bert", 3, 1), ("xlm-roberta", 1, 2), ("electra", 5, 2)]
)
def test_any_model_any_file(
    checkpoint_of: Build,
    context: Callable[..., ProbeContext],
    tmp_path: Path,
    family: str,
    labels: int,
    layers: int,
) -> None:
    result = run_probe(PROBE, context(checkpoint_of(family, labels=labels, layers=layers)))
    found = by_id(result)
    assert ("sep_late" in found) == (layers > 1)
    assert {"heads_over_half", "cls_looks_at_sep"} <= found.keys()
    assert ProbeResult.read(_written(result, tmp_path)).summary == result.summary


def test_the_rival_is_the_kind_that_leads_besides_sep(planted: Path) -> None:
    found = look(opened(planted), None, [read("狗追猫", "猫")])
    assert (
        rival(found) == "cls"
    )  # the last layer looks at all but [SEP] alike; the first kind stands
