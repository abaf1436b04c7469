#!/bin/sh
# Install Debian's redis-server and chromium for the tests, or the programs named, if they are missing. Needs root.
set -eu

missing=
for program in ${@:-redis-server chromium}; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
if [ -n "$missing" ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update --quiet --quiet
    # shellcheck disable=SC2086  # one argument per package
    apt-get install --quiet --quiet --yes --no-install-recommends $missing
fi
