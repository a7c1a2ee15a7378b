"""Word boundaries: a planted head, random ones; and the probe's parts against brute force and by hand."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.segmenters import Segmenter
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import PairFileError
from qt_bert.heads import Head
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes.boundary import (
    GOLD,
    UNION_SHIFTS,
    CalibratedHeads,
    HeadEvaluation,
    LabelledHalves,
    calibrate,
    counts_by_query,
    granularity,
    head_union,
    metric,
    predict_by_character,
    shifted_labels,
)
from qt_bert.probes.boundary_decisions import (
    CharacterAttention,
    Decisions,
    PairText,
    attention_of,
    decisions_of,
    gold_texts,
)
from qt_bert.probes.naming import Named
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes.pieces import byte_level, metaspace, with_template
from tests.probes.planted_boundary import (
    ENDS,
    HAN,
    PLANTED,
    made,
    plant_word_ends,
    spans_of,
    words_of,
    write_pairs,
)
from tests.probes.planted_tuning import tuned_again, untrained
from tests.probes.probe_results import claim, result_of, values

RNG = np.random.default_rng(7)
Run = Callable[..., ProbeResult]


@pytest.fixture
def made_pairs(tmp_path) -> Path:
    """Pairs of characters in random order, of a hundred queries."""
    return write_pairs(tmp_path / "pairs.tsv", queries=100, titles=1)


@pytest.fixture
def run(context_of) -> Run:
    """Run the probe on a folder and pairs; `cut` stands in for jieba, by default the table."""

    def call(model, pairs, *, cut=spans_of, discovery=None, max_length=None, **options):
        context = context_of(
            model,
            pairs=pairs,
            discovery=discovery,
            open_model=lambda: Scorer(open_checkpoint(model), max_length=max_length),
            **options,
        )
        if cut is not None:
            context.segmenter = Segmenter("jieba", cut)
        return result_of("boundary", context)

    return call


@pytest.fixture(scope="module")
def planted(tmp_path_factory, checkpoint_of) -> Path:
    return plant_word_ends(tmp_path_factory.mktemp("planted") / "model", ENDS)


def test_the_planted_head_is_named_and_no_other(run, planted, made_pairs, tmp_path):
    """With a base and another seed, which are the same model."""
    second = tuned_again(planted, tmp_path / "second")
    result = run(planted, made_pairs, base=planted, second=second)
    assert result.sets["boundary"] == (PLANTED,)
    assert [one.head for one in result.heads if one.selected] == [PLANTED]
    assert result.facts["rule_head"] == result.facts["head"] == PLANTED
    measures = values(result)
    for name in ("rule_accuracy", "head_accuracy", "head_balanced", "head_word_f1", "union"):
        assert measures[name] == pytest.approx(1.0)
    assert (measures["union_null"] or 1) < 0.9 and measures["granularity_range"] == 0
    (table,) = result.tables
    assert [*table.columns] == ["head", "length", "precise", "search", "full"]
    head, precise, *_ = (row.values for row in table.rows)
    assert head == precise and head[1].value == 1.0  # the planted head cuts as the segmenter
    assert (measures["characters_accuracy"] or 0) > 0.9
    assert 0.4 < (measures["majority_accuracy"] or 0) < 0.7
    assert 0.5 < (measures["random_balanced"] or 0) < 0.8
    assert measures["pretrained_balanced"] == measures["head_balanced"]
    stable = result.stability["boundary"]
    assert (stable.overlap, stable.halves) == (1.0, 1.0)
    assert [(one.source.en, one.overlap) for one in stable.sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]
    # The head predicts as the characters do, and does not differ from them.
    one = claim(result)
    assert (one.verdict, one.reason, one.value) == ("not testable", "zero_width", 0.0)


def test_a_head_that_knows_less_than_the_characters_is_not_beyond_them(
    run, tmp_path, checkpoint_of, made_pairs
):
    """In the table the character alone decides whether a word ends; the head misses some."""
    few = plant_word_ends(tmp_path / "few", set(sorted(ENDS)[6:]))
    one = claim(run(few, made_pairs))
    assert one.verdict == "not reproduced" and one.n_queries >= 40
    assert one.ci_high is not None and one.ci_high < one.margin == 2.0


def test_on_characters_that_were_never_seen_the_head_is_beyond_them(run, planted, tmp_path):
    known = write_pairs(tmp_path / "dev.tsv", queries=40, titles=1, characters=HAN[:24])
    other = write_pairs(tmp_path / "test.tsv", queries=40, titles=1, characters=HAN[24:])
    result = run(planted, other, discovery=known)
    one = claim(result)
    assert one.verdict == "reproduced" and one.ci_low is not None and one.ci_low > 20
    measures = values(result)
    gap = 100 * ((measures["rule_accuracy"] or 0) - (measures["characters_accuracy"] or 0))
    assert one.value == pytest.approx(gap)


def test_a_gold_file_is_a_second_reference(run, planted, made_pairs, tmp_path):
    rng = np.random.default_rng(5)
    lines = [words_of("".join(rng.choice(list(HAN), 12))) for _ in range(30)]
    gold = tmp_path / "gold.txt"
    gold.write_text("".join(" ".join(words) + "\n" for words in lines), encoding="utf-8")
    result = run(planted, made_pairs, gold=gold)
    used = result.settings["gold_texts"]
    assert used["discovery"]["lines"] + used["validation"]["lines"] == 30
    words = sum(map(len, lines))
    assert used["discovery"]["words"] + used["validation"]["words"] == words
    assert {half["decisions"] / half["lines"] for half in used.values()} == {11}
    measures = values(result)
    assert measures["gold_rule_accuracy"] == measures["gold_head_word_f1"] == 1.0
    assert 0.5 < (measures["gold_characters_accuracy"] or 0) <= 1


def test_a_gold_file_of_short_lines_leaves_nothing_to_choose_on(run, planted, made_pairs, tmp_path):
    gold = tmp_path / "gold.txt"
    gold.write_text("".join(f"{a} {b}\n" for a, b in zip(HAN, HAN[1:], strict=False)), "utf-8")
    result = run(planted, made_pairs, gold=gold)
    assert result.settings["gold_texts"]["discovery"]["decisions"] == 0
    assert {values(result)[name] for name in GOLD} == {None}
    assert values(result)["rule_accuracy"] is not None


def test_a_segmenter_whose_words_overlap_is_not_the_reference(run, planted, made_pairs):
    """Its finest reading ends a word wherever any word ends: jieba's partition stands in."""
    overlapping = run(planted, made_pairs, cut=None, segmenter="jieba-search")
    settings = overlapping.settings
    assert (settings["segmenter"], settings["reference"]) == ("jieba-search", "jieba")
    assert values(overlapping) == values(run(planted, made_pairs, cut=None))


def test_too_few_characters_of_their_own_test_nothing(run, planted, made_pairs):
    result = run(planted, made_pairs, max_length=9)
    assert result.facts["coverage"] < 0.5
    assert (claim(result).verdict, claim(result).reason) == ("not testable", "coverage")
    assert values(result)["rule_accuracy"] is not None


def test_a_pruned_head_is_never_the_best(run, tmp_path, checkpoint_of, made_pairs):
    """All that are pruned attend evenly: by the article's rule better than the one left, which inverts it."""
    inverted = plant_word_ends(tmp_path / "teacher", {*HAN} - ENDS)
    kept = KeptLayer(layer=0, heads=()), KeptLayer(layer=1, heads=(Head.parse(PLANTED).head,))
    small = smaller_checkpoint(open_checkpoint(inverted), kept)
    result = run(save_smaller(tmp_path / "small", small), made_pairs)
    assert result.facts["rule_head"] == result.facts["head"] == PLANTED
    assert values(result)["rule_accuracy"] == 0
    (heads,) = (figure for figure in result.figures if figure.name == "heads")
    assert [cell is None for row in heads.values for cell in row] == [True] * 6 + [False, True]


@pytest.mark.slow
def test_random_models_have_no_boundary_heads(tmp_path, run, checkpoint_of, made_pairs):
    naming = 0
    for seed in range(20):
        folder = untrained(checkpoint_of(), tmp_path / f"random{seed}", seed)
        naming += bool(run(folder, made_pairs, cut=None).sets["boundary"])
    assert naming <= 2


# Texts, decisions and their attention.


def test_decisions_are_neighbours_that_are_tokens_of_their_own(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    pair = ("京东小哥ab在干", "京东 小哥")
    texts = [PairText(pair[0], pair, 0, "q"), PairText(pair[1], pair, 1, "q")]
    result = decisions_of(scorer.tokenizer, texts)
    assert result.characters() == list("京东小在京小")
    assert result.place.tolist() == [0, 1, 2, 6, 0, 3]
    assert (result.coverage, result.queries) == (1.0, ("q",))
    longer = decisions_of(scorer.tokenizer, texts, least=4)
    assert (len(longer), len(longer.texts), longer.coverage) == (4, 1, 1.0)


def test_decisions_stand_where_tokens_part_whole_characters():
    """北京|站 and 站|到 are decisions; 北京 within a token and 到驿, 驿站 beside a cut character are not."""
    tokenizer = byte_level(("北京", 6), ("站", 3), ("到", 3), ("驿", 2))
    pair = "北京站到驿站", "站"
    texts = [PairText(pair[0], pair, 0, "q")]
    result = decisions_of(PairTokenizer(tokenizer, 64), texts)
    # [CLS] 北京 站 到 驿 驿 站 [SEP] 站 [SEP]
    assert (result.place.tolist(), result.token.tolist()) == ([1, 2], [1, 2])
    assert result.characters() == ["京", "站"] and result.coverage == pytest.approx(2 / 5)
    assert result.labels(lambda text: {3, 6}).tolist() == [False, True]
    glued = PairTokenizer(metaspace("▁北", "京站"), 64)
    result = decisions_of(glued, [PairText("北京站", ("北京站", "站"), 0, "q")])
    assert (result.place.tolist(), result.token.tolist(), result.coverage) == ([0], [1], 0.5)


@pytest.mark.parametrize(("family", "reason"), [("qwen3", "one_sided"), ("bert", "no_separator")])
def test_a_model_without_the_rule_has_a_reason(
    run, checkpoint_of, tmp_path, made_pairs, family, reason
):
    folder = checkpoint_of(family)
    if family == "bert":
        folder = with_template(folder, "[CLS] $A $B", tmp_path / "model")
    result = run(folder, made_pairs, cut=None)
    assert (claim(result).verdict, claim(result).reason) == ("not testable", reason)
    assert not result.measurements


def test_a_cut_text_is_covered_in_part(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()), max_length=10)
    pair = ("京东小哥", "京东小哥京东小哥")
    result = decisions_of(scorer.tokenizer, [PairText(pair[1], pair, 1, "q")])
    assert len(result) == 2 and result.coverage == pytest.approx(2 / 7)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_weights_are_those_of_the_hugging_face_model(checkpoint_of, family):
    import torch

    scorer = Scorer(open_checkpoint(checkpoint_of(family)))
    pairs = [("京东小哥", "京东小哥最近在干嘛"), ("狗追猫", "猫追狗")]
    texts = [PairText(pair[side], pair, side, pair[0]) for pair in pairs for side in (0, 1)]
    decisions = decisions_of(scorer.tokenizer, texts)
    weights = attention_of(scorer, decisions)
    weight_on_text = np.zeros_like(weights.weight_on_text)
    for d, (row, side, token) in enumerate(
        zip(decisions.pair, decisions.side, decisions.token, strict=True)
    ):
        encoded = scorer.tokenizer.encode([decisions.pairs[row]])[0]
        with torch.no_grad():
            maps = scorer.checkpoint.model(
                input_ids=torch.tensor([encoded.input_ids]),
                token_type_ids=torch.tensor([encoded.token_type_ids]),
                output_attentions=True,
            ).attentions
        for layer, one in enumerate(maps):
            seen = one[0, :, token].numpy()
            assert weights.next[layer, :, d] == pytest.approx(seen[:, token + 1], abs=1e-6)
            assert weights.sep[layer, :, d] == pytest.approx(
                seen[:, encoded.separators].sum(1), abs=1e-6
            )
            weight_on_text[layer] += seen[:, np.array(encoded.side) == side].sum(1) / len(decisions)
    assert weights.weight_on_text == pytest.approx(weight_on_text, abs=1e-6)
    assert (weights.rule() == (weights.sep > weights.next)).all()


@pytest.mark.parametrize(
    ("most", "segments"),
    [
        (20, ["今天天气好，我们出去玩。"]),
        (6, ["今天天气好，", "我们出去玩。"]),
        (4, ["今天天气", "好，我们", "出去玩。"]),
    ],
)
def test_long_lines_are_split_behind_punctuation_then_behind_words(tmp_path, most, segments):
    path = tmp_path / "gold.txt"
    path.write_text("今天 天气 好 ， 我们 出去 玩 。\n一二三四五六七\n", encoding="utf-8")
    texts, ends = gold_texts(path, most)
    assert [one.text for one in texts] == [*segments, "一二三四五六七"]
    assert ends("一二三四五六七") == {7}
    line = "今天天气好，我们出去玩。"
    assert [text.query for text in texts] == [*[line] * len(segments), "一二三四五六七"]


def test_a_gold_file_gives_each_segment_the_next_as_title(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("扬帆 远东\n做 与 中国\n扬帆 远东\n", encoding="utf-8")
    texts, ends = gold_texts(path, 30)
    assert [one.pair for one in texts] == [("扬帆远东", "做与中国"), ("做与中国", "扬帆远东")]
    assert ends("做与中国") == {1, 2, 4}
    path.write_text("扬帆 远东\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="two different lines"):
        gold_texts(path, 30)


def segments_of(cuts: np.ndarray) -> set[tuple[int, int]]:
    """The words of one run by its cuts."""
    edges = [0, *(np.flatnonzero(cuts) + 1).tolist(), len(cuts) + 1]
    return set(pairwise(edges))


def runs_of(decisions: Decisions) -> list[np.ndarray]:
    """The decisions of each run of neighbours."""
    same = (np.diff(decisions.text) == 0) & (np.diff(decisions.place) == 1)
    return np.split(np.arange(len(decisions)), np.flatnonzero(~same) + 1)


@pytest.mark.parametrize("gap", [False, True])
def test_measures_against_counting_by_hand(gap):
    decisions = made([5, 3, 1, 7], queries=[0, 0, 1, 2])
    if gap:  # a Latin letter stands behind the second decision of the last text
        place = decisions.place.copy()
        place[11:] += 2
        decisions = replace(decisions, place=place)
    predicted, labels = RNG.random((2, len(decisions))) < 0.5
    counts = counts_by_query(predicted, labels, decisions)
    assert counts.shape == (3, 7)
    total = counts.sum(0)
    assert metric("accuracy", total) == pytest.approx((predicted == labels).mean())
    balanced = (predicted[labels].mean() + (~predicted[~labels]).mean()) / 2
    assert metric("balanced", total) == pytest.approx(balanced)
    runs = runs_of(decisions)
    assert len(runs) == 4 + gap
    words = [[segments_of(cuts[run]) for cuts in (predicted, labels)] for run in runs]
    right = sum(len(one & other) for one, other in words)
    both = sum(len(one) + len(other) for one, other in words)
    assert metric("word_f1", total) == pytest.approx(2 * right / both)


def random_weights(number: int, heads: int = 3) -> CharacterAttention:
    following, separators = RNG.random((2, 1, heads, number)).astype(np.float32) / 2
    return CharacterAttention(following.round(2), separators.round(2), np.ones((1, heads)))


def test_the_best_reading_is_that_of_a_search_over_everything():
    decisions, weights = made([6] * 10), random_weights(60)
    labels = RNG.random(60) < 0.4
    result = calibrate(weights, decisions, labels, shifts=3, seed=0)
    features = weights.features(0)
    for head in range(3):
        best = max(
            ((one > cut) == side)[labels].mean() + ((one > cut) != side)[~labels].mean()
            for one in features[:, head]
            for cut in one
            for side in (True, False)
        )
        assert result.named.score[0, head] == pytest.approx(best / 2)
    predicted = result.predict(weights)[0]
    got = [(predicted[h][labels].mean() + (~predicted[h][~labels]).mean()) / 2 for h in range(3)]
    assert got == pytest.approx(result.named.score[0])


def test_a_shift_moves_every_text_and_keeps_its_labels():
    decisions = made([4, 2, 9])
    labels = np.arange(15)
    for moved in shifted_labels(labels, decisions, 30, 1):
        assert (moved != labels).all()
        for start, size in zip(decisions.text_starts, decisions.text_sizes, strict=True):
            here = moved[start : start + size]
            assert sorted(here) == list(range(start, start + size))
            assert (np.diff(here.astype(int)) % size == 1).all()


def test_labels_of_one_kind_name_nothing():
    decisions, weights = made([5, 5]), random_weights(10)
    result = calibrate(weights, decisions, np.ones(10, bool), shifts=5, seed=0)
    assert np.isnan(result.named.score).all() and result.named.heads() == []


def test_the_union_and_its_null_by_hand():
    decisions = made([4, 4, 2], queries=[0, 1, 2])
    predicted = RNG.random((4, 10)) < 0.5
    labels = RNG.random(10) < 0.5
    union, null = head_union(predicted, labels, decisions, seed=2)
    long = np.arange(10) < 8  # the last text is too short to be shifted
    moved = list(shifted_labels(labels, decisions, UNION_SHIFTS, 2))
    assert len(union) == len(null) == 4
    for k in range(1, 5):
        right = (predicted[:k] == labels).any(0)
        assert union[k - 1].value == pytest.approx(right[long].mean())
        assert union[k - 1].leave_one_out == pytest.approx([right[4:8].mean(), right[:4].mean()])
        luck = np.mean([(predicted[:k] == one).any(0)[long].mean() for one in moved])
        assert null[k - 1].value == pytest.approx(luck)


def test_granularity_of_a_fine_and_a_coarse_head_by_hand():
    """Texts of seven and five characters; one head cuts everywhere, one into 3 + 4 and 5."""
    texts = tuple(PairText(HAN[:size], ("", ""), 0, str(size)) for size in (7, 5))
    decisions = replace(made([6, 4]), texts=texts)
    predicted = np.array([[np.ones(10, bool), np.arange(10) == 2]])
    none, zero = decisions_of(PairTokenizer(metaspace("京"), 64), []), np.zeros((1, 2))
    calibrated = CalibratedHeads((), Named(zero, zero, zero, zero > 0), zero[None], zero)
    halves = LabelledHalves(none, decisions, none.labels(set), predicted[0, 1])
    main = HeadEvaluation(halves, zero, calibrated, zero, predicted, predicted, Head(0, 0))
    references = {"precise": lambda text: {len(text) - 4}, "full": lambda text: {len(text)}}
    rows = granularity(main, [Head(0, 0), Head(0, 1)], references)
    assert {name: [each.value for each in row] for name, row in rows.items()} == {
        "L0H0": pytest.approx([1.0, 0.2, 0.0]),
        "L0H1": pytest.approx([4.0, 0.9, 0.9]),
        "precise": pytest.approx([3.0, 1.0, 0.8]),
        "full": pytest.approx([6.0, 0.8, 1.0]),
    }
    assert rows["L0H1"][0].leave_one_out == pytest.approx([5.0, 3.5])


def test_characters_alone():
    learned, labels = list("的的我我的"), np.array([True, True, False, False, True])
    assert predict_by_character(learned, labels, list("的我他")).tolist() == [True, False, True]
