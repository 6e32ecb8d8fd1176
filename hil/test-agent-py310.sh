#!/bin/sh
# Runs the agent's and the vocabulary's tests on Python 3.10, the DPU's, with the agent's dependencies only.
set -eu
cd "$(dirname "$0")/.."

find_python() {
    if command -v python3.10 >/dev/null 2>&1 && python3.10 -c '' 2>/dev/null; then
        command -v python3.10
    elif command -v pyenv >/dev/null 2>&1 && version=$(pyenv latest 3.10 2>/dev/null); then
        printf '%s/bin/python3.10\n' "$(pyenv prefix "$version")"
    else
        return 1
    fi
}

if ! python=$(find_python); then
    echo "no Python 3.10 here: the agent's tests on the DPU's Python were not run" >&2
    exit 1
fi
venv=build/venv310
stamp=$venv/.setup
wanted=$(cat pyproject.toml dpu_agent/requirements.lock hil/test-agent-py310.sh | sha256sum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check"
    # What the agent carries with it, as pinned for the DPU; the test tools are not the DPU's.
    $pip --no-deps --require-hashes -r dpu_agent/requirements.lock
    $pip --no-deps -e .
    $pip pytest pytest-randomly pytest-socket hypothesis
    printf '%s' "$wanted" >"$stamp"
fi
"$venv/bin/python" -m pytest -q -p no:cacheprovider tests/protos tests/dpu_agent
