#!/bin/sh
# Debian's redis-server and chromium, which tests start, or the programs named; only where missing. Needs root.
set -eu

missing=
for program in ${@:-redis-server chromium}; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet --quiet
    # shellcheck disable=SC2086  # one word per package
    apt-get install --quiet --quiet --yes --no-install-recommends $missing
fi
