"""The table of benchmarks in docs/evaluate.md is that of the task files."""

from makers.tools import load_tool


def test_the_table_of_benchmarks_is_current():
    tool = load_tool("write_benchmark_table")
    text = tool.TARGET.read_text()
    assert tool.with_table(text, tool.table()) == text, "run `python tools/write_benchmark_table.py`"
