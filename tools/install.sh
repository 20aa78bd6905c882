#!/bin/sh
# Create .venv and install mmrl with everything its tests and its quickstart need.
# Needs Linux x86_64, Python 3.11 or 3.12 with venv, and a package index; or, with PIP_NO_INDEX=1, a folder of wheels in
# PIP_FIND_LINKS. Nothing is compiled.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "install: $1" >&2; exit 1; }

[ "$(uname -s)" = Linux ] && [ "$(uname -m)" = x86_64 ] ||
    fail "this is $(uname -s) $(uname -m); mmrl needs Linux x86_64 (decord and vLLM ship wheels for it only)"

find_python() {
    for candidate in ${PYTHON:-} python3.12 python3.11 python3; do
        version=$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
        case $version in 3.11 | 3.12) echo "$candidate"; return ;; esac
    done
    return 1
}

python=$(find_python) || fail "no Python 3.11 or 3.12 on PATH; install one or set PYTHON=/path/to/python3.12"
[ -x .venv/bin/python ] || "$python" -m venv .venv ||
    fail "$python cannot create a virtual environment; on Debian and Ubuntu install the package ${python##*/}-venv"

index=
if [ -n "${PIP_NO_INDEX:-}" ]; then
    index=--no-index
    export UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:?install: PIP_NO_INDEX is set, so name the folder of wheels in PIP_FIND_LINKS}}"
fi

.venv/bin/pip install --quiet --disable-pip-version-check "uv>=0.9"
# DS_BUILD_OPS=0: DeepSpeed is installed without compiling its optional kernels. --compile-bytecode: importing torch and
# transformers uncompiled costs every process half a minute where PYTHONDONTWRITEBYTECODE is set.
DS_BUILD_OPS=0 UV_LINK_MODE=${UV_LINK_MODE:-copy} .venv/bin/uv pip install $index --quiet --compile-bytecode --python .venv/bin/python \
    --override requirements/overrides.txt -r requirements/lock.txt
.venv/bin/uv pip install $index --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
touch .venv/installed
