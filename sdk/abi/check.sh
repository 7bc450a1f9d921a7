#!/bin/sh
# Compares the binary interface of libstrata with the baseline of its ABI number, sdk/abi/abi-<number>.xml.xz.
# Usage: sh sdk/abi/check.sh [check|update|prove]    (default: check)
#   check    fails if a public type or function of the baseline was changed or removed
#   update   writes the baseline: of a new number, or with what was added under the present one
#   prove    shows that the comparison finds changes: applies some to copies of the headers
# The library is built with debug information in build/abi. docs/sdk/stability.md says what may change when.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/../.."

folder=sdk/abi
compiler=${CXX:-g++}
work=build/abi
mkdir -p "$work"

fail() {
  echo "abi: $*" >&2
  exit 1
}

for tool in abidw abidiff xz; do
  command -v $tool >/dev/null || fail "no $tool; sh packaging/install-dependencies.sh check installs it"
done
# The baseline contains the layout of the C++ library's types.
found="$("$compiler" --version | head -n 1 | cut -d ' ' -f 1) $("$compiler" -dumpversion | cut -d . -f 1)"
[ "$found" = "g++ 12" ] || fail "the baseline is that of g++ 12; found $found; set CXX=g++-12"

number=$(sed -n 's/.*kAbiNumber = \([0-9]*\);.*/\1/p' sdk/include/strata/plugin.hpp)
baseline=$folder/abi-$number.xml.xz

# describe LIBRARY HEADERS FILE: writes the interface of a library as XML, without what the public headers do not show.
describe() {
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-parameter-names --drop-private-types \
    --headers-dir "$2" --out-file "$3" "$1"
  grep -q "name='Strategy'" "$3" || fail "$1 has no debug information"
}

# compare XML XML: true unless something of the first was changed or removed in the second. New symbols are no change.
compare() { abidiff --no-added-syms --no-show-locs "$1" "$2"; }

build() {
  CXX=$compiler cmake -S . -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-g -O0" \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 -DBUILD_TESTING=OFF -DSTRATA_CUDA=OFF >"$work/configure.log"
  cmake --build "$work" --target strata_sdk >"$work/build.log" || { cat "$work/build.log"; fail "libstrata does not build"; }
  describe "$work/lib/libstrata.so.$number" sdk/include "$work/now.xml"
}

compare_with_baseline() {
  xz -dc "$baseline" >"$work/baseline.xml"
  compare "$work/baseline.xml" "$work/now.xml" >"$work/difference.txt" && return
  cat "$work/difference.txt"
  fail "the interface of ABI $number was changed. Plugins that were built for it would break. Take the change back, or raise
  kAbiNumber in sdk/include/strata/plugin.hpp, then: sh sdk/abi/check.sh update"
}

check() {
  [ -e "$baseline" ] || fail "the ABI number is $number, and $folder has no baseline for it: sh sdk/abi/check.sh update"
  build
  compare_with_baseline
  echo "abi: nothing of ABI $number was changed or removed"
}

update() {
  build
  [ ! -e "$baseline" ] || compare_with_baseline
  rm -f "$folder"/abi-*.xml.xz
  xz -9e -c "$work/now.xml" >"$baseline"
  echo "abi: wrote $baseline, $(wc -c <"$baseline") bytes"
}

# interface HEADERS NAME: the interface of a library of sdk/src/strategy.cpp alone, with the headers in a folder.
interface() {
  "$compiler" -std=c++20 -g -O0 -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden -I"$1" -Isdk/src \
    sdk/src/strategy.cpp sdk/src/mesh.cpp -o "$work/$2.so"
  describe "$work/$2.so" "$1" "$work/$2.xml"
}

# expect VERDICT NAME HEADER SED-SCRIPT: compares after an edit of one header. VERDICT: same or different.
expect() {
  rm -rf "$work/headers"
  cp -R sdk/include "$work/headers"
  sed -i "$4" "$work/headers/strata/$3"
  ! cmp -s "sdk/include/strata/$3" "$work/headers/strata/$3" || fail "prove: the edit '$2' does not fit $3 any more"
  interface "$work/headers" edited
  verdict=same
  compare "$work/original.xml" "$work/edited.xml" >"$work/edit.txt" || verdict=different
  [ "$verdict" = "$1" ] || { cat "$work/edit.txt"; fail "prove: $2: found $verdict; expected $1"; }
  echo "abi: $2: $verdict"
}

prove() {
  interface sdk/include original
  expect different "a virtual function inserted into Strategy" strategy.hpp \
    '/^class STRATA_API Strategy {/,/^};/s/^ public:/ public:\n  virtual void inserted() {}/'
  expect different "a virtual function appended to Strategy" strategy.hpp \
    '/^class STRATA_API Strategy {/,/^};/s/^};/ public:\n  virtual void appended() {}\n};/'
  expect different "a member added to MeshAxis" mesh.hpp '/^struct MeshAxis {/,/^};/s/^};/  int added = 0;\n};/'
  expect same "an enumerator appended to Distribution" layout.hpp \
    '/^enum class Distribution /,/^};/s/^};/  , added\n};/'
  expect same "a new type and a new function" strategy.hpp \
    '/^class STRATA_API Strategy {/i struct Added {};\n[[gnu::used]] STRATA_API inline Added added() { return {}; }'
}

[ $# -le 1 ] || set -- help
case ${1:-check} in
  check | update | prove) "${1:-check}" ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
