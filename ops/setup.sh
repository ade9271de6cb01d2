# Sourced by ops/run and ops/test: makes .venv and installs the project into it.
# Call as `set_up EXTRAS` where EXTRAS is empty or like `[dev]`. PYTHON chooses the interpreter.
# shellcheck shell=bash

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "noctuary needs Python 3.11 or newer; set PYTHON to one" >&2
    return 1
}

set_up() {
    local extras="${1:-}" python
    if [[ ! -x .venv/bin/pip ]]; then
        python="$(find_python)"
        "$python" -m venv .venv
    fi
    .venv/bin/pip install --quiet --disable-pip-version-check --editable ".$extras"
}
