#!/bin/sh
# Runs the tests that start processes or threads many times while busy loops occupy all cores, and counts the failures of
# each. A test that depends on time fails in some of the runs.
# Usage: sh tests/flaky.sh [OPTION...] [TEST...]
#   TEST            a test of ctest; by default all but those of $sequential below
#   --times N       rounds; each runs every test once (default 50)
#   --build FOLDER  the build, which has the tests' programs (default build/release)
#   --list          prints the tests and runs none
# Exit code: 0 if no test failed, 1 if one did, 2 for wrong usage. The output of rounds with a failure is in FOLDER/flaky.
set -eu
cd "$(dirname "$0")/.."

# Tests left out: they compile, parse, compare files or run kernels, without another thread or process to wait for. New
# tests are in unless they are added here.
sequential="symbols plugin_symbols one_definition private_group machine config compiler datasets device_shared cuda_emulator
  step_kernels_reference step_kernels_cuda_emulated packaging_links packaging_manual packaging_reference packaging_versions
  python_environment"

usage() {
  sed -n '2,9s/^# //p' "$0" >&2
  exit 2
}
fail() {
  echo "flaky.sh: $1" >&2
  exit 2
}
times=50
build=build/release
list=no
tests=
while [ $# -gt 0 ]; do
  case $1 in
    --times) [ $# -gt 1 ] || usage; times=$2; shift ;;
    --build) [ $# -gt 1 ] || usage; build=$2; shift ;;
    --list) list=yes ;;
    -*) usage ;;
    *) tests="$tests $1" ;;
  esac
  shift
done
case $times in
  '' | *[!0-9]* | 0*) fail "--times: found '$times'; accepted: an integer from 1" ;;
esac
[ -e "$build/CTestTestfile.cmake" ] || fail "--build: '$build' is no build with tests"

# True if the first word is one of the others.
is_among() { # WORD WORD...
  word=$1
  shift
  for each; do [ "$each" != "$word" ] || return 0; done
  return 1
}

known=$(ctest --test-dir "$build" -N 2>/dev/null | sed -n 's/^ *Test *#[0-9]*: //p')
for test in $tests; do
  # shellcheck disable=SC2086  # a list
  is_among "$test" $known || fail "there is no test '$test'; --list prints them"
done
if [ -z "$tests" ]; then
  for test in $known; do
    # shellcheck disable=SC2086  # a list
    is_among "$test" $sequential || tests="$tests $test"
  done
fi
if [ $list = yes ]; then
  # shellcheck disable=SC2086  # a list
  printf '%s\n' $tests
  exit
fi

cores=$(nproc)
loops=
# shellcheck disable=SC2086  # a list
trap 'kill $loops' EXIT
trap 'exit 1' HUP INT TERM
while [ "$(echo "$loops" | wc -w)" -lt "$cores" ]; do
  while :; do :; done &
  loops="$loops $!"
done

logs=$build/flaky
rm -rf "$logs"
mkdir "$logs"
# shellcheck disable=SC2086  # a list
pattern=$(echo $tests | sed 's/\./\\./g; s/ /|/g')
round=0
while [ $round -lt "$times" ]; do
  round=$((round + 1))
  log=$logs/round-$round.log
  code=0
  ctest --test-dir "$build" --parallel "$cores" --output-on-failure -R "^($pattern)\$" >"$log" 2>&1 || code=$?
  # A line of the log: " 3/16 Test #55: rendezvous ......***Failed    1.23 sec". Tests that skip themselves do not fail.
  sed -n 's/^ *[0-9]*\/[0-9]* *Test *#[0-9]*: \([^ ]*\) [ .*]*\([A-Z][a-z]*\).*/\1 \2/p' "$log" >>"$logs/results"
  [ $code -ne 0 ] || rm "$log"
  echo "round $round of $times: $([ $code -eq 0 ] && echo passed || echo "FAILED, see $log")"
done

code=0
awk '{ runs[$1]++; skipped[$1] += $2 == "Skipped"; failed[$1] += $2 != "Passed" && $2 != "Skipped" }
  END {
    for (name in runs) {
      printf "%s: failed %d of %d%s\n", name, failed[name], runs[name], skipped[name] ? ", skipped " skipped[name] : ""
      any += failed[name]
    }
    exit any > 0 || NR == 0
  }' "$logs/results" >"$logs/summary" || code=1
sort -t ' ' -k 3,3nr -k 1,1 "$logs/summary"
exit "$code"
