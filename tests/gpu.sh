#!/bin/sh
# Tests the cuda device and the nccl communicator on a machine with an NVIDIA GPU, and measures them there, in parts.
# Usage: sh tests/gpu.sh [OPTION...] [PART...]    (default: test)
#   build       builds what the other parts run into build/gpu; they begin with it unless --built is given
#   pack        packs that, stripped, into build/gpu-run.tar.gz: 30 MB that can be carried to another machine
#   ops         test_gpu: every row of the table of ops, graphs, memory, random numbers, quantisation
#   training    graph replay equals eager; GPT-2 124M and a mixture of experts train as on the CPU
#   verify      strata verify of whole stacks in f64; verify:NAME,NAME only some
#   nccl        collectives and trainings over NCCL, in processes and in graphs
#   memcheck, racecheck   compute-sanitizer on ops; memcheck:2/4 the second of four shares
#   kernels     the time of every kernel of a step of GPT-2 124M, and its share of the roofline
#   measure     that, and the speed against compiled PyTorch; measure:1 one round instead of three
#   models      the speed of BERT, T5, a mixture, ViT and ResNet against compiled PyTorch; models:bert,t5 only some
#   test        ops training verify nccl memcheck racecheck
#   --built BUILD      runs an earlier build, a folder or what `pack` made, from this machine or one like it
#   --architecture SM  target of `build`, instead of this machine's GPU: 90a for an H200
#   --minutes N        starts no part after N minutes and prints which are left (exit code 3)
#   --output FOLDER    folder for the numbers of `measure`, instead of the build
#   --device NAME      another device plugin instead of cuda: cuda_emulated tries the script itself
# On a borrowed machine with a time limit per command, whose C library is not older than this machine's:
#   here:   sh tests/gpu.sh --architecture 90a build pack
#   there:  sh tests/gpu.sh --built build/gpu-run.tar.gz --minutes 9 ops training
#           sh tests/gpu.sh --built build/gpu-run.tar.gz --minutes 9 nccl verify
#           sh tests/gpu.sh --built build/gpu-run.tar.gz --minutes 9 measure
#           sh tests/gpu.sh --built build/gpu-run.tar.gz --minutes 9 memcheck:1/4      and so on
# Packages or a text that the machine lacks are taken from build/carried if it exists (docs/cuda.md).
set -eu
cd "$(dirname "$0")/.."

usage() {
  sed -n '2,29s/^# //p' "$0" >&2
  exit 2
}
build=
device=cuda
architecture=
minutes=
output=
parts=
while [ $# -gt 0 ]; do
  case $1 in
    --built) [ $# -gt 1 ] || usage; build=$(realpath "$2"); shift ;;
    --device) [ $# -gt 1 ] || usage; device=$2; shift ;;
    --architecture) [ $# -gt 1 ] || usage; architecture=$2; shift ;;
    --minutes) [ $# -gt 1 ] || usage; minutes=$2; shift ;;
    --output) [ $# -gt 1 ] || usage; output=$2; shift ;;
    test) parts="$parts ops training verify nccl memcheck racecheck" ;;
    build | pack | ops | training | verify | verify:* | nccl | memcheck | memcheck:*/* | racecheck | racecheck:*/* | \
      kernels | measure | measure:* | models | models:*) parts="$parts $1" ;;
    *) usage ;;
  esac
  shift
done
parts=${parts:- ops training verify nccl memcheck racecheck}
[ -n "$build" ] || case $parts in
  " build"*) ;;
  *) parts=" build$parts" ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
started=$(date +%s)

# --- counting

passed=0
failed=0
skipped=0
failures=
left=

needs_gpu() { [ "$part" != pack ] && { [ "$part" != build ] || [ -z "$architecture" ]; }; }

# Runs a command and counts it: exit code 0 passes, 77 is a test that skips itself.
check() { # NAME COMMAND...
  name=$1
  shift
  if [ "$gpu" = no ] && needs_gpu; then
    skipped=$((skipped + 1))
    return
  fi
  if [ -n "$minutes" ] && [ $(($(date +%s) - started)) -ge $((60 * minutes)) ]; then
    left="$left
  $part: $name"
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
  printf '\n%s passed, %s failed, %s skipped%s%s\n' $passed $failed $skipped "${failures:+; failed:$failures}" \
    "${left:+; left after $minutes minutes:$left}"
  [ $failed -eq 0 ] || return 1
  [ -z "$left" ] || return 3
}

# Prints the tests that a part covers.
cover() { printf '\n=== %s: %s\n' "$part" "$1"; }

# --- hardware and packages of the machine

gpu=yes
if [ "$device" = cuda ] && ! nvidia-smi -L 2>/dev/null; then
  echo "skipped: no GPU"
  gpu=no
fi
carried=$PWD/build/carried

# Prints the path of a file in the NVIDIA packages of Python, if there are any.
python_file() {
  python3 -c 'import pathlib, sys, nvidia
print(next(str(f) for p in nvidia.__path__ for f in sorted(pathlib.Path(p).rglob(sys.argv[1]))))' "$1" 2>/dev/null ||
    true
}
library_path() {
  for folder in "$carried"/usr/lib/* "$carried/usr/lib" "$(dirname "$(python_file libnccl.so.2)")" \
    "$(dirname "$(python_file 'libcublasLt.so.*')")"; do
    [ -d "$folder" ] && [ "$folder" != . ] && printf '%s:' "$folder"
  done
  printf '%s' "${LD_LIBRARY_PATH:-}"
}

text=
for file in "$carried/input.txt" input.txt; do
  [ -n "$text" ] || [ ! -r "$file" ] || text=$(realpath "$file")
done
if [ -z "$text" ]; then
  text=$work/made.txt
  sh packaging/make-text.sh >"$text"
fi

# --- build

# Builds for one architecture, because three take three times as long.
build_here() {
  capability=$architecture
  [ -n "$capability" ] || capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader -i 0 | tr -d '. \r')
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
  # The folder in which NCCL's header was found.
  cmake --build "$build" --target help | grep -q '^test_gpu_collectives:' && targets="$targets test_gpu_collectives"
  # shellcheck disable=SC2086  # targets
  cmake --build "$build" --target $targets
}

# Packs stripped programs, plugins and libraries, which find each other in any folder.
pack() {
  to=$work/gpu-run
  (cd "$build" && find bin/strata bin/tests/test_gpu bin/tests/test_gpu_collectives bin/bench/step_kernels \
    lib/libstrata.so.* lib/strata/plugins/*.so ! -name device_cuda_emulated.so 2>/dev/null) >"$work/packed"
  while read -r file; do
    mkdir -p "$to/$(dirname "$file")" && cp -P "$build/$file" "$to/$file" || return 1
    [ -L "$to/$file" ] || strip --strip-unneeded "$to/$file"
  done <"$work/packed"
  ldd "$to/bin/strata" "$to"/lib/strata/plugins/*.so |
    awk '$3 ~ "^/" && $3 !~ /lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda[a-z]*|cublas[A-Za-z]*|nccl|mpi[a-z_]*|open-[a-z]*)\.so|\/libstrata/ { print $3 }' |
    sort -u >"$work/libraries"
  while read -r library; do cp -L "$library" "$to/lib/"; done <"$work/libraries"
  tar -C "$work" -czf build/gpu-run.tar.gz gpu-run && du -h build/gpu-run.tar.gz
}

# --- tests

short_run() { # NAME CONFIG OPTION...
  log=$work/$1.jsonl
  configuration=configs/$2.toml
  shift 2
  "$strata" train "$configuration" --overwrite --log-json "$log" --log-level "${log_level:-warning}" --set data.path="$text" \
    --set run.output="$work/run" --set run.eval_every=0 --set run.checkpoint_every=0 "$@"
}

# Writes the losses and gradient norms of a short run, one step per line, with the digits of its log.
losses() { # NAME CONFIG OPTION...
  short_run "$@" && losses_of "$1"
}
losses_of() { # NAME
  sed -n 's/.*"loss":\([^,]*\),"grad_norm":\([^,]*\),.*/\1 \2/p' "$work/$1.jsonl" >"$work/$1.losses"
  [ -s "$work/$1.losses" ]
}

# True if the losses of two runs differ by at most TOLERANCE, relatively. 0 requires equal digits.
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

# The sanitizer slows kernels down many times. One 16-bit type and f32 together use all kernels.
sanitize() { # TOOL SHARE SHARES
  [ "$device" = cuda ] || { echo "not on a GPU"; return 77; }
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer here"; return 77; }
  GTEST_SHARD_INDEX=$(($2 - 1)) GTEST_TOTAL_SHARDS=$3 compute-sanitizer --tool "$1" --error-exitcode 1 \
    "$build/bin/tests/test_gpu" --gtest_brief=1 \
    --gtest_filter='*OpOnCuda.EqualsReferenceInBf16*:*OpOnCuda.EqualsReferenceInF32*'
}

verify() { "$strata" verify --device "$device" "configs/$1.toml"; }

graph_equals_eager() {
  # shellcheck disable=SC2086  # options
  set -- bench-bf16 --steps 4 --set device.plugin="$device" --set model.dropout=0.1 $small
  losses graph "$@" --set device.graph=true && losses eager "$@" --set device.graph=false && same graph eager 0
}

equals_cpu() { # CONFIG OPTION...
  [ -e "$build/lib/strata/plugins/device_cpu.so" ] || { echo "no cpu device: oneDNN was not found"; return 77; }
  set -- "$@" --steps 4 --set batch.global=2 --set batch.micro=1
  losses gpu "$@" --set device.plugin="$device" && losses cpu "$@" --set device.plugin=cpu && same gpu cpu 5e-3
}

with_nccl() { # COMMAND...
  [ -e "$build/lib/strata/plugins/communicator_nccl.so" ] || { echo "not built: nccl.h was not found"; return 77; }
  "$@"
}

collectives() { "$build/bin/tests/test_gpu_collectives" --gtest_brief=1; }

# Starts two processes on one GPU, as srun or torchrun would. NCCL refuses such ranks unless each pretends to be on
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
# With one rank per process, the communication is part of the graph.
communication_in_graphs_equals_eager() {
  code=0
  log_level=info
  with_processes graph --set device.graph=true >"$work/graph.out" 2>&1 || code=1
  log_level=
  cat "$work/graph.out"
  [ "$code" = 0 ] && grep -q 'launched as 1 graph' "$work/graph.out" && with_processes eager --set device.graph=false &&
    same graph-rank0 eager-rank0 0
}

# Each GPU has one rank. strata launch starts the processes.
launched() {
  count=$(nvidia-smi -L | wc -l)
  "$strata" launch --overwrite --ranks "$count" configs/ddp.toml --steps 4 --set strategy.0.size="$count" \
    --set batch.global=$((16 * count)) --set device.plugin="$device" --set communicator.plugin=nccl \
    --set data.path="$text" --set run.output="$work/launched" --set run.eval_every=0 --log-level warning
}

configurations="quickstart ddp zero2 fsdp tensor tensor-sequence context-ring context-ulysses pipeline recompute zero-offload
  dp-pp-tp zero-plus-plus gpt2-124m-cuda mixture letters/majority letters/reverse vit resnet"

# --- measurements

run_measurements() { # ROUNDS
  set -- --strata "$strata" --data "$text" --json "${output:-$build}/gpu.json" --rounds "$1"
  # shellcheck disable=SC2086  # options
  [ "$device" = cuda ] || set -- "$@" --device "$device" --torch-device cpu --micro 1 --rounds 1 --steps 2 --warmup 1 \
    $small --kernels="--repetitions 1 --seconds 0 --rotate 1 --matrix-size 32 --copy 65536"
  check "GPT-2 124M against compiled PyTorch" python3 tests/bench/gpu.py "$@"
}

models_against_torch() { # MODELS
  set -- --strata "$strata" --device "$device" --compile --dtype bf16 --scale 16 --steps 30 --warmup 10 \
    --models $(echo "$1" | tr ',' ' ')
  [ "$device" = cuda ] || set -- "$@" --rounds 1 --steps 3 --warmup 1 --scale 1
  python3 tests/bench/models_against_torch.py "$@"
}

run_part() {
  case $part in
    build)
      cover "the device, NCCL's plugin, tests and strata, for one architecture"
      check "build" build_here
      [ $failed -eq 0 ] || { finish; exit 1; }
      ;;
    pack)
      cover "programs and plugins of $build"
      check "pack" pack
      ;;
    ops)
      cover "every kernel against the reference device in f32, bf16, f16 and f64, also in graphs; memory and copies"
      check "every op" ops
      ;;
    training)
      cover "steps as graphs and one by one, with the same bits; losses against the CPU's"
      check "graph replay equals eager, bit for bit" graph_equals_eager
      # shellcheck disable=SC2086  # options
      check "gpt2-124m-cuda trains as on the CPU" equals_cpu gpt2-124m-cuda $small
      check "mixture trains as on the CPU" equals_cpu mixture --set strategy.0.size=1
      ;;
    verify | verify:*)
      cover "whole stacks on one GPU against one rank on the reference device, in f64"
      for configuration in $(case $part in *:*) echo "${part#*:}" | tr ',' ' ' ;; *) echo "$configurations" ;; esac); do
        check "verify $configuration" verify "$configuration"
      done
      ;;
    nccl)
      cover "NCCL's collectives and messages, outside of graphs and in them, in threads and in processes"
      check "nccl: collectives, a GPU a rank" with_nccl collectives
      check "nccl: collectives of two processes on one GPU" with_nccl in_two_processes collectives
      check "nccl: training in two processes on one GPU" with_nccl train_in_two_processes
      check "nccl: communication in graphs equals eager, bit for bit" with_nccl communication_in_graphs_equals_eager
      check "nccl: training launched, a GPU a rank" with_nccl launched
      ;;
    memcheck* | racecheck*)
      cover "every kernel in f32 and bf16 under compute-sanitizer"
      shares=$(case $part in *:*) echo "${part#*:}" ;; *) echo 1/1 ;; esac)
      check "compute-sanitizer $part" sanitize "${part%%:*}" "${shares%/*}" "${shares#*/}"
      ;;
    kernels)
      cover "times and rooflines of kernels"
      # shellcheck disable=SC2046,SC2086  # options
      check "kernels of a step" "$build/bin/bench/step_kernels" configs/gpt2-124m-cuda.toml --set device.plugin="$device" $small $([ "$device" = cuda ] ||
        echo --repetitions 1 --seconds 0 --rotate 1 --matrix-size 32 --copy 65536)
      ;;
    models | models:*)
      cover "speed and memory of other models"
      check "models against compiled PyTorch" models_against_torch "$(case $part in *:*) echo "${part#*:}" ;; *) echo all ;; esac)"
      ;;
    measure | measure:*)
      cover "speed and memory of GPT-2 124M, and its kernels"
      run_measurements "$(case $part in *:*) echo "${part#*:}" ;; *) echo 3 ;; esac)"
      ;;
  esac
}

# Devices other than a GPU are too slow for 124 million parameters, so they get a small model.
small=
[ "$device" = cuda ] || small="--set model.layers=1 --set model.heads=2 --set model.embed=32 --set model.context=16
  --set model.vocab=256"
build=${build:-$PWD/build/gpu}
if [ -f "$build" ]; then
  tar -C "$work" -xzf "$build"
  build=$work/gpu-run
fi
strata=$build/bin/strata
# Tells test programs where the build was moved.
export STRATA_MOVED_BUILD="$build"
LD_LIBRARY_PATH=$build/lib:$(library_path)
export LD_LIBRARY_PATH
has_device=
for part in $parts; do
  if [ -z "$has_device" ] && [ "$part" != build ] && [ "$part" != pack ]; then
    has_device=asked
    check "device" find_device
  fi
  run_part
done
finish
