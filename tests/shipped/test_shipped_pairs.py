"""What the card of the shipped pairs promises."""

from collections import Counter, defaultdict

import pytest

from qt_bert.data.pairs import GradeMap
from qt_bert.data.reader import ReaderOptions, read_pairs
from qt_bert.scoring.shortcuts import find_shortcuts
from qt_bert.shipped import CASES, DEV, TEST, TRAIN, shipped

SPLITS = {"train": TRAIN, "dev": DEV, "test": TEST}


@pytest.fixture(scope="module")
def splits():
    return {
        name: read_pairs(
            shipped(path), grade_map=GradeMap.identity(), grade_required=True, max_rejects=0
        )
        for name, path in SPLITS.items()
    }


def test_every_query_has_one_title_of_each_grade(splits):
    for pairs in splits.values():
        grades = defaultdict(list)
        for pair in pairs:
            grades[pair.query].append(pair.label)
        assert all(sorted(found) == ["1", "2", "3", "4", "5"] for found in grades.values())


def test_sizes_fields_and_ids(splits):
    queries = {name: len({p.query for p in pairs}) for name, pairs in splits.items()}
    assert queries["dev"] == 120 and queries["test"] == 160 and queries["train"] >= 220
    for name, pairs in splits.items():
        assert len({p.extra["field"] for p in pairs}) >= 25, name
    every = [pair for pairs in splits.values() for pair in pairs]
    assert len({p.query for p in every if "order" in p.extra["tags"].split(",")}) >= 100
    assert len({p.id for p in every}) == len(every)


def test_no_query_or_title_stands_in_two_splits(splits):
    for a, b in (("train", "dev"), ("train", "test"), ("dev", "test")):
        for field in ("query", "title"):
            assert not {getattr(p, field) for p in splits[a]} & {
                getattr(p, field) for p in splits[b]
            }


def test_a_title_of_grade_one_shares_no_two_characters_in_a_row(splits):
    common = {"怎么", "什么", "多少", "如何", "为什", "哪个", "可以", "哪里", "哪些", "多久"}
    for pair in splits["test"] + splits["dev"]:
        if pair.label == "1":
            shared = {pair.query[i : i + 2] for i in range(len(pair.query) - 1)} - common
            assert not [s for s in shared if s in pair.title], pair


def test_alignments_point_at_other_words_for_the_same(splits):
    pairs = {p.id: (name, p) for name, found in splits.items() for p in found}
    path = shipped("pairs/alignments.tsv")
    counts: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        id_, _, *places = line.split("\t")
        name, pair = pairs[id_]
        q_start, q_end, t_start, t_end = map(int, places)
        said = pair.query[q_start:q_end], pair.title[t_start:t_end]
        assert q_end <= len(pair.query) and t_end <= len(pair.title) and all(said)
        assert said[0] != said[1] and pair.label in ("4", "5")
        counts[name] += 1
    assert counts["dev"] >= 60 and counts["test"] >= 100 and counts.total() >= 200


def test_cases_hold_the_articles_examples_and_ours():
    cases = read_pairs(shipped(CASES))
    assert sum(p.extra["source"] == "ours" for p in cases) >= 20
    queries = {p.query for p in cases}
    assert {"京东小哥", "我在伊朗长大", "紫熨斗"} <= queries


@pytest.mark.parametrize("name", SPLITS)
def test_neither_titles_nor_queries_tell_the_grade(name):
    result = find_shortcuts(shipped(SPLITS[name]), ReaderOptions())
    assert result["metrics"]["titles"]["accuracy"]["value"] <= 0.28
    assert result["metrics"]["queries"]["accuracy"]["value"] <= 0.2
