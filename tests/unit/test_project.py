"""The project as a whole: dependencies, import time, generated documentation, shipped files, the wheel."""

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from makers.configs import media_rows, write_config
from makers.tiny_models import tiny_model_dir
from makers.tools import load_tool

ROOT = Path(__file__).resolve().parents[2]
IMPORT_NAMES = {
    "opencv-python-headless": "cv2",
    "open_clip_torch": "open_clip",
    "pillow": "PIL",
    "pyyaml": "yaml",
    "qwen-vl-utils": "qwen_vl_utils",
    "math-verify": "math_verify",
    "markdown-it-py": "markdown_it",
}


def core_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [re.match(r"[A-Za-z0-9_-]+", line).group() for line in project["dependencies"]]


@pytest.mark.parametrize("name", core_dependencies())
def test_every_core_dependency_imports(name):
    importlib.import_module(IMPORT_NAMES.get(name, name).replace("-", "_"))


def test_hugging_face_datasets_is_not_shadowed_by_the_folder_of_that_name(monkeypatch):
    monkeypatch.chdir(ROOT)
    code = "import datasets; assert datasets.load_from_disk, datasets"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_importing_mmrl_is_light():
    code = "import sys, mmrl; print([m for m in ('torch', 'transformers', 'numpy', 'pydantic') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"


def test_configuration_reference_is_up_to_date():
    module = load_tool("write_config_reference")
    assert module.TARGET.read_text() == module.reference(), "run `python tools/write_config_reference.py`"
    page = module.REWARD_MODELS.read_text()
    assert page == module.reward_models_page(page), "run `python tools/write_config_reference.py`"


def test_links_of_the_documentation_lead_somewhere():
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "rewards" / "README.md",
    ]
    for page in pages:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_folders_that_are_never_imported_hold_no_init_file():
    assert [p for kind in ("rewards", "datasets", "configs", "tools") for p in (ROOT / kind).rglob("__init__.py")] == []


@pytest.mark.slow
def test_the_wheel_works_outside_the_checkout(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    install = [sys.executable, "-m", "zipfile", "-e", wheel, tmp_path / "site"]
    subprocess.run(install, check=True, timeout=60)
    (tmp_path / "data").mkdir()
    changes = {
        "model": {"path": str(tiny_model_dir("qwen2_5_vl"))},
        "rewards": {"tasks": {"t": [{"reward": "exact_text"}]}},
        "stages": [{"name": "rl", "kind": "grpo", "steps": 1, "prompts_per_step": 1}],
    }
    config = write_config(tmp_path / "data", media_rows(tmp_path / "data", images=2), **changes)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    where = subprocess.run(
        [sys.executable, "-c", "import mmrl, mmrl.plugins as p; print(mmrl.__file__, p.shipped_dir('rewards'))"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert where.stdout.count(str(tmp_path / "site")) == 2
    check = subprocess.run(
        [sys.executable, "-m", "mmrl", "check", config], cwd=tmp_path, env=environment, capture_output=True, timeout=300
    )
    assert check.returncode == 0, check.stdout.decode() + check.stderr.decode()
    selftest = [sys.executable, "-m", "mmrl", "score", "--selftest", "box_iou"]
    subprocess.run(selftest, cwd=tmp_path, env=environment, check=True, timeout=60)


def test_make_bench_runs_every_benchmark():
    bench = ROOT / "tests" / "bench"
    spec = importlib.util.spec_from_file_location("run_all", bench / "run_all.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert set(module.ARGUMENTS) == {path.stem.removeprefix("bench_") for path in bench.glob("bench_*.py")}
