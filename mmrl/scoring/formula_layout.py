"""Formulas compared as they look: KaTeX renders them in Chromium, and symbols are compared by their places.

The browser runs in the sandbox, with KaTeX's style sheet and fonts of the machine (Debian's libjs-katex and
fonts-katex) and the script of `mmrl.scoring.katex`. It gets only formulas that this module's engine has rendered within
its limits, as data.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from mmrl.errors import ConfigError, RewardError
from mmrl.scoring.browser import page_source
from mmrl.scoring.katex import OPTIONS, katex_script, mathml, require_katex
from mmrl.scoring.subjects import require_renderer
from mmrl.scoring.symbol_layout import Layout, Symbol, drawn_alike, holds

STYLE = Path("/usr/share/javascript/katex/katex.min.css")
FONT = Path("/usr/share/fonts/truetype/katex/KaTeX_Main-Regular.ttf")
_LONGEST, _LONGEST_PAGE = 20_000, 200_000  # characters of MathML: of one formula, and of all that are laid out at once
_KEPT = 1024
_FONT_FACES = re.compile(r"@font-face\s*\{[^}]*\}")  # the machine's fonts are found by name
_PHANTOM = re.compile(r"<mphantom>.*?</mphantom>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_BLANK = re.compile(r"[\s\u200a-\u200d\u2060\ufeff]+")
_SIZES = re.compile(r"KaTeX_Size\d")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-layout'"
# One line per formula, however wide; fonts that KaTeX has and older style sheets do not name.
_OURS = """
body { margin: 0; font-size: 24px; width: 20000px; }
.katex-display { margin: 0; text-align: left; }
.katex-display > .katex { text-align: left; }
.origin { display: inline-block; width: 0; height: 0; }
.katex .mathsfit { font-family: KaTeX_SansSerif; font-style: italic; }
.katex .mathboldfrak, .katex .textboldfrak { font-family: KaTeX_Fraktur; font-weight: 700; }
"""
_SCRIPT = """
const sides = ["Top", "Right", "Bottom", "Left"];
function drawn(element, baseline) {
  const style = getComputedStyle(element);
  const pixels = Math.round(parseFloat(style.fontSize));
  const font = [style.fontFamily.split(",")[0], style.fontWeight, style.fontStyle].join(" ");
  const sign = (text, isMark, box = element.getBoundingClientRect()) => [
    text, font, pixels, box.x - baseline.x, box.y - baseline.y, box.width, box.height,
    isMark, element.closest(".accent-body") !== null, style.color === "rgba(0, 0, 0, 0)",
  ];
  if (element.tagName === "svg") {
    return [sign(element.innerHTML, true, element.parentElement.getBoundingClientRect())];
  }
  const borders = sides.filter(side => parseFloat(style[`border${side}Width`]) > 0);
  const line = borders.length ? [sign(`line ${borders.join(" ")}`, true)] : [];
  return element.children.length ? line : [...line, sign(element.textContent, false)];
}
function layout(latex) {
  const formula = document.createElement("div");
  document.body.append(formula);
  try {
    katex.render(latex, formula, {OPTIONS, output: "html"});
  } catch (error) {
    return null;
  }
  const origin = document.createElement("span");
  origin.className = "origin";
  formula.querySelector(".katex-html").prepend(origin);
  const baseline = origin.getBoundingClientRect();
  const signs = Array.from(formula.querySelectorAll("span, svg"), element => drawn(element, baseline)).flat();
  formula.remove();
  return signs.filter(([text]) => text.length);
}
document.documentElement.textContent = JSON.stringify(FORMULAS.map(layout));
""".replace("OPTIONS", OPTIONS)

_layouts: OrderedDict[str, Layout] = OrderedDict()


def require_layout(what: str, options: Mapping[str, Any], *, timeout_s: float) -> None:
    """For `preflight`: ConfigError where KaTeX, its style sheet and fonts, the browser or the sandbox are missing."""
    require_katex(what)
    require_renderer(what, "html", options, timeout_s=timeout_s)
    if missing := next((path for path in (STYLE, FONT) if not path.is_file()), None):
        raise ConfigError(f"{what} needs {missing} to lay formulas out; apt-get install libjs-katex fonts-katex")


def laid_out_alike(
    pairs: Iterable[tuple[str, str]], *, official: bool = False, time_limit_s: float = 8.0
) -> set[tuple[str, str]]:
    """Those pairs (found, wanted) of formulas that look alike, with one call of the browser for all of them.

    official: the wanted one is found within the other by olmOCR's rule, else both show the same. The browser sees only
    formulas whose letters and digits allow it. A formula that KaTeX refuses, or too large, is like none.
    Raises RewardError where the browser does not answer.
    """
    likely = [pair for pair in dict.fromkeys(pairs) if _may_match(*pair, official=official)]
    layouts = _laid_out({formula: None for pair in likely for formula in pair}, time_limit_s=time_limit_s)
    alike = holds if official else drawn_alike
    return {
        (found, wanted)
        for found, wanted in likely
        if found in layouts and wanted in layouts and alike(layouts[found], layouts[wanted])
    }


def _may_match(found: str, wanted: str, *, official: bool) -> bool:
    rendered, reference = mathml(found), mathml(wanted)
    if rendered is None or reference is None:
        return False
    if official:
        return _letters(reference) <= _letters(rendered)
    return _letters(_PHANTOM.sub("", reference)) == _letters(_PHANTOM.sub("", rendered))


def _letters(rendered: str) -> Counter[str]:
    return Counter(filter(str.isalnum, html.unescape(_TAG.sub("", rendered))))


def _laid_out(formulas: Collection[str], *, time_limit_s: float) -> dict[str, Layout]:
    layouts = {formula: _layouts[formula] for formula in formulas if formula in _layouts}
    new, left = [], _LONGEST_PAGE
    for formula in formulas:
        size = len(mathml(formula) or "")
        if formula not in layouts and size <= min(_LONGEST, left):
            new.append(formula)
            left -= size
    if new:
        layouts |= zip(new, _by_browser(new, time_limit_s=time_limit_s), strict=True)
    _layouts.update(layouts)
    for formula in layouts:
        _layouts.move_to_end(formula)
    while len(_layouts) > _KEPT:
        _layouts.popitem(last=False)
    return layouts


def _by_browser(formulas: list[str], *, time_limit_s: float) -> list[Layout]:
    style = _FONT_FACES.sub("", STYLE.read_text(encoding="utf-8")) + _OURS
    given = json.dumps(formulas).replace("<", "\\u003c")  # no formula ends the script that holds it
    page = (
        f'<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<style>{style}</style><body><script nonce="layout">{katex_script()}</script>'
        f'<script nonce="layout">{_SCRIPT.replace("FORMULAS", given)}</script>'
    )
    source = page_source(page, time_limit_s=time_limit_s)
    found = re.search(r"<html[^>]*>(.*)</html>", source or "", re.DOTALL)
    if found is None:
        raise RewardError(f"Chromium did not lay {len(formulas)} formulas out within {time_limit_s:g} s")
    return [tuple(_symbols(layout or ())) for layout in json.loads(html.unescape(found[1]))]


def _symbols(rows: Iterable[Any]) -> Iterable[Symbol]:
    """A text of several characters is drawn in one go; each gets its even share."""
    for text, font, size, x, y, width, height, *flags in rows:
        is_mark = flags[0]
        signs = [text] if is_mark else _BLANK.sub("", text)
        share = width / max(1, len(signs))
        for i, sign in enumerate(signs):
            # Larger brackets and sums are the same signs in fonts of their own.
            name = "" if is_mark else _SIZES.sub("KaTeX_Main", font)
            yield Symbol(sign, name, size, x + (i + 0.5) * share, y + height / 2, share, *flags)
