"""Parts set back, mixtures and slices: damage planted in one block, hand-edited weights, held-out files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForPreTraining

from qt_bert.data.pairs import Pair
from qt_bert.probes.base_model import open_base
from qt_bert.probes.tuning_weights import QUICK_PARTS, Mixtures
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.conftest import edited, pair_of, write_pairs
from tests.probes.planted_kinds import opened
from tests.probes.planted_tuning import WORDS
from tests.probes.probe_results import result_of, values

DAMAGED = "L1.feed_forward"


def texts(number: int) -> tuple[str, str]:
    rng = np.random.default_rng(number)
    return f"{''.join(rng.choice(WORDS, 3))}{number}", "".join(rng.choice(WORDS, 4))


def damaged(folder: Path, out: Path) -> Path:
    """The model with other weights in the feed-forward block of one layer."""
    generator = torch.Generator().manual_seed(0)
    with edited(folder, out) as model:
        layer = model.bert.encoder.layer[1]
        for linear in (layer.intermediate.dense, layer.output.dense):
            noise = torch.randn(linear.weight.shape, generator=generator)
            linear.weight += 3 * linear.weight.std() * noise
    return out


@pytest.fixture(scope="module")
def planted(checkpoint_of, tmp_path_factory) -> tuple[Path, Path]:
    """A base that gives all grades about as often, and the same with a damaged block."""
    out, folder = tmp_path_factory.mktemp("planted"), checkpoint_of(layers=3, hidden=32)
    logits = torch.from_numpy(opened(folder).logits([texts(number) for number in range(120)]))
    with edited(folder, out / "base") as model:
        model.classifier.weight /= logits.std(0)[:, None]
        model.classifier.bias.sub_(logits.mean(0)).div_(logits.std(0))
    return out / "base", damaged(out / "base", out / "tuned")


@pytest.fixture(scope="module")
def halves(planted) -> tuple[list[Pair], list[Pair]]:
    """Pairs labelled as the base grades them."""
    made = [texts(number) for number in range(120)]
    grades = opened(planted[0]).logits(made).argmax(1) + 1
    pairs = [
        replace(pair_of(*text, int(grade), at + 1), extra={"tags": "odd,all"[at % 2 * 4 :]})
        for at, (text, grade) in enumerate(zip(made, grades, strict=True))
    ]
    return pairs[:60], pairs[60:]


def write_cases(folder: Path, base: Path) -> Path:
    """Cases whose better title is the one that the base grades higher."""
    made = [(texts(number), texts(number + 500)[1]) for number in range(300)]
    scorer, grades = opened(base), np.arange(1, 6)

    def graded(pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        logits = torch.from_numpy(scorer.logits(pairs))
        return logits.softmax(-1).numpy() @ grades

    first, second = graded([p for p, _ in made]), graded([(p[0], other) for p, other in made])
    rows = ["id\tphenomenon\trelation\tquery\ttitle\tother"]
    for at, (((query, title), other), a, b) in enumerate(zip(made, first, second, strict=True)):
        if abs(a - b) > 0.25:
            pair = (title, other) if a > b else (other, title)
            rows.append("\t".join([str(at), "negation", "better", query, *pair]))
    path = folder / "cases.tsv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def by_name(result: ProbeResult, table: str) -> dict[str, tuple]:
    (found,) = (one for one in result.tables if one.name == table)
    return {str(row.labels[0]): (row.labels, row.values) for row in found.rows}


def test_the_damaged_block_is_named(planted, halves, context_of, tmp_path):
    base, tuned = planted
    cases = write_cases(tmp_path, base)
    rows = [(p.query, p.title, p.label) for p in halves[1]]
    held_out = write_pairs(tmp_path / "held_out.tsv", rows)
    options = {"base": base, "full": True, "cases": cases, "held_out": [held_out]}
    result = result_of("tuning", context_of(tuned, halves, **options))
    assert result.settings["harmful"] == [DAMAGED]
    slices = result.settings["slices"]
    assert {one["part"] for one in slices if one["outcome"] == "lost"} == {DAMAGED}
    assert "gained" not in {one["outcome"] for one in slices}
    assert (result.facts["best"], result.facts["weights"]) == ("0", "1,0")
    parts = by_name(result, "parts")
    gain = parts["Text(zh='L1 前馈', en='L1 feed-forward')"][1][0]
    assert gain.value == pytest.approx(values(result)["mixture"]) and gain.ci_low > 0.1
    assert parts["Text(zh='嵌入层', en='embeddings')"][1][0].value == 0
    negation = by_name(result, "slices")["Text(zh='否定或反义', en='negation or opposite')"]
    assert negation[0][1].en == "worse" and negation[1][4].value == negation[1][1].value > 0
    (mixtures,) = (one for one in result.tables if one.name == "mixtures")
    assert mixtures.rows[-1].labels == ("held_out.tsv", "1")
    assert mixtures.rows[0].values[0].value == 1 > mixtures.rows[-1].values[0].value
    assert mixtures.rows[10].values[-1].value == 0
    again = result_of("tuning", context_of(tuned, halves, work=tmp_path / "again", **options))
    assert (again.tables, again.facts) == (result.tables, result.facts)


def test_the_undamaged_twin_names_nothing(planted, halves, context_of):
    base, _ = planted
    result = result_of("tuning", context_of(base, halves, base=base))
    assert result.settings["harmful"] == []
    assert {one["outcome"] for one in result.settings["slices"]} == {"undecided"}
    assert (result.facts["best"], values(result)["mixture"]) == ("1", None)


def test_of_one_logit_parts_are_judged_on_whole_queries(checkpoint_of, context_of):
    """On 48 titles of as many queries there is no order to judge."""
    model, base = (checkpoint_of(labels=1, seed=seed) for seed in (0, 1))
    made = [(*texts(number), texts(number + 500)[1]) for number in range(QUICK_PARTS + 2)]
    pairs = [pair_of(query, title, 5) for query, title, _ in made]
    pairs += [pair_of(query, title, 1) for query, _, title in made]
    result = result_of("tuning", context_of(model, pairs, base=base))
    assert result.facts["judged_on"] == QUICK_PARTS
    gains = [values[0] for _, values in by_name(result, "parts").values()]
    assert {gain.value is None for gain in gains} == {False}


@pytest.fixture
def models(planted, tmp_path) -> Mixtures:
    """The damaged model beside a pretrained base: a pooler, no classifier."""
    model = BertForPreTraining.from_pretrained(planted[0])
    torch.nn.init.normal_(model.bert.pooler.dense.weight)
    model.save_pretrained(tmp_path / "base")
    AutoTokenizer.from_pretrained(planted[0]).save_pretrained(tmp_path / "base")
    scorer = opened(planted[1])
    return Mixtures(scorer, open_base(tmp_path / "base", scorer.checkpoint))


def test_states_are_those_mixed_by_hand(models, halves):
    assert models.head == "head_part"
    assert set(models.parts["head"]) == {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    pairs = halves[1][:12]
    for change in ("L1.attention", DAMAGED, "low_third", "embeddings", "head", 0.0, 0.3, 1.0):
        model = AutoModelForSequenceClassification.from_pretrained(models.scorer.checkpoint.folder)
        base = dict(models.base.model.named_parameters())
        for name, parameter in model.named_parameters():
            inside = {
                "L1.attention": "layer.1.attention." in name,
                DAMAGED: "layer.1.output." in name or "layer.1.intermediate." in name,
                "low_third": "layer.0." in name,
                "embeddings": "embeddings." in name,
                "head": "pooler." in name,
            }
            share = (inside[change] if isinstance(change, str) else 1 - change) * (
                "classifier" not in name
            )
            parameter.data = (1 - share) * parameter.data + share * base[name].data
        checkpoint = replace(models.scorer.checkpoint, model=model.eval())
        want = Scorer(checkpoint).logits([(pair.query, pair.title) for pair in pairs])
        np.testing.assert_allclose(models.logits(change, pairs), want, atol=1e-5)
        if change == 1.0:
            plain = models.scorer.logits([(pair.query, pair.title) for pair in pairs])
            np.testing.assert_array_equal(models.logits(change, pairs), plain)
