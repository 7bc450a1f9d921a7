#!/bin/sh
# Tests the cuda device and the nccl communicator on a machine with an NVIDIA GPU, and measures them there.
# Usage: sh tests/gpu.sh [--built BUILD] [--device NAME] [test] [measure]    (default: test)
#   --built BUILD   runs what was built elsewhere; without it, builds into build/gpu what it runs
#   --device NAME   another device plugin instead of cuda: with cuda_emulated and --built the script itself can be tried
# What packages, text or PyTorch peer the machine lacks is taken from build/carried, if it is there (docs/cuda.md).
set -eu
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,6s/^# //p' "$0" >&2
  exit 2
}
build=
device=cuda
parts=
while [ $# -gt 0 ]; do
  case $1 in
    --built) [ $# -gt 1 ] || usage; build=$2; shift ;;
    --device) [ $# -gt 1 ] || usage; device=$2; shift ;;
    test | measure) parts="$parts $1" ;;
    *) usage ;;
  esac
  shift
done
parts=${parts:- test}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- counting

passed=0
failed=0
skipped=0
failures=

# Runs a command and counts it: exit code 0 passes, 77 is a test that skips itself.
check() { # NAME COMMAND...
  name=$1
  shift
  if [ "$gpu" = no ]; then
    skipped=$((skipped + 1))
    return
  fi
  printf '\n== %s\n' "$name"
  begin=$(date +%s)
  code=0
  "$@" || code=$?
  case $code in
    0) passed=$((passed + 1)); verdict=passed ;;
    77) skipped=$((skipped + 1)); verdict=skipped ;;
    *) failed=$((failed + 1)); failures="$failures
  $name"; verdict="FAILED ($code)" ;;
  esac
  printf '%s: %s, %s s\n' "$name" "$verdict" $(($(date +%s) - begin))
}

finish() {
  printf '\n%s passed, %s failed, %s skipped%s\n' $passed $failed $skipped "${failures:+; failed:$failures}"
  [ $failed -eq 0 ]
}

# --- what the machine has

gpu=yes
if [ "$device" = cuda ] && ! nvidia-smi -L 2>/dev/null; then
  echo "skipped: no GPU"
  gpu=no
fi
carried=$PWD/build/carried

# Where the NVIDIA packages that Python may bring have a file.
python_file() {
  python3 -c 'import pathlib, sys, nvidia
print(next(str(f) for p in nvidia.__path__ for f in sorted(pathlib.Path(p).rglob(sys.argv[1]))))' "$1" 2>/dev/null ||
    true
}
library_path() {
  for folder in "$carried"/usr/lib/* "$carried/usr/lib" "$(dirname "$(python_file libnccl.so.2)")"; do
    [ -d "$folder" ] && [ "$folder" != . ] && printf '%s:' "$folder"
  done
  printf '%s' "${LD_LIBRARY_PATH:-}"
}

text=
for file in "$carried/input.txt" input.txt ../shared/data/tinyshakespeare.txt; do
  [ -n "$text" ] || [ ! -r "$file" ] || text=$(realpath "$file")
done
if [ -z "$text" ]; then
  text=$work/made.txt
  sh packaging/make-text.sh >"$text"
fi
peer=
for file in "$carried/torch_gpt2.py" ../shared/peers/torch_gpt2.py; do
  [ -n "$peer" ] || [ ! -r "$file" ] || peer=$(realpath "$file")
done

# --- build

# For this machine's GPU alone: three architectures take three times as long.
build_here() {
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. \r')
  [ "$capability" != 90 ] || capability=90a
  targets="test_gpu step_kernels strata strata_plugins"
  set -- --preset release -B "$build" -DSTRATA_CUDA=ON "-DSTRATA_CUDA_ARCHITECTURES=$capability"
  if [ -d "$carried/usr" ]; then
    set -- "$@" "-DCMAKE_PREFIX_PATH=$carried/usr" "-DBOOST_ROOT=$carried/usr"
  else
    sh packaging/install-dependencies.sh build || return 1
  fi
  toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")
  header=$(python_file cublasLt.h)
  [ -z "$header" ] || [ -e "$toolkit/include/cublasLt.h" ] || set -- "$@" \
    "-DCUDA_cublasLt_LIBRARY=$(python_file 'libcublasLt.so.*')" "-DCMAKE_CXX_FLAGS=-isystem $(dirname "$header")"
  header=$(python_file nccl.h)
  [ -z "$header" ] || [ -e /usr/include/nccl.h ] || [ -e "$toolkit/include/nccl.h" ] ||
    set -- "$@" "-DSTRATA_NCCL_INCLUDE_DIR=$(dirname "$header")"
  cmake "$@" || return 1
  # Where NCCL's header was found.
  cmake --build "$build" --target help | grep -q '^test_gpu_collectives:' && targets="$targets test_gpu_collectives"
  # shellcheck disable=SC2086  # targets
  cmake --build "$build" --target $targets
}

# --- tests

short_run() { # NAME CONFIG OPTION...
  log=$work/$1.jsonl
  configuration=configs/$2.toml
  shift 2
  "$strata" train "$configuration" --log-json "$log" --log-level "${log_level:-warning}" --set data.path="$text" \
    --set run.output="$work/run" --set run.eval_every=0 --set run.checkpoint_every=0 "$@"
}

# Losses and gradient norms of a short run, a step a line, with the digits that its log has.
losses() { # NAME CONFIG OPTION...
  short_run "$@" && losses_of "$1"
}
losses_of() { # NAME
  sed -n 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/p' "$work/$1.jsonl" >"$work/$1.losses"
  [ -s "$work/$1.losses" ]
}

# Whether two runs' losses differ by no more than a part of them; 0 for the same digits.
same() { # NAME NAME TOLERANCE
  paste -d ' ' "$work/$1.losses" "$work/$2.losses" | awk -v a="$1" -v b="$2" -v tolerance="$3" '
    { difference = $1 - $3; if (difference < 0) difference = -difference
      equal = tolerance == 0 ? $1 "" == $3 "" && $2 "" == $4 "" : NF == 4 && difference <= tolerance * $3
      if (!equal) wrong++
      printf "step %d: %s %s, %s %s\n", NR - 1, a, $1, b, $3 }
    END { exit !(NR > 0 && wrong == 0) }'
}

find_device() {
  "$strata" devices | tee "$work/devices.txt"
  grep "^$device: " "$work/devices.txt" | grep -qv ': none: '
}

ops() {
  if [ "$device" = cuda ]; then
    "$build/bin/tests/test_gpu" --gtest_brief=1
  else
    "$build/bin/tests/test_cuda" --gtest_brief=1 --gtest_filter='*OpOnCuda*'
  fi
}

# The sanitizer makes kernels many times slower: one short type and f32 have all kernels.
sanitize() { # TOOL
  [ "$device" = cuda ] || { echo "not on a GPU"; return 77; }
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return 77; }
  compute-sanitizer --tool "$1" --error-exitcode 1 "$build/bin/tests/test_gpu" --gtest_brief=1 \
    --gtest_filter='*OpOnCuda.EqualsReferenceInBf16*:*OpOnCuda.EqualsReferenceInF32*'
}

verify() { "$strata" verify --device "$device" "configs/$1.toml"; }

graph_equals_eager() {
  # shellcheck disable=SC2086  # options
  set -- bench-bf16 --steps 4 --set device.plugin="$device" --set model.dropout=0.1 $small
  losses graph "$@" --set device.graph=true && losses eager "$@" --set device.graph=false && same graph eager 0
}

equals_cpu() {
  [ -e "$build/lib/strata/plugins/device_cpu.so" ] || { echo "no cpu device: oneDNN was not found"; return 77; }
  # shellcheck disable=SC2086  # options
  set -- gpt2-124m-cuda --steps 4 --set batch.global=2 --set batch.micro=1 $small
  losses gpu "$@" --set device.plugin="$device" && losses cpu "$@" --set device.plugin=cpu && same gpu cpu 5e-3
}

with_nccl() { # COMMAND...
  [ -e "$build/lib/strata/plugins/communicator_nccl.so" ] || { echo "not built: nccl.h was not found"; return 77; }
  "$@"
}

collectives() { "$build/bin/tests/test_gpu_collectives" --gtest_brief=1; }

# Two processes on one GPU, started as by srun or torchrun: NCCL refuses such ranks unless each says that it is on
# another machine.
in_two_processes() { # COMMAND...
  processes=
  for rank in 0 1; do
    (
      # shellcheck disable=SC2030  # for this process
      export WORLD_SIZE=2 RANK=$rank LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=29517
      export STRATA_SECRET=two-ranks-on-one-card NCCL_HOSTID=rank-$rank NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
      "$@"
    ) &
    processes="$processes $!"
  done
  code=0
  for process in $processes; do wait "$process" || code=1; done
  return $code
}

two_ranks() { # NAME OPTION...
  name=$1
  shift
  short_run "$name" ddp --steps 4 --set strategy.0.size=2 --set device.plugin="$device" --set device.index=0 "$@"
}
as_rank() { # NAME OPTION...
  base=$1
  shift
  # shellcheck disable=SC2031  # the process's own
  two_ranks "$base-rank$RANK" "$@"
}
with_processes() { # NAME OPTION...
  in_two_processes as_rank "$@" --set communicator.plugin=nccl --set communicator.timeout=60 \
    --set communicator.start_timeout=60 && losses_of "$1-rank0"
}
train_in_two_processes() {
  two_ranks threads && losses_of threads && with_processes nccl && same nccl-rank0 threads 1e-6
}
# The communication of one is part of its graph.
communication_in_graphs_equals_eager() {
  code=0
  log_level=info
  with_processes graph --set device.graph=true >"$work/graph.out" 2>&1 || code=1
  log_level=
  cat "$work/graph.out"
  [ "$code" = 0 ] && grep -q 'launched as 1 graph' "$work/graph.out" && with_processes eager --set device.graph=false &&
    same graph-rank0 eager-rank0 0
}

# Every GPU a rank of its own; strata launch starts the processes.
launched() {
  count=$(nvidia-smi -L | wc -l)
  "$strata" launch --ranks "$count" configs/ddp.toml --steps 4 --set strategy.0.size="$count" \
    --set batch.global=$((16 * count)) --set device.plugin="$device" --set communicator.plugin=nccl \
    --set data.path="$text" --set run.output="$work/launched" --set run.eval_every=0 --log-level warning
}

configurations="quickstart ddp zero2 fsdp tensor tensor-sequence context-ring context-ulysses pipeline recompute zero-offload
  dp-pp-tp zero-plus-plus gpt2-124m-cuda"

run_tests() {
  check "device" find_device
  check "every op" ops
  check "graph replay equals eager, bit for bit" graph_equals_eager
  check "gpt2-124m-cuda trains as on the CPU" equals_cpu
  for configuration in $configurations; do
    check "verify $configuration" verify "$configuration"
  done
  check "nccl: collectives, a GPU a rank" with_nccl collectives
  check "nccl: collectives of two processes on one GPU" with_nccl in_two_processes collectives
  check "nccl: training in two processes on one GPU" with_nccl train_in_two_processes
  check "nccl: communication in graphs equals eager, bit for bit" with_nccl communication_in_graphs_equals_eager
  check "nccl: training launched, a GPU a rank" with_nccl launched
  for tool in memcheck racecheck; do
    check "compute-sanitizer $tool" sanitize $tool
  done
}

# --- measurements

run_measurements() {
  set -- --strata "$strata" --data "$text" --torch "${peer:-none}" --json "$build/gpu.json"
  # shellcheck disable=SC2086  # options
  [ "$device" = cuda ] || set -- "$@" --device "$device" --torch-device cpu --micro 1 --rounds 1 --steps 2 --warmup 1 \
    $small --kernels="--repetitions 1 --seconds 0 --rotate 1 --matrix-size 32 --copy 65536"
  check "GPT-2 124M against compiled PyTorch" python3 tests/bench/gpu.py "$@"
}

# Another device than a GPU has no time for 124 million parameters.
small=
[ "$device" = cuda ] || small="--set model.layers=1 --set model.heads=2 --set model.embed=32 --set model.context=16
  --set model.vocab=256"
if [ -z "$build" ]; then
  build=build/gpu
  check "build" build_here
  if [ $failed -gt 0 ]; then
    finish
    exit 1
  fi
fi
strata=$build/bin/strata
LD_LIBRARY_PATH=$(library_path)
export LD_LIBRARY_PATH
for part in $parts; do
  case $part in
    test) run_tests ;;
    measure) run_measurements ;;
  esac
done
finish
