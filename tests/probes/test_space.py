"""Words and pairs in space: planted clusters, silhouettes against scikit-learn, the whole probe."""

from dataclasses import replace

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import silhouette_samples

from qt_bert.data.segmenters import Tagged
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.models.card import ModelLabels
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.space import WORDS_A_PAIR, above_chance, items_of, labelled, silhouettes
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FIVE, pair_of
from tests.probes.pieces import byte_level


def clusters(apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Three classes of twenty points around centres so far apart."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    return rng.normal(size=(60, 8)) + apart * np.eye(8)[labels], labels


def test_silhouettes_are_scikit_learns():
    vectors, labels = clusters(2.0)
    labels[0] = 3  # one alone
    other = np.random.default_rng(1).permutation(labels)
    distances = squareform(pdist(vectors))
    found = silhouettes(distances, np.stack([labels, other]))
    for own, row in zip((labels, other), found, strict=True):
        np.testing.assert_allclose(row, silhouette_samples(vectors, own), atol=1e-9)


def test_planted_clusters_score_high_and_shuffled_ones_low():
    vectors, labels = clusters(20.0)
    queries = [str(n // 2) for n in range(60)]
    own, beyond = above_chance(vectors, labels, queries, draws=19, seed=0)
    assert own.value > 0.7 and beyond.value > 0.7 and beyond.n_queries == 30
    shuffled = np.random.default_rng(1).permutation(labels)
    _, control = above_chance(vectors, shuffled, queries, draws=19, seed=0)
    assert abs(control.value) < 0.1


def tag(text: str) -> list[Tagged]:
    """Words of two characters; 北京 and 上海 are nouns, the others verbs."""
    words = [(i, min(i + 2, len(text))) for i in range(0, len(text), 2)]
    return [Tagged(w, "n" if text[slice(*w)] in ("北京", "上海") else "v") for w in words]


def test_labels_are_named_as_elsewhere(checkpoint_of):
    tokenizer = Scorer(open_checkpoint(checkpoint_of())).tokenizer

    def named(labels, *sets):
        pairs = [replace(pair_of("北京", "上海"), grades=grades) for grades in sets]
        items = items_of(pairs, tokenizer, tag, labels, 0)
        return [item.classes["grade"] for item in items if "grade" in item.classes]

    assert named(FIVE, (1, 3), (1, 2, 3)) == ["1,3", "1-3"]
    assert named(ModelLabels(3, None), (3,)) == ["2"]


def test_words_are_drawn_once_with_their_tokens(checkpoint_of):
    tokenizer = Scorer(open_checkpoint(checkpoint_of())).tokenizer
    pairs = [pair_of("北京高铁", "上海高铁票价衣服", g) for g in (1, 2)] * 3
    items = items_of(pairs, tokenizer, tag, FIVE, 0)
    assert len(items) <= 6 * (1 + WORDS_A_PAIR)
    words = [item for item in items if item.span[0] > 0]
    assert all(end - start == 2 for start, end in (word.span for word in words))
    assert sorted(word.text for word in words) == sorted(["北京", "高铁", "上海", "票价", "衣服"])
    grade = labelled("grade", items)
    assert grade is not None and grade[2] == ["1", "2"] and len(grade[0]) == 6
    assert items[0].span == (0, 1)
    read = items_of(pairs[:1], tokenizer, tag, FIVE, 0, of_all=True)
    assert read[0].span == (0, 15)  # all tokens, whose mean is read
    assert labelled("speech", items) is None  # two nouns are too few for a class


def test_a_word_has_its_tokens_to_itself():
    """北京 begins with a character that is cut; 上海 shares a token with what follows."""
    tokenizer = PairTokenizer(
        byte_level(("海高", 6), ("上", 3), ("铁", 3), ("京", 3), ("北", 2)), 64
    )
    items = items_of([pair_of("北京", "上海高铁")], tokenizer, tag, FIVE, 0)
    # [CLS] 北 北 京 [SEP] 上 海高 铁 [SEP]
    assert [(item.text, item.span) for item in items[1:]] == [("北京", (1, 4))]
