"""The words of the probe `space`."""

from __future__ import annotations

from qt_bert.results.probe import Source
from qt_bert.text import Text

SOURCE = Source(article="what_bert_and_transformer_learn", section="第二部分：探寻方法")
SCORE = Text("轮廓系数", "silhouette")

LABELLINGS = {
    "speech": Text("词，按词性", "words by part of speech"),
    "side": Text("词，按所在文本", "words by the text they stand in"),
    "grade": Text("[CLS]，按档位", "[CLS] by grade"),
}
CLAIMS = {
    "speech": Text("同一词性的词聚在一起", "Words of one part of speech lie together"),
    "side": Text("同在查询或同在标题的词聚在一起", "Words of the same text lie together"),
    "grade": Text("同一档的文本对，[CLS] 聚在一起", "[CLS] of pairs of one grade lie together"),
}
_CLASSES = {
    "noun": Text("名词", "nouns"),
    "verb": Text("动词", "verbs"),
    "adjective": Text("形容词", "adjectives"),
    "adverb": Text("副词", "adverbs"),
    "pronoun": Text("代词", "pronouns"),
    "number": Text("数词", "numbers"),
    "query": Text("查询里的词", "words of queries"),
    "title": Text("标题里的词", "words of titles"),
}
METHODS = {"pca": Text("主成分", "principal components"), "tsne": Text("t-SNE", "t-SNE")}


def class_name(name: str) -> Text:
    """A class in words; other names are grades, or the range of them that a label may mean."""
    return _CLASSES.get(name) or Text(f"{name} 档", f"grade {name}")
