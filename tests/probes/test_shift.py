"""What fine-tuning changes: the measures against libraries, a planted head, the whole probe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine, jensenshannon

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.pairs import segmenter
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.finetuning.case import case_of
from qt_bert.probes.finetuning.compare import Comparison, compare
from qt_bert.probes.finetuning.study import strengthened
from qt_bert.probes.finetuning.terms import Term, links, matched_terms
from qt_bert.probes.probe import run_probe
from qt_bert.probes.shift import PROBE
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results import Finding, ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.probes import planted_shift

Build = Callable[..., Path]
JIEBA = segmenter("jieba")
PAIRS = planted_shift.pairs()


@pytest.fixture(scope="module")
def planted(checkpoint_of: Build, tmp_path_factory: pytest.TempPathFactory) -> dict[float, Path]:
    """Models whose L0H1 matches tokens not at all, a little, and strongly."""
    folder = checkpoint_of(**planted_shift.SHAPE)
    out = tmp_path_factory.mktemp("planted")
    return {
        strength: planted_shift.plant(folder, out / f"strength-{strength}", strength)
        for strength in (0.0, 0.05, 1.0)
    }


def opened(folder: Path) -> Scorer:
    return Scorer(open_checkpoint(folder))


def compared(base: Path, model: Path) -> Comparison:
    return compare(opened(base).encoder, opened(model), PAIRS, JIEBA)


@pytest.fixture
def context(tmp_path: Path, pair_file: Path) -> Callable[..., ProbeContext]:
    """A context around two folders, of made pairs or of the eight in a file."""

    def build(base: Path | None, model: Path, *, made: bool = True, **facts: Any) -> ProbeContext:
        split = Split(PAIRS[:15], PAIRS[15:], 0)
        return ProbeContext(
            label="shift",
            files=PairFiles(pairs=pair_file),
            read_pairs=(lambda labels: split) if made else None,
            work=tmp_path / "sweeps" / "shift",
            open_model=lambda: opened(model),
            base=base,
            resamples=200,
            **facts,
        )

    return build


def by_id(result: ProbeResult) -> dict[str, Finding]:
    return {finding.id: finding for finding in result.findings}


def test_terms_are_whole_content_words_of_both_texts() -> None:
    terms = matched_terms("我在伊朗长大", "假期电影《我在伊朗长大》", JIEBA)
    assert terms == [Term((0, 1), (5, 6)), Term((2, 4), (7, 9)), Term((4, 6), (9, 11))]
    assert matched_terms("Excel 的 狗", "EXCEL的", JIEBA) == [Term((0, 5), (0, 5))]
    assert matched_terms("苹果手机", "苹果 苹果", JIEBA) == [
        Term((0, 2), (0, 2)),
        Term((0, 2), (3, 5)),
    ]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_links_join_the_tokens_of_a_term(checkpoint_of: Build, family: str) -> None:
    scorer = opened(checkpoint_of(family))
    (encoded,) = scorer.tokenizer.encode([("北京票价", "高铁北京")])
    joined = {(int(a), int(b)) for a, b in np.argwhere(links(encoded, [Term((0, 2), (2, 4))]))}
    texts = ("北京票价", "高铁北京")
    places = {
        (side, start): token
        for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True))
        if side >= 0 and end == start + 1 and texts[side][start] in "北京"
    }
    query, title = (
        [places[side, at] for at in (first, first + 1)] for side, first in ((0, 0), (1, 2))
    )
    one_way = {(q, t) for q in query for t in title}
    assert joined == one_way | {(t, q) for q, t in one_way}


@pytest.fixture(scope="module")
def random_pair(checkpoint_of: Build) -> tuple[Path, Path]:
    return checkpoint_of(seed=1), checkpoint_of(seed=2)


def reference_maps(folder: Path, query: str, title: str) -> np.ndarray:
    """Hugging Face's own attention [layers, heads, L, L]."""
    checkpoint = open_checkpoint(folder)
    tokens = checkpoint.tokenizer(query, title, return_tensors="pt")
    with torch.inference_mode():
        found = checkpoint.model(**tokens, output_attentions=True).attentions
    return torch.cat(found).numpy()


def test_measures_agree_with_libraries_on_the_reference_maps(
    random_pair: tuple[Path, Path],
) -> None:
    found = compared(*random_pair)
    for row, pair in enumerate(PAIRS[:4]):
        before, after = (reference_maps(one, pair.query, pair.title) for one in random_pair)
        (encoded,) = opened(random_pair[0]).tokenizer.encode([(pair.query, pair.title)])
        text = np.array(encoded.side) >= 0
        linked = links(encoded, matched_terms(pair.query, pair.title, JIEBA))
        for maps, got in ((before, found.before), (after, found.after)):
            matched = (maps * linked).sum(-1)[..., linked.any(-1)].mean(-1)
            own = np.diagonal(maps, axis1=-2, axis2=-1)[..., text].mean(-1)
            sep = maps[..., encoded.separators].sum(-1)[..., text].mean(-1)
            first = maps[..., 0][..., text].mean(-1)
            np.testing.assert_allclose(
                got[row], np.stack([matched, own, sep, first], -1), atol=1e-5
            )
        for layer, head in np.ndindex(2, 2):
            one, other = before[layer, head], after[layer, head]
            want = [
                1 - cosine(one.ravel(), other.ravel()),
                1 - cosine(one[:, text].ravel(), other[:, text].ravel()),
                np.mean([jensenshannon(p, q, base=2) for p, q in zip(one, other, strict=True)]),
            ]
            np.testing.assert_allclose(found.likeness[row, layer, head], want, atol=1e-4)


def test_a_model_beside_itself_has_not_changed(random_pair: tuple[Path, Path]) -> None:
    found = compared(random_pair[0], random_pair[0])
    assert np.abs(found.after - found.before).max() == 0
    np.testing.assert_allclose(found.likeness[..., :2], 1, atol=1e-6)
    np.testing.assert_allclose(found.likeness[..., 2], 0, atol=1e-6)
    assert strengthened(found).heads() == []


def test_exactly_the_planted_head_changes(planted: dict[float, Path]) -> None:
    found = compared(planted[0.0], planted[1.0])
    likeness = found.likeness.mean(0)
    others = np.ones((2, 4), bool)
    others[0, 1] = False
    np.testing.assert_allclose(likeness[others][:, :2], 1, atol=1e-6)
    np.testing.assert_allclose(likeness[others][:, 2], 0, atol=1e-3)
    assert likeness[0, 1, 0] < 0.9
    assert likeness[0, 1, 2] > 0.3
    assert found.after[:, 0, 1, 0].min() > 0.8
    assert strengthened(found).heads() == [Head(0, 1)]
    assert strengthened(compared(planted[1.0], planted[0.0])).heads() == []


def test_the_probe_tells_what_became_of_the_planted_head(
    planted: dict[float, Path], context: Callable[..., ProbeContext]
) -> None:
    result = run_probe(PROBE, context(planted[0.05], planted[1.0]))
    found = by_id(result)
    assert result.sets["matching_before"][0] == result.sets["matching_after_biased"][0] == "L0H1"
    assert result.sets["strengthened"] == ("L0H1",)
    assert found["matching_matched"].verdict == "reproduced"
    assert found["matching_matched"].value == found["picked_after_matched"].value
    assert found["matching_sep"].verdict == "reproduced"
    assert found["all_sep"].verdict == "not reproduced"
    assert found["picked_after_matched"].verdict is None
    assert result.settings["comes_back"]["strengthened"]["share"] == 1
    assert result.settings["case_head"] == "L0H1"
    assert "L0H1 +" in result.summary.zh and "L0H1 +" in result.summary.en
    heads = {one.head: one.scores for one in result.heads}
    assert heads["L0H1"]["matched_after"] > 0.8 > 0.5 > heads["L0H1"]["matched_before"]
    assert heads["L0H0"]["cosine"] == pytest.approx(1)
    backwards = by_id(run_probe(PROBE, context(planted[1.0], planted[0.05])))
    assert backwards["matching_matched"].verdict == "not reproduced"


def test_the_case_parts_what_grew_from_what_shrank(planted: dict[float, Path]) -> None:
    base, model = opened(planted[0.0]), opened(planted[1.0])
    case = case_of(base.encoder, model, Head(0, 1))
    assert case.tokens[:3] == ("[CLS]", "我", "在")
    assert case.tokens.count("[SEP]") == 2
    np.testing.assert_allclose(case.strengthened - case.weakened, case.after - case.before)
    assert (np.minimum(case.strengthened, case.weakened) == 0).all()
    me = [place for place, token in enumerate(case.tokens) if token == "我"]
    assert case.strengthened[me[0], me[1]] == case.strengthened[me[0]].max() > 0.5


@pytest.mark.parametrize(
    ("family", "labels", "layers"), [("bert", 3, 4), ("xlm-roberta", 1, 2), ("electra", 5, 1)]
)
def test_any_model_any_file(
    checkpoint_of: Build,
    context: Callable[..., ProbeContext],
    tmp_path: Path,
    family: str,
    labels: int,
    layers: int,
) -> None:
    folders = [checkpoint_of(family, labels=labels, layers=layers, seed=seed) for seed in (1, 2)]
    result = run_probe(PROBE, context(*folders))
    assert {"all_cls", "all_sep"} <= by_id(result).keys()
    assert len(result.heads) == 2 * layers
    assert result.figures[-1].name == "case_weakened"
    assert ("last_layers_cosine" in by_id(result)) == (layers > 2)
    path = tmp_path / "shift.json"
    result.write(path)
    assert ProbeResult.read(path).summary == result.summary


def test_texts_without_a_match_leave_the_other_claims(
    random_pair: tuple[Path, Path], context: Callable[..., ProbeContext], tmp_path: Path
) -> None:
    path = tmp_path / "english.tsv"
    rows = "".join(f"query {i}\tsome title\t{1 + i % 5}\n" for i in range(12))
    path.write_text(f"query\ttitle\tgrade\n{rows}", encoding="utf-8")
    made = context(*random_pair, made=False)
    made.files = PairFiles(pairs=path)
    result = run_probe(PROBE, made)
    found = by_id(result)
    assert result.sets == {"matching_before": (), "matching_after_biased": (), "strengthened": ()}
    assert found["matching_matched"].value is None
    assert found["matching_matched"].verdict == "inconclusive"
    assert found["all_cls"].value is not None
    assert result.settings["case_head"] is None


def test_what_is_no_base_is_refused(
    checkpoint_of: Build, context: Callable[..., ProbeContext]
) -> None:
    with pytest.raises(ArgumentError, match="--base"):
        run_probe(PROBE, context(None, checkpoint_of()))
    with pytest.raises(CheckpointError, match="number of layers"):
        run_probe(PROBE, context(checkpoint_of(layers=3), checkpoint_of()))


@pytest.mark.slow
def test_random_models_have_no_strengthened_heads(tmp_path: Path, checkpoint_of: Build) -> None:
    named = 0
    for seed in range(20):
        folders = [
            planted_shift.untrained(checkpoint_of(), tmp_path / f"{seed}-{which}", 2 * seed + which)
            for which in (0, 1)
        ]
        named += bool(strengthened(compared(*folders)).heads())
    assert named <= 2
