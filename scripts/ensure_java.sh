#!/bin/sh
# Makes sure that Spark will find a Java it can run on, and installs one where it may.
# Looks where Spark looks: JAVA_HOME if that is set, otherwise the PATH.
set -eu

least=17

fail() {
    printf '%s\n' "penstock: $1" >&2
    exit 1
}

# The major version of the command $1, or nothing: 'version "17.0.15"' -> 17, '"1.8.0_452"' -> 1.
major() {
    "$1" -version 2>&1 | sed -n 's/^[^"]*version "\([0-9][0-9]*\).*/\1/p' | head -n 1
}

suitable() {
    found=$(major "$1")
    [ -n "$found" ] && [ "$found" -ge "$least" ]
}

if [ -n "${JAVA_HOME:-}" ]; then
    suitable "$JAVA_HOME/bin/java" && exit 0
    fail "JAVA_HOME is $JAVA_HOME, which is no Java $least or later, and Spark would use it. Unset it or point it to one."
fi

suitable java && exit 0

advice="Spark needs Java $least or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; or set JAVA_HOME)."

[ "$(id -u)" -eq 0 ] || fail "no suitable Java found, and only root can install one. $advice"
command -v apt-get >/dev/null 2>&1 || fail "no suitable Java found, and no apt-get to install one. $advice"

echo "installing Java for Spark …"
apt-get update -qq >/dev/null || echo "penstock: apt-get update failed; trying with the package lists at hand" >&2
# Releases that have no openjdk-17 have a later default; older ones have an older default.
for package in openjdk-17-jre-headless default-jre-headless; do
    if DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null &&
        suitable java; then
        exit 0
    fi
done
fail "could not install Java. $advice"
