"""What the pages show is true: commands parse and run, configurations load, keys exist, messages are what is said."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pytest
import typer
import yaml
from makers.configs import geometry_folder, media_rows
from makers.faulty import write_faulty_rows
from makers.pages import PAGES, ROOT, anchors, blocks, commands, output_of, python_files, trees
from makers.rows import write_jsonl
from makers.tiny_models import tiny_model_dir
from pydantic import BaseModel
from typer.exceptions import TyperException

from mmrl.cli import app, main
from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError

COMMANDS, TROUBLES = ROOT / "docs" / "commands.md", ROOT / "docs" / "troubleshooting.md"
ALTERNATIVES = ["cache", "ls|verify|prune|explain"]  # README names four commands at once
FILE_ENDINGS = {"py", "md", "json", "jsonl", "yaml", "safetensors"}
SHELL: Any = typer.main.get_command(app)
_THEIRS = re.compile(r"^\| theirs \| here \|.*?\n\n", re.MULTILINE | re.DOTALL)


def parse(command: Any, arguments: list[str], name: str = "mmrl") -> None:
    """Parse as the command line does, running nothing. Raises what an unknown command or option raises."""
    if any(argument.endswith("-completion") for argument in arguments):  # these act while they are parsed
        assert {*arguments} <= {option for known in command.params for option in known.opts}
        return
    try:
        context = command.make_context(name, list(arguments))
    except typer.Exit:  # --help, --version
        return
    if hasattr(command, "resolve_command"):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if rest:
            found, below, rest = command.resolve_command(context, rest)
            parse(below, rest, found)


def shown_commands() -> list[tuple[str, list[str]]]:
    found = [(block.where, arguments) for page in PAGES for block in blocks(page) for arguments in commands(block)]
    return [(where, arguments) for where, arguments in found if arguments != ALTERNATIVES]


def test_every_command_shown_parses():
    found = shown_commands()
    assert len(found) > 50
    for where, arguments in found:
        try:
            parse(SHELL, arguments)
        except TyperException as error:
            pytest.fail(f"{where}: mmrl {' '.join(arguments)}: {error}")


@pytest.mark.parametrize(
    ("line", "wrong"), [("chekc a.yaml", "chekc"), ("check a.yaml --medai all", "--medai"), ("list model", "model")]
)
def test_a_command_that_does_not_exist_would_be_found(line, wrong):
    with pytest.raises(TyperException, match=wrong):
        parse(SHELL, line.split())


def test_every_command_has_a_section():
    text = COMMANDS.read_text()
    assert [name for name in SHELL.commands if f"\n## mmrl {name}\n" not in text] == []
    assert [name for name in SHELL.commands["cache"].commands if f"$ mmrl cache {name}" not in text] == []


def test_every_configuration_shown_loads(tmp_path):
    for name, text in python_files():
        (tmp_path / name).write_text(text)
    loaded = 0
    for page in PAGES:
        for block, tree in trees(page):
            if tree.keys() <= RunConfig.model_fields.keys():
                path = tmp_path / "shown.yaml"
                path.write_text(yaml.safe_dump(completed(tree), sort_keys=False))
                try:
                    load_config(path)
                except ConfigError as error:
                    pytest.fail(f"{block.where}: {error}")
                loaded += 1
    assert loaded > 20


def completed(tree: dict[str, Any]) -> dict[str, Any]:
    """The shown part of a configuration with the least that makes it a whole one."""
    rows = [{"path": "rows.jsonl", "card": "easyr1"}]
    least = {
        "model": {"path": "model"},
        "data": {"train": rows, "val": rows},
        "rewards": {"tasks": {"t": [{"reward": "choice"}]}},
    }
    return {**tree, **{section: {**keys, **tree.get(section, {})} for section, keys in least.items()}}


def test_every_key_named_exists():
    unknown = [
        f"{page.name}: {key}"
        for page in PAGES
        for key in named_keys(page.read_text(encoding="utf-8"))
        if not key_exists(RunConfig, key.replace("[]", ".0").split("."))
    ]
    assert unknown == []


def test_a_key_that_does_not_exist_would_be_found():
    assert list(named_keys("Set `data.max_promt_tokens` or `data.too_long: skip`.")) == [
        "data.max_promt_tokens",
        "data.too_long",
    ]
    assert not key_exists(RunConfig, ["data", "max_promt_tokens"]) and key_exists(RunConfig, ["stages", "rl", "lr"])


def named_keys(text: str) -> list[str]:
    """`section.key` in backticks, without the columns of tables that hold the keys of other tools."""
    sections = "|".join(RunConfig.model_fields)
    text = _THEIRS.sub(lambda table: re.sub(r"^\|[^|]*\|", "|", table[0], flags=re.MULTILINE), text + "\n\n")
    found = re.findall(rf"`((?:{sections})(?:\.[a-z_0-9]+(?:\[\])?)+)(?:[:=][^`]*)?`", text)
    return [key for key in found if key.rpartition(".")[2] not in FILE_ENDINGS]


def test_keys_of_the_migration_tables_exist():
    """Their second column names keys of ours, in full or by the last part alone."""
    text = (ROOT / "docs" / "migration.md").read_text()
    cells = [line.split("|")[2] for table in _THEIRS.findall(text) for line in table.splitlines()[2:] if line]
    named = {key for cell in cells for key in re.findall(r"(?<!\()`([a-z_]+)(?=[`:])", cell)}
    assert len(cells) > 80 and len(named) > 15
    assert named - all_keys(RunConfig) == set()


def all_keys(section: type[BaseModel]) -> set[str]:
    """The last parts of all keys below a section."""
    keys = set(section.model_fields)
    for field in section.model_fields.values():
        for kind in sections_in(field.annotation):
            keys |= all_keys(kind)
    return keys


def sections_in(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from sections_in(inner)


def key_exists(kind: Any, parts: list[str]) -> bool:
    """Whether a dotted key leads somewhere in a section: any name fits a mapping, any name or number a list."""
    if not parts or kind is Any:
        return True
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(parts[0])
        return field is not None and key_exists(field.annotation, parts[1:])
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(key_exists(option, parts) for option in inner)
    if origin is dict:
        return key_exists(inner[1], parts[1:])
    return origin is tuple and (key_exists(inner[0], parts[1:]) or key_exists(inner[0], parts))


def test_anchors_of_links_exist():
    for page in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
            target = (page.parent / link) if link else page
            assert link.startswith("http") or anchor in anchors(target), f"{page.name}: {link}#{anchor}"


def test_every_page_is_listed_in_the_readme():
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"(docs/{page.name})" not in readme] == []


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.fixture
def tiny_folder(tmp_path, monkeypatch) -> Path:
    """A folder in which the commands of docs/commands.md find what they name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    shutil.copytree(tiny_model_dir("qwen2_5_vl"), tmp_path / "data" / "model")
    rows = [
        {
            "id": f"r{number}",
            "problem": row["prompt"],
            "answer": "B",
            "problem_type": "quadrant",
            "images": row["images"],
            "videos": [],
        }
        for number, row in enumerate(media_rows(tmp_path / "data", images=2))
    ]
    for name in ("train", "val"):
        write_jsonl(tmp_path / "data" / f"{name}.jsonl", rows)
    [tree] = [tree for block, tree in trees(COMMANDS) if tree.get("name") == "my-run"]
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(tree))
    scored = next(block for block in blocks(ROOT / "docs" / "rewards.md") if "$ cat completions.jsonl" in block.text)
    (tmp_path / "completions.jsonl").write_text("\n".join(line for line in scored.text.splitlines() if line[0] == "{"))
    write_finished_run(tmp_path)
    return tmp_path


def write_finished_run(folder: Path) -> None:
    """As much of a run folder as `runs` and `score` read."""
    from mmrl.config.load import write_resolved

    (folder / "runs" / "my-run").mkdir(parents=True)
    write_resolved(load_config(folder / "my.yaml"), folder / "runs" / "my-run" / "resolved.yaml")
    row = {"id": "r0", "task": "quadrant", "answer": "B", "completion": "B"}
    write_jsonl(folder / "runs" / "my-run" / "rollouts.jsonl", [row])


def test_the_commands_of_the_page_run(tiny_folder, capsys):
    returned = {}
    for block in blocks(COMMANDS):
        for arguments in commands(block):
            if arguments[0] in ("init", "check", "preprocess", "list", "schema", "runs", "score", "cache"):
                # Object storage is a folder here.
                returned[" ".join(arguments)] = run(*(a.replace("s3://", f"file://{tiny_folder}/") for a in arguments))
                said = capsys.readouterr()
                if arguments[0] == "list" or arguments[1:2] == ["completions.jsonl"]:
                    assert said.out + said.err == output_of(block, arguments), arguments
    one_answer_is_no_box = {"score completions.jsonl --out scored.jsonl": 1}
    assert {command: code for command, code in returned.items() if code} == one_answer_is_no_box
    assert len(returned) > 12


def test_what_is_said_about_rows_and_media_is_what_the_page_shows(tmp_path, monkeypatch):
    """Faults 1-16, 27-31, 32-40 as a user meets them: the page quotes each message as the code writes it."""
    monkeypatch.chdir(tmp_path)
    write_faulty_rows(tmp_path / "data")
    card = {"columns": {name: name for name in ("prompt", "answer", "task", "images", "videos", "id")}}
    tree = {
        "model": {"path": str(geometry_folder(tmp_path / "model"))},
        "data": {"train": [{"path": "data/train.jsonl", "card": card}], "decode_workers": 1},
    }
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(tree))
    assert run("preprocess", "my.yaml") == 1
    lines = (tmp_path / ".mmrl_cache" / "failures.jsonl").read_text().splitlines()
    assert len(lines) == 22
    shown = without_versions(TROUBLES.read_text())
    for failure in map(json.loads, lines):
        said = f"{failure['where']}: {failure['reason']}".replace(str(tmp_path), "")
        assert without_versions(said) in shown, said


def without_versions(text: str) -> str:
    return re.sub(r"reader pyav [\d.]+", "reader pyav", text)


CONFIG_FAULTS = {
    "unknown": {"budgets": {"image": {"max_pixel": 1}}},
    "no pixels in the model": {"model": {"path": "m", "max_pixels": 1}},
    "two limits": {"budgets": {"image": {"min_pixels": 7056, "max_pixels": 3136}}},
    "two counts": {"budgets": {"video": {"min_frames": 8, "max_frames": 4}}},
    "a reader": {"data": {"video": {"reader": "decrod"}}},
    "a reward": {"rewards": {"tasks": {"quadrant": [{"reward": "choise"}]}}},
    "one completion": {
        "rollout": {"group_size": 1},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": 1}],
    },
    "a batch": {"rollout": {"max_new_tokens": 9, "max_batch_tokens": 9}},
}


@pytest.mark.parametrize("changes", CONFIG_FAULTS.values(), ids=CONFIG_FAULTS)
def test_what_is_said_about_a_configuration_is_what_the_page_shows(changes, tmp_path):  # faults 20, 33
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump(completed(changes)))
    with pytest.raises(ConfigError) as error:
        load_config(path)
    shown = re.sub(r"my\.yaml:\d+: ", "", TROUBLES.read_text())
    for line in str(error.value).splitlines():
        fact = re.sub(r"^.*my\.yaml:\d+: ", "", line)
        assert fact in shown or fact.partition(", which counts")[0] in shown, fact


REFUSALS = (
    "check my.yaml data.max_prompt_tokens=29",
    "train my.yaml name=long data.max_prompt_tokens=29",
    "train my.yaml name=miss cache.on_miss=error",
    "train my.yaml",
    "cache ls --dir nowhere",
    "cache prune '20 gigs'",
)


def test_what_is_said_by_commands_is_what_the_page_shows(tiny_folder, capsys):  # faults 2-5, 8, 51
    (tiny_folder / "runs" / "my-run" / "metrics.jsonl").write_text('{"step": 1, "stage": "warm_start"}\n')
    shown = without_names(TROUBLES.read_text())
    for line in REFUSALS:
        if "on_miss" in line:
            shutil.rmtree(tiny_folder / ".mmrl_cache")
        assert run(*shlex.split(line)) in (1, 2)
        said = capsys.readouterr()
        found = re.findall(r"^(?:error|problem): .*$", said.out + said.err, re.MULTILINE)
        assert found and all(without_names(message) in shown for message in found), found


def without_names(text: str) -> str:
    """Numbers, ids and file names taken out: they are those of another dataset on the page."""
    text = re.sub(r"\(id=[^)]*\)", "(id)", re.sub(r"\S*/data/\S+?(?=[:,;]? )", "FILE", text))
    return re.sub(r"\d+", "N", re.sub(r"\b(?:train|val|held_out)\b", "SET", text))
