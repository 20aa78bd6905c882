import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import mmrl
from mmrl.config.load import config_differences, load_config, read_section, write_resolved
from mmrl.config.schema import CardSection, RunConfig
from mmrl.errors import ConfigError

MINIMAL = "model: {path: m}\n"
ALIASES_OF_ALIASES = "a0: &a0 x\n" + "".join(f"a{n + 1}: &a{n + 1} [{10 * f'*a{n}, '}]\n" for n in range(9))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_minimal_config_gets_every_default():
    config = load_config(write(Path("a.yaml"), MINIMAL))
    assert config.rollout.group_size == 8
    assert config.model.path == str(Path("m").resolve())


def test_base_merges_mappings_replaces_lists_and_the_later_base_wins():
    write(
        Path("base/one.yaml"),
        "model: {path: m, freeze: [projector, vision_tower]}\nrollout: {top_k: 5, group_size: 3}\n",
    )
    write(Path("base/two.yaml"), "rollout: {group_size: 4}\n")
    path = write(Path("a.yaml"), "base: [base/one.yaml, base/two.yaml]\nmodel: {freeze: [projector]}\n")
    config = load_config(path)
    assert (config.rollout.top_k, config.rollout.group_size, config.model.freeze) == (5, 4, ("projector",))


def test_relative_paths_start_from_the_file_that_writes_them():  # fault 31
    write(Path("base/é ü.yaml"), "model: {path: ../models/m}\ndata: {train: [{path: rows.jsonl, root: media}]}\n")
    write(Path("base/reward.py"), "")
    path = write(
        Path("runs/a.yaml"),
        "base: ../base/é ü.yaml\nrewards: {tasks: {t: [{reward: '../base/reward.py:score'}]}}\n"
        "data: {val: [{path: val.jsonl, card: cards/x.yaml}]}\n",
    )
    config = load_config(path, ["data.val.0.root=here"])
    here = Path.cwd()
    assert config.model.path == str(here / "models/m")
    assert config.data.train[0].path == str(here / "base/rows.jsonl")
    assert config.data.train[0].root == str(here / "base/media")
    assert config.data.val[0].path == str(here / "runs/val.jsonl")
    assert config.data.val[0].card == str(here / "runs/cards/x.yaml")
    assert config.data.val[0].root == str(here / "here")
    assert config.rewards.tasks["t"][0].reward == f"{here}/base/reward.py:score"
    assert (config.out_dir, config.cache.dir) == ("runs", ".mmrl_cache")


def test_a_shipped_card_name_stays_a_name():
    config = load_config(write(Path("a.yaml"), MINIMAL + "data: {train: [{path: x.jsonl, card: easyr1}]}\n"))
    assert config.data.train[0].card == "easyr1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            MINIMAL + "rollout:\n  grup_size: 4\n",
            "a.yaml:3: key 'rollout.grup_size' is unknown; did you mean 'rollout.group_size'?",
        ),
        (MINIMAL + "group_size: 4\n", "a.yaml:2: key 'group_size' is unknown; did you mean 'rollout.group_size'?"),
        (
            MINIMAL + "rollout:\n  group_size: '4'\n",
            "a.yaml:3: key 'rollout.group_size' should be a whole number, not \"4\"",
        ),
        (
            MINIMAL + "rollout:\n  group_size: true\n",
            "a.yaml:3: key 'rollout.group_size' should be a whole number, not true",
        ),
        (MINIMAL + "rollout:\n  group_size: 0\n", "a.yaml:3: key 'rollout.group_size' should be greater than 0, not 0"),
        (MINIMAL + "seed: .nan\n", "a.yaml:2: key 'seed' should be a whole number, not NaN"),
        ("seed: 1\n", "a.yaml:1: key 'model' is missing; it has no default"),
        (
            MINIMAL + "stages:\n  - name: s\n    kind: ppo\n    steps: 1\n    prompts_per_step: 1\n",
            "a.yaml:4: key 'stages.0.kind' should be 'sft', 'grpo', 'dpo' or 'sample', not \"ppo\"",
        ),
        (
            MINIMAL + "rewards:\n  combine: orderd\n",
            "a.yaml:3: key 'rewards.combine' should be 'sum', 'product', 'ordered' or 'normalised_sum', not \"orderd\"",
        ),
        (
            MINIMAL + "rewards:\n  combine: {t: best}\n",
            "a.yaml:3: key 'rewards.combine.t' should be 'sum', 'product', 'ordered' or 'normalised_sum', not \"best\"",
        ),
        (
            MINIMAL + "rewards:\n  tasks: {t: [{reward: choice, gate: {min: high}}]}\n",
            "a.yaml:3: key 'rewards.tasks.t.0.gate.min' should be a number, not \"high\"",
        ),
        (
            MINIMAL + "rewards:\n  tasks: {t: [{reward: choice, weight: .nan}]}\n",
            "a.yaml:3: key 'rewards.tasks.t.0.weight' should be a finite number, not NaN",
        ),
        (
            MINIMAL + "rewards:\n  tasks: {t: [{reward: choice, gate: often}]}\n",
            "a.yaml:3: key 'rewards.tasks.t.0.gate' should be true or false, not \"often\"",
        ),
        (
            MINIMAL + "data:\n  train:\n    - path: x\n      card:\n        presett: easyr1\n",
            "a.yaml:6: key 'data.train.0.card.presett' is unknown; did you mean 'data.train.0.card.preset'?",
        ),
        (
            MINIMAL + "data:\n  train:\n    - path: x\n      card: [1]\n",
            "a.yaml:5: key 'data.train.0.card' should be text, not [1]",
        ),
        (
            MINIMAL + "budgets:\n  image:\n    max_pixel: 5\n",
            "a.yaml:4: key 'budgets.image.max_pixel' is unknown; did you mean 'budgets.image.max_pixels'?",
        ),  # fault 20
        (MINIMAL + "seed: 1\nseed: 2\n", "a.yaml:3: key 'seed' is written twice (first on line 2)"),
        (
            "model:\n\tpath: m\n",
            "a.yaml:2: not valid YAML at column 1: indent with spaces, not tabs",
        ),
        (
            "model: {path: m\n",
            "a.yaml:2: not valid YAML at column 1: a bracket or brace is not closed,"
            " or a comma is missing (opened on line 1)",
        ),
        ("- 1\n", "a.yaml:1: a configuration is a mapping of keys, not a list"),
        (
            MINIMAL + "seed: !!python/name:os.system x\n",
            "a.yaml:2: tag 'tag:yaml.org,2002:python/name:os.system' is not supported;"
            " write plain text, numbers, lists and mappings",
        ),
        (MINIMAL + "base: no.yaml\n", "a.yaml:2: key 'base': there is no file no.yaml"),
        (MINIMAL + "seed: &a [*a]\n", "a.yaml:2: an alias contains itself"),
        (MINIMAL + "data: \x07\n", "a.yaml:2: not valid YAML: character 7 is not allowed"),
    ],
)
def test_error_names_file_line_key_and_remedy(text, message):
    with pytest.raises(ConfigError) as error:
        load_config(write(Path("a.yaml"), text))
    assert str(error.value).splitlines()[0] == message


def test_error_in_a_base_names_the_base():
    write(Path("base/b.yaml"), "# comment\nrollout:\n  grup_size: 4\n")
    with pytest.raises(ConfigError, match=r"^base/b\.yaml:3: key 'rollout\.grup_size'"):
        load_config(write(Path("a.yaml"), "base: base/b.yaml\nmodel: {path: m}\n"))


def test_a_base_that_goes_in_a_circle():
    write(Path("b.yaml"), "base: a.yaml\n")
    with pytest.raises(ConfigError, match=r"^a\.yaml -> b\.yaml -> a\.yaml: 'base' goes in a circle"):
        load_config(write(Path("a.yaml"), "base: b.yaml\n"))


def test_a_base_shared_by_two_bases_is_no_circle():
    write(Path("c.yaml"), MINIMAL)
    write(Path("b.yaml"), "base: c.yaml\n")
    assert load_config(write(Path("a.yaml"), "base: [b.yaml, c.yaml]\n")).name == "run"


def test_missing_file_and_not_utf8():
    with pytest.raises(ConfigError, match=r"^no\.yaml: cannot be read: No such file"):
        load_config(Path("no.yaml"))
    Path("latin.yaml").write_bytes(b"seed: 1\nname: \xe9\n")
    with pytest.raises(ConfigError, match=r"^latin\.yaml:2: not UTF-8"):
        load_config(Path("latin.yaml"))


def test_all_errors_are_reported_but_at_most_twenty():
    wrong = "".join(f"wrong_{i}: 1\n" for i in range(25))
    with pytest.raises(ConfigError) as error:
        load_config(write(Path("a.yaml"), MINIMAL + wrong))
    lines = str(error.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "... and 5 more"


STAGES = MINIMAL + "data: {train: [{path: x}]}\nstages:\n- {name: warm, kind: sft, steps: 5, prompts_per_step: 2}\n"


@pytest.mark.parametrize("key", ["stages.0.steps", "stages.warm.steps"])
def test_override_by_index_or_name(key):
    assert load_config(write(Path("a.yaml"), STAGES), [f"{key}=3"]).stages[0].steps == 3


def test_overrides_parse_as_yaml_and_create_sections():
    overrides = [
        "stages.warm.lr=1e-6",
        "rollout.stop=['</answer>']",
        "algorithm.dual_clip=null",
        "budgets.gui.max_frames=9",
    ]
    config = load_config(write(Path("a.yaml"), STAGES), overrides)
    assert config.stages[0].lr == 1e-6
    assert config.rollout.stop == ("</answer>",)
    assert config.algorithm.dual_clip is None
    assert config.budgets["gui"].max_frames == 9


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "rollout.grup_size=4",
            "override 'rollout.grup_size=4': key 'rollout.grup_size' is unknown; did you mean 'rollout.group_size'?",
        ),
        (
            "stages.hot.steps=3",
            "override 'stages.hot.steps=3': key 'stages' is a list of 1; it has no entry 'hot'; names: warm",
        ),
        ("seed", "override 'seed': expected key.sub=value"),
        ("seed.a=1", "override 'seed.a=1': key 'seed' is unknown"),
        ("model.path.x=1", "override 'model.path.x=1': key 'model.path' is text (a.yaml:1), it has no keys inside"),
        (
            "rollout.stop=[a",
            "override 'rollout.stop=[a': not valid YAML at column 3: a bracket or brace is not closed,"
            " or a comma is missing (opened on line 1)",
        ),
        (
            'rollout.stop=[""]',
            "override 'rollout.stop=[\"\"]': key 'rollout.stop.0' should be a text that is not empty, not \"\"",
        ),
        ("seed=x", "override 'seed=x': key 'seed' should be a whole number, not \"x\""),
    ],
)
def test_error_of_an_override_names_the_override(override, message):
    if override == "seed.a=1":
        message = "override 'seed.a=1': key 'seed' should be a whole number, not {\"a\": 1}"
    with pytest.raises(ConfigError) as error:
        load_config(write(Path("a.yaml"), STAGES), [override])
    assert str(error.value).splitlines()[0] == message


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-6", 1e-6), ("1E3", 1000.0), ("-.5", -0.5), (".inf", math.inf), ("010", 10), ("0x10", 16), ("yes", "yes"),
     ("12:30", "12:30"), ("2024-01-01", "2024-01-01"), ("~", None), ("", None), ("True", True),
     ("1_000", "1_000"), ("e5", "e5")],
)  # fmt: skip
def test_scalars_follow_the_core_schema(text, value):
    tasks = f"rewards: {{tasks: {{t: [{{reward: r, options: {{x: {text}}}}}]}}}}\n"
    path = write(Path("a.yaml"), MINIMAL + tasks)
    section = read_section(path, RunConfig)
    assert section.rewards.tasks["t"][0].options["x"] == value


def test_anchors_and_merge_keys():
    text = MINIMAL + "budgets:\n  image: &small {max_pixels: 9000}\n  gui: {<<: *small, max_frames: 7}\n"
    config = load_config(write(Path("a.yaml"), text))
    assert (config.budgets["gui"].max_pixels, config.budgets["gui"].max_frames) == (9000, 7)


def test_writing_one_budget_keeps_the_default_ones():
    text = MINIMAL + "budgets: {gui: {max_frames: 9}, video: {max_frames: 16}}\n"
    budgets = load_config(write(Path("a.yaml"), text)).budgets
    assert sorted(budgets) == ["gui", "image", "video"]
    assert (budgets["video"].max_frames, budgets["video"].max_pixels) == (16, 768 * 28 * 28)


def test_read_section_reads_a_card_with_the_same_errors():
    assert read_section(write(Path("card.yaml"), "columns: {prompt: problem}\n"), CardSection).columns == {
        "prompt": "problem"
    }
    with pytest.raises(ConfigError, match=r"^card\.yaml:1: key 'colums' is unknown; did you mean 'columns'\?"):
        read_section(write(Path("card.yaml"), "colums: {prompt: problem}\n"), CardSection)


def test_resolved_config_loads_to_the_same_config(tmp_path):
    config = load_config(write(Path("a.yaml"), STAGES), ["stages.0.lr=1e-6"])
    write_resolved(config, tmp_path / "sub.yaml")
    assert load_config(tmp_path / "sub.yaml") == config


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8)
    | st.sampled_from(["1e-6", "yes", "null", "010", "1:30", "=", "<<", "a: b", "\u2028", "\x85", "- x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(options=st.dictionaries(st.text(max_size=6), JSON, max_size=3))
def test_resolved_config_keeps_any_option(options, tmp_path_factory):
    config = RunConfig.model_validate(
        {"model": {"path": "/m"}, "rewards": {"tasks": {"t": [{"reward": "r", "options": options}]}}}
    )
    path = tmp_path_factory.mktemp("c") / "r.yaml"
    write_resolved(config, path)
    assert read_section(path, RunConfig) == config
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == config.model_dump(mode="json")


ODD_PLACES = ["stages", "data", "budgets", "checkpoint", "model", "rollout", "seed", "rewards.tasks", "rewards.tasks.t"]
ODD_PLACES += ["data.train", "data.train.0.card", "data.train.0.card.columns", "budgets.image", "stages.0.data"]


@settings(max_examples=150, deadline=None)
@given(
    key=st.sampled_from(ODD_PLACES),
    value=JSON,
)
def test_no_value_anywhere_is_worse_than_a_config_error(key, value, tmp_path_factory):
    path = tmp_path_factory.mktemp("c") / "a.yaml"
    path.write_text(STAGES, encoding="utf-8")
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n")
    try:
        load_config(path, [f"{key}={text}"])
    except ConfigError as error:
        assert str(error)


def test_config_differences_lists_key_by_key():
    old = {"a": {"b": 1, "c": [1, 2]}, "d": {}, "e": 1}
    new = {"a": {"b": 2, "c": [1]}, "d": {}, "f": None}
    assert config_differences(old, new) == [
        "a.b: 1 -> 2",
        "a.c: [1, 2] -> [1]",
        "e: 1 -> (not set)",
        "f: (not set) -> null",
    ]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (["opo"], [], ['k: ["opo"] -> []']),
        ([], ["opo"], ['k: [] -> ["opo"]']),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 3}], ["k.1.a: 2 -> 3"]),
        ([{"a": 1}], [{"a": 1}, {"a": 3}], ['k: [{"a": 1}] -> [{"a": 1}, {"a": 3}]']),
        ({"a": 1}, {}, ['k: {"a": 1} -> {}']),
        ("x", {"a": 1}, ['k: "x" -> {"a": 1}']),
    ],
)
def test_config_differences_of_a_list_are_one_line(old, new, lines):
    assert config_differences({"k": old}, {"k": new}) == lines
    assert config_differences({"k": old}, {"k": old}) == []


def test_import_is_light():
    code = "import sys, mmrl.config.load; print(sorted({'torch', 'numpy', 'transformers'} & set(sys.modules)))"
    root = Path(mmrl.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: m\n", "a.yaml:1: key 'model' should be a mapping with the keys path, "),
        (MINIMAL + "data: {train: x}\n", "a.yaml:2: key 'data.train' should be a list, as in [a, b], not \"x\""),
        (MINIMAL + "data: {train: [x]}\n", "a.yaml:2: key 'data.train.0' should be a mapping with the keys path, "),
        (MINIMAL + "budgets: 5\n", "a.yaml:2: key 'budgets' should be a mapping of names, as in {name: ...}, not 5"),
        (MINIMAL + "log: {console: yes}\n", "a.yaml:2: key 'log.console' should be true or false, not \"yes\""),
        (MINIMAL + "seed: " + 5000 * "9", "a.yaml:2: a number of 5000 digits; put text in quotes"),
        (3000 * "[", "a.yaml:1: brackets are nested too deeply"),
        (ALIASES_OF_ALIASES, "a.yaml:1: aliases (*name) of aliases stand for too many values"),
    ],
)
def test_types_are_named_in_the_words_of_a_yaml_writer(text, message):
    with pytest.raises(ConfigError) as error:
        load_config(write(Path("a.yaml"), text))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "place", "likely"),
    [
        (
            "model:\n  path: m\n seed: 1\n",
            "3: not valid YAML at column 2",
            "this line is not indented like its neighbours",
        ),
        ("a: 1\nmodel: {path: m}}\n", "2: not valid YAML at column 17", "`}` closes nothing"),
        ("model: {path: m}\na: b: c\n", "2: not valid YAML at column 5", "a `:` too many"),
        ("model: {path: 'm}\n", "1: not valid YAML at column 15", "a quotation mark is opened and not closed"),
        ("model: @x\n", "1: not valid YAML at column 8", "put text that starts with `@` in quotes"),
        ("model: {path: *x}\n", "1: not valid YAML at column 15", "`*x` stands for something marked &x"),
        (MINIMAL + "seed 1\n", "2: not valid YAML at column 1", "a line without `key: value`"),
        (MINIMAL + "---\nseed: 1\n", "2: not valid YAML at column 1", "a second document"),
        ('model: {path: "a\\q"}\n', "1: not valid YAML at column 18", "a backslash in double quotes"),
    ],
)
def test_bad_syntax_names_line_column_and_what_is_likely_wrong(text, place, likely):
    with pytest.raises(ConfigError) as error:
        load_config(write(Path("a.yaml"), text))
    assert str(error.value).startswith(f"a.yaml:{place}: {likely}")
