#!/bin/sh
# The two environments of tests/bench/bench_trl.py in .venv-bench: TRL with what it needs, and mmrl without extras.
set -eu
cd "$(dirname "$0")/.."
uv=$PWD/.venv/bin/uv
[ -x "$uv" ] || { echo "install_bench: run make install first" >&2; exit 1; }
make_environment() {
    name=$1
    shift
    [ -x ".venv-bench/$name/bin/python" ] || .venv/bin/python -m venv ".venv-bench/$name"
    DS_BUILD_OPS=0 "$uv" pip install --quiet --compile-bytecode --python ".venv-bench/$name/bin/python" "$@"
}
make_environment trl "trl==1.16.*" -c requirements/constraints.txt "transformers==5.19.*" torchvision accelerate datasets pillow
make_environment mmrl -r pyproject.toml -c requirements/lock.txt --override requirements/overrides.txt
