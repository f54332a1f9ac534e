#!/bin/sh
# Makes a virtual environment with pip in it: make_venv.sh PYTHON DIRECTORY
# Copes with Debian's python3, whose venv module lacks pip unless python3-venv is installed.
set -eu

python=$1
venv=$2

fail() {
    printf '%s\n' "penstock: $1" >&2
    exit 1
}

# Is $1 a Python that penstock supports?
supported() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

usable() {
    supported "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

with_ensurepip() {
    rm -rf "$venv"
    "$python" -m venv "$venv" >/dev/null 2>&1 && usable
}

# The pip of $python can install a pip into another environment: needs neither ensurepip nor root.
with_outer_pip() {
    rm -rf "$venv"
    "$python" -m venv --without-pip "$venv" >/dev/null 2>&1 &&
        "$python" -m pip --python "$venv/bin/python" install --quiet --no-input \
            --disable-pip-version-check -c constraints.txt pip >/dev/null 2>&1 &&
        usable
}

with_apt() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "installing python3-venv …"
    apt-get update -qq >/dev/null || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null &&
        with_ensurepip
}

if usable; then
    exit 0
fi
command -v "$python" >/dev/null 2>&1 ||
    fail "there is no '$python' here. Install Python 3.11, 3.12 or 3.13, or name one: make PYTHON=python3.12 …"
supported "$python" ||
    fail "'$python' is $("$python" --version 2>&1), but 3.11, 3.12 or 3.13 is needed. Name one: make PYTHON=python3.12 …"

echo "making the virtual environment $venv with $("$python" --version 2>&1) …"
with_ensurepip || with_outer_pip || with_apt || {
    rm -rf "$venv"
    fail "'$python -m venv' does not work here. Install it (Debian, Ubuntu: apt-get install python3-venv) and run make again."
}
