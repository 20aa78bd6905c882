"""Documents as pages: what is drawn is what the transcription says, and the mined tests tell it from a damaged one."""

import re
from collections import Counter

import numpy as np
import pypdfium2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from makers.made_tasks import files_of, make, rows_of, samples_of, scored
from makers.media import open_here

from mmrl.config.schema import BudgetClass
from mmrl.data.make_tasks.blocks import read_document, visible_html
from mmrl.data.make_tasks.documents import drawn_height
from mmrl.data.make_tasks.mining import LEAST_TESTS, mine, transcription
from mmrl.data.make_tasks.puzzle import UnusableError
from mmrl.data.make_tasks.typeset import draw_formula, random_layout, typeset, write_pdf
from mmrl.errors import ConfigError
from mmrl.scoring import browser
from mmrl.scoring.katex import require_katex
from mmrl.scoring.page_tests import Page, read_test
from mmrl.scoring.page_text import plain_text

PAGE = """<!doctype html><html><head><style>td {border: 1px solid}</style></head><body>
<header>Annual report of the harbour office</header><h1>Ships of the year</h1>
<p>In <b>June</b> the port received 1,284 vessels, more than ever before. Most of them carried timber.</p>
<p hidden>A hidden remark nobody sees.</p><script>document.body.innerHTML = ""</script>
<p>The <i>Margarethe</i> arrived first<sup>2</sup>. Her captain reported calm weather &amp; good winds.</p>
<p>The mean draught obeyed \\(d = \\frac{m}{2}\\) in both months.</p>
<table><tr><th>month</th><th>ships</th><th>tons</th></tr><tr><td>May</td><td>911</td><td>20,114</td></tr>
<tr><td>June</td><td>1,284</td><td>31,702</td></tr></table>
<ul><li>Ropes were renewed at quay seven.<li>The lighthouse got a new lantern.</ul>
<img src="a.png"><footer>Printed in Kiel</footer></body></html>"""
NOTES = r"""# On falling bodies

A body that falls freely covers $s = \frac{1}{2} g t^2$ in the time $t$. Its speed grows evenly[^1].
The **acceleration** does not depend on *mass*. It costs $5 or $6 to try.

$$E = \frac{m v^2}{2}$$

1. First, the ball is lifted to its height.
2. Then it is released without a push.
   - It falls along a straight line.

| body | mass | speed |
|---|---|---|
| marble | 5.2 g | 14.1 m/s |
| feather | 0.3 g | 1.20 m/s |

    code stays
      as it is

$$\begin{aligned} a &= b \end{aligned}$$

[^1]: Galileo measured this in Padua.
"""
TRANSCRIBED = r"""# On falling bodies

A body that falls freely covers \(s = \frac{1}{2} g t^2\) in the time \(t\). Its speed grows evenly<sup>1</sup>. \
The **acceleration** does not depend on *mass*. It costs $5 or $6 to try.

\[E = \frac{m v^2}{2}\]

1. First, the ball is lifted to its height.
2. Then it is released without a push.
    - It falls along a straight line.

<table>
<tr><th>body</th><th>mass</th><th>speed</th></tr>
<tr><td>marble</td><td>5.2 g</td><td>14.1 m/s</td></tr>
<tr><td>feather</td><td>0.3 g</td><td>1.20 m/s</td></tr>
</table>

```
code stays
  as it is
```

Galileo measured this in Padua.""".replace("\\\n", "")


@pytest.fixture(scope="module", autouse=True)
def katex():
    require_katex("page_tests")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "ships.html").write_text(PAGE, encoding="utf-8")
    (folder / "notes.md").write_text(NOTES, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def out(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("made") / "out"
    make("document", folder, out, epochs=2)
    return out


def row(out, name):
    return next(row for row in rows_of(out) if row["id"] == name)


def test_the_transcription_of_markdown(out):
    assert row(out, "notes.md:p1:v1")["transcription"] == TRANSCRIBED


def test_html_keeps_its_content_and_loses_what_is_not_seen(out):
    text = row(out, "ships.html:p1:v1")["transcription"]
    assert text.startswith("# Ships of the year\n\nIn **June** the port received 1,284 vessels")
    assert "arrived first<sup>2</sup>. Her captain reported calm weather & good winds." in text
    assert "- Ropes were renewed at quay seven.\n- The lighthouse got a new lantern." in text
    assert not {"hidden remark", "Annual report", "Printed in Kiel", "innerHTML"} & set(re.findall("|".join(
        ("hidden remark", "Annual report", "Printed in Kiel", "innerHTML")), text))  # fmt: skip


def test_what_cannot_be_drawn_is_listed(folder, tmp_path):
    reasons = {skip["reason"] for skip in make("document", folder, tmp_path / "o").skipped}
    formula = r"\begin{aligned} a &= b \end{aligned}"
    assert reasons == {
        "left out of its pages: 1 <img>",
        f"left out of its pages: a formula that mathtext cannot draw: {formula}",
    }


def test_the_page_shows_the_transcription(out):
    """Letters and digits of the PDF's own text: of the transcription without formulas, of head, foot and number."""
    for made in rows_of(out):
        cell = made["images"][0]
        page = pypdfium2.PdfDocument(out / cell["image"])[cell["page"] - 1]
        drawn = page.get_textpage().get_text_bounded()
        wanted = re.sub(r"\\\(.*?\\\)|\\\[.*?\\\]|<[^>]+>", "", made["transcription"])
        running = "Annual report of the harbour office Printed in Kiel" if "ships" in made["id"] else ""
        assert letters(drawn) == letters(f"{wanted} {running} Page 1 of 1")


def letters(text):
    return Counter(filter(str.isalnum, text))


def test_the_picture_has_the_asked_size(out):
    sample = samples_of(out)[0]
    budget = BudgetClass(min_pixels=784, max_pixels=4_000_000)
    opened = open_here(sample.media[0], budget=budget)
    assert 1270 <= max(opened.source_size) <= 1288 and sample.modality == "ocr"
    assert float(opened.frames_F3HW.float().std()) > 10  # ink


def test_gold_scores_one_and_another_page_low(out):
    notes, ships = (next(s for s in samples_of(out) if s.sample_id.startswith(name)) for name in ("notes", "ships"))
    for sample, other in ((notes, ships), (ships, notes)):
        assert scored(sample.columns["demonstration"], sample) == 1.0
        assert scored(other.columns["demonstration"], sample) < 0.2
        assert scored("", sample) <= 0.1


@pytest.mark.parametrize(
    ("name", "damage", "kinds"),
    [
        ("notes", lambda t: t.replace("<td>", "<p>").replace("</td>", "</p>"), {"table"}),
        ("notes", lambda t: t.replace("frac{1}{2}", "frac{1}{3}"), {"math"}),
        ("notes", lambda t: t.replace("**", "").replace("# On", "On"), {"format"}),
        ("notes", lambda t: t.replace("<sup>1</sup>", ""), {"footnote"}),
        ("notes", lambda t: "\n\n".join(reversed(t.split("\n\n"))), {"order"}),
        ("ships", lambda t: t + "\n\nAnnual report of the harbour office", {"absent"}),
        ("ships", lambda t: t.replace("31,702", "31,7O2").replace("timber", "timbre"), {"present", "table"}),
    ],
)  # fmt: skip
def test_each_damage_fails_its_tests_and_no_others(out, name, damage, kinds):
    sample = next(s for s in samples_of(out) if s.sample_id.startswith(name))
    truth = sample.columns["demonstration"]
    failed = failures(sample.answer, damage(truth))
    assert {test["type"] for test in failed} >= kinds
    if kinds <= {"math", "format", "footnote", "absent"}:
        assert {test["type"] for test in failed} == kinds
    assert scored(damage(truth), sample) < 1.0 and failures(sample.answer, truth) == []


def failures(tests, text):
    page = Page(text)
    return [test for test in tests if not read_test(test).passes(page, same_formula=str.__eq__)]


def test_rules_of_the_recipe(out):
    for made in rows_of(out):
        tests = made["answer"]
        counts = {kind: sum(test["type"] == kind for test in tests) for kind in {test["type"] for test in tests}}
        assert counts["baseline"] == 1 and counts["present"] <= 15 and counts["order"] <= 6 and counts["table"] <= 25
        assert counts["absent"] <= (len(tests) - counts["absent"]) // 9  # an empty page passes these alone
        for test in tests:
            if test["type"] == "order":
                assert test["max_diffs"] == round(0.02 * max(len(test["before"]), len(test["after"])))
            if test["type"] == "absent":
                assert test["max_diffs"] == round(0.05 * len(test["text"]))
            if test["type"] == "present":
                assert plain_text(made["transcription"]).count(test["text"]) == 1


def test_versions_differ_and_a_seed_repeats_them(folder, out, tmp_path):
    one, two = (row(out, f"notes.md:p1:{version}")["images"][0]["image"] for version in ("v1", "v2"))
    assert (out / one).read_bytes() != (out / two).read_bytes()
    make("document", folder, tmp_path / "again", epochs=2)
    assert files_of(out) == files_of(tmp_path / "again")


def test_long_documents_fill_pages_and_pages_partition_them(tmp_path):
    (tmp_path / "in").mkdir()
    words = ["harbour", "lantern", "captain", "vessel", "timber", "anchor", "compass", "rudder"]
    parts = [
        f"Entry {n} tells of the {words[n % 8]} number {n * 37 + 1000}. It was a calm day at sea." for n in range(150)
    ]
    (tmp_path / "in" / "log.md").write_text("\n\n".join(parts), encoding="utf-8")
    make("document", tmp_path / "in", tmp_path / "out")
    rows = rows_of(tmp_path / "out")
    assert len(rows) >= 3
    assert "\n\n".join(made["transcription"] for made in rows) == "\n\n".join(parts)
    assert [made["images"][0]["page"] for made in rows] == list(range(1, len(rows) + 1))


def test_too_little_text_makes_no_row(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text(NOTES, encoding="utf-8")
    (tmp_path / "in" / "b.md").write_text("# Hi\n", encoding="utf-8")
    (tmp_path / "in" / "c.md").write_bytes(b"\xff\xfe bad")
    (tmp_path / "in" / "d.md").write_text("中文 " * 40, encoding="utf-8")
    made = make("document", tmp_path / "in", tmp_path / "out")
    reasons = {skip["source"]: skip["reason"] for skip in made.skipped}
    assert reasons["b.md"] == f"page 1: holds too little for {LEAST_TESTS} tests"
    assert reasons["c.md"] == "not UTF-8 text (invalid start byte at byte 0)"
    assert reasons["d.md"].startswith("left out of its pages: a block with characters that no font here has: 中 文")


TAGS = ("p", "b", "i", "sup", "ul", "li", "ol", "table", "tr", "td", "th", "pre", "h2", "div", "br", "span", "header")
PIECES = st.one_of(
    st.sampled_from(
        [f"<{tag}>" for tag in TAGS] + [f"</{tag}>" for tag in TAGS] + ["<td colspan=3>", "<img>", "<!-- "]
    ),
    st.text(alphabet="ab1 <&>\"'`*_$\\\\()[]#|\n", max_size=12),
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PIECES, max_size=30), st.booleans())
def test_any_document_is_read_and_set_or_left_out_with_a_reason(tmp_path, pieces, is_markdown):
    document = read_document("".join(pieces), is_markdown=is_markdown)
    layout = random_layout(np.random.default_rng(0), document)
    pages, left_out = typeset(document, layout, scratch=tmp_path)
    assert sum(len(page.blocks) for page in pages) + len(left_out) == len(document.blocks)
    write_pdf(tmp_path / "a.pdf", pages, layout, document)
    for page in pages:
        tests = mine(page, document, documents_with={}, rng=np.random.default_rng(0))
        assert failures(tests, transcription(page.blocks)) == []


def test_an_unknown_renderer_is_an_error(folder, tmp_path):
    with pytest.raises(ConfigError, match="--renderer 'word' is neither pages nor browser"):
        make("document", folder, tmp_path / "out", renderer="word")


def test_nested_and_unusual_html():
    nested = "<div>loose <b>text</b><div><p>in <span>a <em>span</em></span></p>tail</div></div>"
    text = f"{nested}<ol start=3><li>x<p>y</p></ol>"
    blocks = read_document(text, is_markdown=False).blocks
    assert [block.markdown for block in blocks] == ["loose **text**", "in a *span*", "tail", "3. x", "y"]
    table = "<table><tr><th colspan=2>A &lt; B<tr><td>a <b>b</b>,<td>c</table>"
    (block,) = read_document(table, is_markdown=False).blocks
    assert (
        transcription([block])
        == '<table>\n<tr><th colspan="2">A &lt; B</th></tr>\n<tr><td>a b,</td><td>c</td></tr>\n</table>'
    )


def test_a_page_that_begins_with_a_rule_has_no_front_matter(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text(f"---\n\n{NOTES}\n\n---\n\nAn end.", encoding="utf-8")
    make("document", tmp_path / "in", tmp_path / "out")
    (sample,) = samples_of(tmp_path / "out")
    assert scored(sample.columns["demonstration"], sample) == 1.0


def test_formulas_that_cannot_be_drawn(tmp_path):
    drawn = draw_formula(r"\frac{1}{2}", 10.0, tmp_path / "f.png")
    assert drawn.width > 3 and drawn.height > 10 > drawn.depth > 0
    for tex in (r"\begin{matrix} a \end{matrix}", "a$b", "a\nb", r"\frac{1}{"):
        with pytest.raises(UnusableError, match="a formula"):
            draw_formula(tex, 10.0, tmp_path / "g.png")


def test_the_browser_shows_content_only():
    page = visible_html(PAGE)
    assert "td {border: 1px solid}" in page and "Ships of the year" in page and "Annual report" in page
    assert not re.search("<script|hidden remark|<img", page)
    white = np.full((20, 10, 3), 255, np.uint8)
    assert drawn_height(white) == 0
    white[7, 3] = 0
    assert drawn_height(white) == 8


@pytest.mark.skipif(browser.program() is None, reason="Chromium is not installed")
def test_html_in_a_browser(folder, tmp_path):
    made = make("document", folder, tmp_path / "out", renderer="browser")
    (sample,) = samples_of(tmp_path / "out")
    assert scored(sample.columns["demonstration"], sample) == 1.0
    pixels = open_here(sample.media[0], budget=BudgetClass(min_pixels=784, max_pixels=4_000_000)).frames_F3HW
    assert float(pixels.float().std()) > 10
    assert {
        "source": "notes.md",
        "version": 1,
        "reason": "a browser shows HTML; Markdown needs --renderer pages",
    } in made.skipped
