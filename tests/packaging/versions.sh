#!/bin/bash
# Packages take version and ABI number from the files that packaging/version.sh reads; the build has the same ones.
# Usage: bash tests/packaging/versions.sh SOURCE BUILD
set -eu
cd "$1"
. packaging/version.sh

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

[[ $("$2/bin/strata" --version | head -n 1) == "strata $version" ]] || fail "strata --version is not $version"
readelf -d "$2/lib/libstrata.so" | grep -qF "soname: [libstrata.so.$abi]" || fail "the soname is not libstrata.so.$abi"
grep -qF "libstrata.so.$abi.$version" <(readlink -f "$2/lib/libstrata.so") || fail "the file is not libstrata.so.$abi.$version"
# What a package's file says must be filled in, not written out.
for file in packaging/debian/control.in packaging/rpm/strata.spec.in; do
  ! grep -nE "libstrata$abi|abi-$abi|$version" "$file" || fail "$file: use @ABI@ and @VERSION@"
done
