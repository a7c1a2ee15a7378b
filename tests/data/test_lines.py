import gzip
import lzma
from pathlib import Path

import pytest

from qt_bert.data import lines as source_module
from qt_bert.data.lines import TextSource
from qt_bert.data.pairs import Reject
from qt_bert.errors import PairFileError


def lines(path: Path) -> list[tuple[int, str] | Reject]:
    return list(TextSource(path).lines())


def test_only_line_feeds_end_lines(write):
    text = "a\u2028b\x0bc\x85d\x1ce\r\nf\rg\r\r\n\n最后"
    assert lines(write("f", text)) == [(1, "a\u2028b\x0bc\x85d\x1ce"), (2, "f\rg\r"), (4, "最后")]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bytes])
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "gb18030"])
def test_encodings_and_packing(write, pack, codec):
    suffix = {gzip.compress: ".gz", lzma.compress: ".xz"}.get(pack, "")
    source = TextSource(write(f"f{suffix}", pack("查询\t𠮷😀\nx".encode(codec))))
    assert source.encoding == codec
    assert list(source.lines()) == [(1, "查询\t𠮷😀"), (2, "x")]


def test_a_gb18030_byte_order_mark_is_no_text(write):
    assert lines(write("f", "\ufeff查询词".encode("gb18030"))) == [(1, "查询词")]


def test_a_damaged_line_does_not_turn_a_utf8_file_into_gb18030(write):
    damaged = "北京天气好".encode()[:-1]
    assert damaged.decode("gb18030")
    source = TextSource(write("f", "上海\n".encode() + damaged + "\n广州\n深圳".encode()))
    assert source.encoding == "utf-8"
    read = list(source.lines())
    assert read[0] == (1, "上海") and read[2:] == [(3, "广州"), (4, "深圳")]
    assert isinstance(read[1], Reject)
    assert (read[1].line, read[1].reason) == (2, "undecodable bytes")


def test_the_first_lines_decide_the_encoding(write, monkeypatch):
    monkeypatch.setattr(source_module, "ENCODING_VOTES", 2)
    path = write("f", "一\n二\n".encode() + "北京天气\n".encode("gb18030") * 9)
    assert TextSource(path).encoding == "utf-8"
    assert TextSource(write("ascii", "query\ttitle\n" * 3)).encoding == "utf-8"


def test_an_endless_line_is_refused(write, monkeypatch):
    monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 10)
    with pytest.raises(PairFileError, match="line 2 is longer"):
        lines(write("f", "0123456789"[:9] + "\n" + "x" * 11))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.tsv", b"", "is empty"),
        ("zip.tsv", b"PK\x03\x04rest", "zip archive"),
        ("old.csv", b"\xd0\xcf\x11\xe0rest", "Excel"),
        ("gzip.tsv", gzip.compress(b"a", mtime=0), "must end in .gz"),
        ("xz.tsv", lzma.compress(b"a"), "must end in .xz"),
        ("parquet.tsv", b"PAR1rest", "must end in .parquet"),
        ("utf16.tsv", "query\ttitle\n".encode("utf-16"), "UTF-16"),
        ("utf16be.tsv", "query\ttitle\n".encode("utf-16-be"), "looks like UTF-16"),
        ("mixed.tsv", "查询\t标题\n高铁\t票价\n".encode("utf-16-le"), "iconv -f UTF-16LE"),
        ("mac.tsv", b"query\ttitle\rq\tt\r", "lines end at CR alone"),
        ("mac.csv", b'query,title\rq,"a\nb"\r', "lines end at CR alone"),
        ("plain.tsv.gz", b"query\ttitle\n", "damaged or cut short"),
        ("empty.tsv.gz", gzip.compress(b"", mtime=0), "is empty"),
    ],
)
def test_files_that_are_no_text(write, name, content, reason):
    with pytest.raises(PairFileError, match=reason):
        TextSource(write(name, content))


GBK = (
    "iPhone 15 Pro Max 256GB 钛金属\t苹果15手机壳😀",
    "喆堃鎏犇羴\t鑫淼焱犇牛排",
    "羋月傳 全集\t羋月傳電視劇線上看",
    "優の良品 零食\t优の良品手信",
    "ソニー WH-1000XM5\t索尼耳机ソニー官方",
    "北京到上海高鐵\t北京到上海高鐵票價查詢",
    "囍字贴\t结婚囍字窗花",
    "①寸照片\t①寸证件照℃",
    "龍鬚糖\t龍鬚糖怎麼做",
    "㗎喇 粵語\t粵語嘅咗啲",
    "Café 咖啡机\tDe'Longhi 德龙咖啡机 crème",
    "饕餮 貔貅\t魑魅魍魉",
    "T恤\tV领T恤 A股",
)


@pytest.mark.parametrize("texts", [*((text,) for text in GBK), GBK], ids=lambda texts: texts[0][:6])
@pytest.mark.parametrize("times", [1, 30])
def test_gb18030_is_read_whatever_its_characters(write, texts, times):
    content = "\n".join(("query\ttitle", *texts * times))
    source = TextSource(write("f.tsv", content.encode("gb18030")))
    assert source.encoding == "gb18030"
    assert [text for _, text in source.lines()] == content.split("\n")


@pytest.mark.parametrize(
    ("codec", "texts", "named"),
    [
        ("big5", ("悠遊卡餘額\t悠遊卡餘額查詢", "珍珠奶茶\t珍珠奶茶熱量"), "Big5.*iconv -f Big5"),
        ("cp950", ("手機充電器\t蘋果手機充電器原廠",), "Big5"),
        ("big5hkscs", ("羽絨服怎麼洗\t羽絨服的清洗方法", "港鐵\t港鐵路線圖"), "Big5"),
        ("cp932", ("東京駅\t東京駅から新宿駅まで", "中古車\t中古車の価格比較"), "Shift-JIS"),
        ("shift_jis", ("スマホケース\tスマホケース 透明 おすすめ",), "Shift-JIS"),
        (
            "cp949",
            (
                "서울 날씨\t서울 오늘 날씨 예보",
                "휴대폰 충전기\t정품 충전기",
                "갈비찜\t갈비찜 만드는 법",
            ),
            "EUC-KR",
        ),
        ("latin1", ("café crème\tmachine à café", "hôtel à Paris\thôtels étoilés"), "ISO-8859-1"),
        ("cp1252", ("größe\tSchuhgröße wählen", "müller\tMüller Öffnungszeiten"), "ISO-8859-1"),
    ],
)
def test_other_encodings_are_named(write, codec, texts, named):
    path = write("f.tsv", "\n".join(("query\ttitle", *texts)).encode(codec))
    with pytest.raises(PairFileError, match=f"looks like {named}"):
        lines(path)
