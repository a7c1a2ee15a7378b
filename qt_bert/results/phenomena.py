"""The phenomena of the behaviour cases that ship, in words."""

from __future__ import annotations

from qt_bert.results.text import Text

PHENOMENA: dict[str, Text] = {
    "direction": Text("方向对调", "direction swapped"),
    "negation": Text("否定或反义", "negation or opposite"),
    "number": Text("数字、型号、年份", "number, model or year"),
    "entity": Text("换了对象", "another place, person or brand"),
    "constraint": Text("条件丢了或换了", "constraint dropped or replaced"),
    "intent": Text("换了意图", "another intent"),
    "common_word": Text("丢了要紧的词", "informative word lost"),
    "stuffing": Text("堆砌或打乱关键词", "keywords stuffed or shuffled"),
    "synonym": Text("同义词与简称", "synonym or abbreviation"),
    "seo_tail": Text("站点名等尾巴", "SEO tail"),
    "order": Text("换语序、不改意思", "another order, same meaning"),
    "filler": Text("语气词与虚词", "fillers and particles"),
    "misspelling": Text("常见错字", "common misspelling"),
    "script": Text("全角与繁体", "full-width or traditional"),
    "distance": Text("共有的词隔得更远", "shared words further apart"),
    "mixed_script": Text("中西文、单位、大小写", "Latin or Chinese name, unit, case"),
}


def phenomenon_name(name: str) -> Text:
    """What a phenomenon is called; one of a file of one's own goes by its name there."""
    return PHENOMENA.get(name, Text(name, name))
