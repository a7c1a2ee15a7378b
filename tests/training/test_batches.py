"""Packing and labels: every example once, within the row; what a label allows outputs to say."""

from dataclasses import replace

import numpy as np
import pytest

from qt_bert.models.card import ModelLabels
from qt_bert.models.opening import open_checkpoint
from qt_bert.training.batches import BatchLayout, LabelledExample, plan_epoch, training_set
from qt_bert.training.packing import Example, best_fit, lay_out
from qt_bert.training.recipes import PairSource
from tests.conftest import FIVE


def example(*ids: int) -> Example:
    return Example(np.array(ids), np.array([0] * (len(ids) - 1) + [1]))


def test_every_example_stands_in_one_row_that_holds_it():
    lengths = np.random.default_rng(0).integers(1, 33, 500).tolist()
    rows = best_fit(lengths, 32)
    assert sorted(i for row in rows for i in row) == list(range(500))
    assert max(sum(lengths[i] for i in row) for row in rows) <= 32
    assert len(rows) <= 1.1 * sum(lengths) / 32
    assert best_fit([5, 3, 4, 2, 1], 8) == [[0, 1], [2, 3, 4]]  # the tightest gap
    with pytest.raises(ValueError, match="33 tokens does not fit a row of 32"):
        best_fit([33], 32)


def test_rows_are_laid_out_by_hand():
    rows = lay_out([[example(7, 8), example(9, 9, 9)], []], 6, pad=1, first_position=2)
    assert rows["input_ids"].tolist() == [[7, 8, 9, 9, 9, 1], [1] * 6]
    assert rows["token_type_ids"].tolist()[0] == [0, 1, 0, 0, 1, 0]
    assert rows["position_ids"].tolist()[0] == [2, 3, 2, 3, 4, 2]
    assert rows["segment"].tolist()[0] == [1, 1, 2, 2, 2, 0]
    assert rows["first_slot"].tolist() == [0, 2]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text("query\ttitle\tgrade\n狗\t狗\t1\n猫\t猫\t3\n小哥\t小哥\t5\n", encoding="utf-8")
    return path


def allowed(checkpoint_of, source, labels):
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(48)
    return [e.allowed.tolist() for e in training_set([source], tokenizer, labels).examples]


def test_a_grade_is_one_output_and_a_coarse_label_several(checkpoint_of, file):
    exact = allowed(checkpoint_of, PairSource(file), FIVE)
    assert exact == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    coarse = PairSource(file, grades="1=1-2,3=3-4,5=5")
    assert allowed(checkpoint_of, coarse, FIVE)[0] == [1, 1, 0, 0, 0]


def test_outputs_of_several_grades_of_none_and_a_single_one(checkpoint_of, file):
    three = ModelLabels(3, ((1, 2), (3, 4), (5,)))
    assert allowed(checkpoint_of, PairSource(file), three) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    between = PairSource(file, grades="1=2-3,3=3-4,5=5")
    assert allowed(checkpoint_of, between, three)[0] == [1, 1, 0]
    bare = PairSource(file, unlabelled=True)
    assert allowed(checkpoint_of, bare, FIVE) == [[0] * 5] * 3
    assert allowed(checkpoint_of, PairSource(file), ModelLabels(1, None)) == [[0]] * 3


def test_labels_of_a_single_output_are_part_of_the_hash(checkpoint_of, file):
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(48)
    one = ModelLabels(1, None)
    sources = [PairSource(file), PairSource(file, grades="1=5,3=3,5=1")]
    hashes = {training_set([source], tokenizer, one).sha256 for source in sources}
    assert len(hashes) == 2


def test_the_hash_of_texts_does_not_know_what_is_cut(checkpoint_of, file):
    def hashes(source, length):
        tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(length)
        data = training_set([source], tokenizer, FIVE)
        return data.texts_sha256, data.sha256

    (texts, seen), (same, cut) = hashes(PairSource(file), 48), hashes(PairSource(file), 6)
    assert texts == same and seen != cut
    others = [PairSource(file, weight=2.0), PairSource(file, labels=("1", "3"))]
    assert texts not in {hashes(other, 48)[0] for other in others}


@pytest.mark.parametrize("slots", [64, 96, 640])
def test_titles_of_a_query_stand_in_one_batch_in_rows_of_their_own(slots):
    """As many as a batch holds, by another parting in every epoch."""
    rng = np.random.default_rng(0)
    queries = [*rng.integers(0, 40, 300), *[40] * 60]  # the last has more than any batch holds
    made = [
        LabelledExample(ids, ids, np.zeros(5), (-1, 0), 1.0, query=int(query))
        for query in queries
        for ids in [np.zeros(rng.integers(4, 32), np.int64)]
    ]
    layout = BatchLayout((16, 32), slots, 0, 0, by_query=True)
    parted = []
    for epoch in (0, 1):
        plans = plan_epoch(made, layout, 3, epoch)
        assert sorted(i for p in plans for row in p.rows for i in row) == list(range(360))
        places = {}
        for number, plan in enumerate(plans):
            assert len(plan.rows) <= max(1, slots // plan.slots)
            for row in plan.rows:
                assert sum(len(made[i]) for i in row) <= plan.slots
                for i in row:
                    places.setdefault(made[i].query, []).append((number, i))
        last = places[40]
        parted.append({number: {i for n, i in last if n == number} for number, _ in last})
        if slots == 640:
            assert all(len({n for n, _ in places[q]}) == 1 for q in range(40))
    assert len(parted[0]) > 1
    assert sorted(map(sorted, parted[0].values())) != sorted(map(sorted, parted[1].values()))
    free = replace(layout, by_query=False)
    first, again, second = (plan_epoch(made, free, 3, epoch) for epoch in (0, 0, 1))
    assert max(len(p.rows) for p in first) <= max(1, slots // 16)
    assert sorted(i for p in first for row in p.rows for i in row) == list(range(360))
    assert first == again != second and {p.slots for p in first} == {16, 32}


def test_spellings_of_a_query_are_one(checkpoint_of, tmp_path):
    path = tmp_path / "spelled.tsv"
    path.write_text("query\ttitle\nA 小哥\t狗\na小哥\t猫\n小哥\t猫\n", encoding="utf-8")
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(48)
    made = training_set([PairSource(path, unlabelled=True)], tokenizer, FIVE).examples
    assert [e.query for e in made] == [0, 0, 1]


def test_queries_are_numbered_and_labels_counted_from_the_lowest(checkpoint_of, pair_file):
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(48)

    def of(labels, **source):
        made = training_set([PairSource(pair_file, **source)] * 2, tokenizer, labels).examples
        return [e.query for e in made], [e.bounds for e in made[:3]]

    queries, bounds = of(FIVE)
    assert queries == [0, 0, 1, 1, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 8, 9]  # each source has its own
    assert bounds == [(4, 4), (0, 0), (2, 2)]
    coarse = {"grades": "1=1-2,2=1-2,3=3-4,4=3-4,5=5"}
    assert of(FIVE, **coarse)[1] == [(4, 4), (0, 1), (2, 3)]
    assert of(ModelLabels(1, None), **coarse)[1] == [(4, 4), (0, 1), (2, 3)]
    three = ModelLabels(3, ((1, 2), (3, 4), (5,)))
    assert of(three)[1] == [(3.5, 3.5), (0, 0), (2, 2)]
    assert np.isnan(of(FIVE, unlabelled=True)[1]).all()
