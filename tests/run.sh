#!/bin/sh
# Installs the packages, then configures, builds and tests each preset.
# Usage: [RELEASE_FLAGS=...] sh tests/run.sh [release|asan|tsan]...    (default: all three)
#   RELEASE_FLAGS   the C++ compiler's flags for the release build, besides those of the project
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
# Checkpoints wait until the disk has their bytes, which costs the tests more time than all else. So temporary files lie in
# memory if there is room, and if programs may run from there.
if [ -z "${TMPDIR:-}" ] && [ "$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 8000000 ] 2>/dev/null; then
  memory=$(mktemp -d /dev/shm/strata-tests-XXXXXX)
  trap 'rm -rf "$memory"' EXIT
  trap 'exit 1' INT TERM
  printf '#!/bin/sh\n' >"$memory/program" && chmod +x "$memory/program"
  ! "$memory/program" 2>/dev/null || export TMPDIR="$memory"
fi
# One architecture tells whether the kernels for GPUs compile.
export CUDAARCHS="${CUDAARCHS:-90a}"

# If the address sanitizer runs as well, the release build leaves the tests to it of which one run is enough.
case " $* " in
  *" asan "*) once=ON ;;
  *) once=OFF ;;
esac

for preset; do
  printf '\n== %s: build\n' "$preset"
  # More tests than there are processors, because some wait for processes most of their time: one more, and in the release
  # build, whose other tests are short, two.
  if [ "$preset" = release ]; then
    flags=${RELEASE_FLAGS:-}
    waiting=2
  else
    flags=
    waiting=1
  fi
  cmake --preset "$preset" -DSTRATA_TESTS_ONCE=$once ${flags:+"-DCMAKE_CXX_FLAGS=$flags"}
  cmake --build --preset "$preset"
  printf '\n== %s: test\n' "$preset"
  ctest --preset "$preset" --parallel $(($(nproc) + waiting)) --no-tests=error
done
