# Sets version, release_date and abi, for the scripts of this folder. They run in the root of the source tree.
# shellcheck shell=sh disable=SC2034
# Each stands in one place: CMakeLists.txt, CHANGELOG.md, and the header plugin.hpp.

version=$(sed -n 's/^project(strata VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
release_date=$(sed -n "s/^## \[$version\] - \([0-9-]*\)$/\1/p" CHANGELOG.md)
abi=$(sed -n 's/.* kAbiNumber = \([0-9]*\);$/\1/p' sdk/include/strata/plugin.hpp)
if [ -z "$version" ] || [ -z "$release_date" ] || [ -z "$abi" ]; then
  echo "version '$version' (CMakeLists.txt), date '$release_date' (CHANGELOG.md), ABI '$abi' (plugin.hpp): one is missing" >&2
  exit 1
fi
