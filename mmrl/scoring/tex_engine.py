"""Compiling what a model wrote by pdfTeX, in the sandbox.

Beside the sandbox's walls TeX keeps its own: no shell escape (`\\write18`), no reading or writing outside the current
folder (`openin_any`, `openout_any` paranoid), no programs that make fonts.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from mmrl.scoring.kept import kept
from mmrl.scoring.sandbox import Job, Limits, Result, Tree, run

PROGRAMS = ("pdflatex",)
INSTALL = "apt-get install texlive-latex-base texlive-latex-recommended"
_FOLDERS = ("/usr/share/texlive", "/usr/share/texmf", "/usr/share/texmf-dist", "/var/lib/texmf", "/etc/texmf")
_OPTIONS = (
    "-no-shell-escape", "-interaction=batchmode", "-halt-on-error", "-no-mktex=tex", "-no-mktex=tfm", "-no-mktex=pk",
    "page.tex",
)  # fmt: skip
_PACKAGES = ("amsmath", "amssymb", "amsthm", "array", "bm", "booktabs", "longtable", "multirow", "tabularx", "url")
# Figures of a page have names and no files, so a box stands for each.
_BEFORE = r"""\documentclass{article}
%s
\newcommand{\includegraphics}[2][]{\fbox{\detokenize{#2}}}
\providecommand{\citep}[2][]{\cite{#2}}\providecommand{\citet}[2][]{\cite{#2}}
\providecommand{\autoref}[1]{\ref{#1}}\providecommand{\cref}[1]{\ref{#1}}\providecommand{\href}[2]{#2}
\begin{document}
"""
_AFTER = "\n\\end{document}\n"


def compile_page(body: str, *, time_limit_s: float = 8.0) -> Result:
    """Compile the body of a document, without preamble, in a minimal one. Its PDF, if any, is `files["page.pdf"]`."""
    packages = "\n".join(rf"\IfFileExists{{{name}.sty}}{{\usepackage{{{name}}}}}{{}}" for name in _PACKAGES)
    return compile_document(_BEFORE % packages + body + _AFTER, time_limit_s=time_limit_s)


def compile_document(document: str, *, time_limit_s: float = 8.0, go_on: bool = False) -> Result:
    """Compile a whole document once. The log is `files["page.log"]`. go_on: past errors, as TeX can."""
    found = shutil.which(PROGRAMS[0])
    assert found is not None, "preflight looks for it"
    engine = Path(found)
    folders = [engine, engine.resolve(), *(Path(f) for f in _FOLDERS)]
    job = Job(
        (str(engine), *(option for option in _OPTIONS if not (go_on and option == "-halt-on-error"))),
        files={"page.tex": document.encode("utf-8", "replace")},
        reads=tuple(Tree(path) for path in dict.fromkeys(folders) if path.exists()),
        env={"openin_any": "p", "openout_any": "p"},
        collect=("page.pdf", "page.log"),
        limits=Limits(wall_s=time_limit_s),
    )
    return run(job)


def compiles(text: str, *, time_limit_s: float = 8.0) -> bool:
    r"""Whether it compiles without an error and gives at least one page.

    text: a whole document if it begins with `\documentclass`, else the body of one.
    """
    return _compiled(text, time_limit_s=time_limit_s) or False


@kept(most=256)
def _compiled(text: str, *, time_limit_s: float) -> bool | None:
    compile_it = compile_document if text.lstrip().startswith(r"\documentclass") else compile_page
    result = compile_it(text, time_limit_s=time_limit_s)
    return result.ok and "page.pdf" in result.files if result.killed_by is None else None
