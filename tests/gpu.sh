#!/bin/sh
# Tests the cuda device on a machine with a GPU: every op, then whole stacks.
# Usage: sh tests/gpu.sh                 (builds into build/gpu what it runs)
#        sh tests/gpu.sh --built BUILD   (runs what was built elsewhere, for machines without compilers)
set -eu
cd "$(dirname "$0")/.."

build=build/gpu
build_first=yes
case $# in
  0) ;;
  2) [ "$1" = --built ] && build=$2 && build_first=no || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; } ;;
  *) sed -n '3,4s/^# //p' "$0" >&2; exit 2 ;;
esac

if ! nvidia-smi -L 2>/dev/null; then
  echo "skipped: no GPU"
  exit 0
fi

if [ $build_first = yes ]; then
  sh packaging/install-dependencies.sh build
  cmake --preset release -B "$build" -DSTRATA_CUDA=ON
  cmake --build "$build" --target test_gpu strata strata_plugins
fi

printf '\n== ops\n'
"$build/bin/tests/test_gpu" --gtest_brief=1

# The sanitizer makes kernels many times slower: one short type and f32 have all kernels.
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    printf '\n== compute-sanitizer: %s\n' $tool
    compute-sanitizer --tool $tool --error-exitcode 1 "$build/bin/tests/test_gpu" --gtest_brief=1 \
      --gtest_filter='*OpOnCuda.EqualsReferenceInBf16*:*OpOnCuda.EqualsReferenceInF32*'
  done
else
  echo "compute-sanitizer: not here"
fi

for configuration in quickstart ddp zero2 fsdp tensor tensor-sequence context-ring context-ulysses pipeline recompute \
  zero-offload dp-pp-tp; do
  printf '\n== verify: %s\n' $configuration
  "$build/bin/strata" verify --device cuda "configs/$configuration.toml"
done
