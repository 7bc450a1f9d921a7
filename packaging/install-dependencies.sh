#!/bin/sh
# Installs the packages of packaging/dependencies.txt that are missing.
# Usage: sh packaging/install-dependencies.sh [GROUP]...    (default: build)
set -eu

list=$(dirname "$0")/dependencies.txt
[ $# -gt 0 ] || set -- build

# packages GROUP: the names in a group of the list.
packages() {
  awk -v group="[$1]" '{ sub(/#.*/, "") } /^\[/ { inside = ($1 == group); found += inside; next }
                       inside && NF { print $1 } END { exit !found }' "$list" || {
    echo "install-dependencies: no group '$1' in $list" >&2
    exit 2
  }
}

wanted=
for group; do
  names=$(packages "$group")
  wanted="$wanted $names"
done

if ! command -v apt-get >/dev/null 2>&1; then
  echo "install-dependencies: no apt-get here; please see to these yourself:" $wanted >&2
  exit 0
fi

missing=
for package in $wanted; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null 2>&1 || {
    echo "install-dependencies: neither root nor sudo; please install:$missing" >&2
    exit 1
  }
  as_root=sudo
fi

echo "installing:$missing" >&2
$as_root apt-get -qq update
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $missing
