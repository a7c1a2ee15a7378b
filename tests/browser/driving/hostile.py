"""What an unkind visitor types and uploads."""

import io
import zipfile

IMAGE = "<img src=x onerror=alert(1)>"

TEXTS = {
    "html": IMAGE + "<script>alert(2)</script><b>粗</b>",
    "markdown": "[链接](javascript:alert(3)) **粗** `码` :red[红] $\\frac{1}{2}$ :material/home:",
    "emoji": "👩‍👩‍👧‍👦🔥🏳️‍🌈 e\u0301\u200b\u202e反",
    "control": "紫\x00熨\x07斗\x1b[31m\u2028好\x7f",
    "long": "洗衣" * 5_000,
    "blank": " \u3000\t ",
    "surrogate": "\ufffe\uffff\U0010ffff",
}

GOOD = "query\ttitle\tgrade\n" + "".join(
    f"{query}\t{title}\t{grade}\n"
    for query, title, grade in (
        ("怎么去除衣服上的油渍", "衣服沾了油怎么洗掉", 5),
        ("怎么去除衣服上的油渍", "红烧排骨的家常做法", 1),
        ("北京到上海高铁票价", "北京到上海高铁时刻表查询", 3),
        ("北京到上海高铁票价", "上海到北京高铁票价", 2),
        ("北京到上海高铁票价", "北京上海高铁票多少钱", 5),
        ("苹果多少钱一斤", "苹果手机多少钱", 2),
        ("苹果多少钱一斤", "今天苹果的价格是多少", 4),
    )
)

MANY = "query\ttitle\tgrade\n" + "".join(
    f"{number} 号线几点末班车\t{number} 号线首末班车时间表\t{1 + number % 5}\n"
    for number in range(2_000)
)
"""As many as the page takes, which is the longest evaluation there is."""


def zipped() -> bytes:
    """A zip, to be named .tsv."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pairs.tsv", GOOD)
    return packed.getvalue()


FILES = {
    "zip.tsv": zipped(),
    "empty.tsv": b"",
    "binary.tsv": bytes(range(256)) * 64,
    "headless.tsv": "一列\n只有一列\n".encode(),
    "unlabelled.tsv": "query\ttitle\n紫熨斗\t紫熨斗好用吗\n".encode(),
    "one_line.tsv": b"query\ttitle\tgrade\n" + "油".encode() * 3_300_000,
    "html.tsv": f"query\ttitle\tgrade\n{IMAGE}\t{IMAGE}\t9\n".encode(),
}
TOO_LARGE = b"a\tb\t1\n" * 2_000_000
