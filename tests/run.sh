#!/bin/sh
# Installs the packages, then configures, builds and tests each preset.
# Usage: sh tests/run.sh [release|asan|tsan]...    (default: all three)
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- release asan tsan

for preset; do
  case $preset in
    release | asan | tsan) ;;
    *) echo "run.sh: no preset '$preset'; there are release, asan and tsan" >&2; exit 2 ;;
  esac
done

sh packaging/install-dependencies.sh build test
# Packages of Python are downloaded while compilers work. The test python_environment waits for them.
case " $* " in *" release "*) sh tests/python/environment.sh build/python >/dev/null 2>&1 & ;; esac
# One architecture tells whether the kernels for GPUs compile.
export CUDAARCHS="${CUDAARCHS:-90a}"

# If the address sanitizer runs as well, the release build leaves the tests to it of which one run is enough.
case " $* " in
  *" asan "*) once=ON ;;
  *) once=OFF ;;
esac

for preset; do
  printf '\n== %s: build\n' "$preset"
  cmake --preset "$preset" -DSTRATA_TESTS_ONCE=$once
  cmake --build --preset "$preset"
  printf '\n== %s: test\n' "$preset"
  ctest --preset "$preset" --parallel "$(nproc)" --no-tests=error
done
