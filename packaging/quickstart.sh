#!/bin/sh
# From a fresh clone to a trained model: installs, builds, trains a small GPT-2 on two ranks and lets it write.
# Usage: sh packaging/quickstart.sh [TEXT]    (default: input.txt, else tiny shakespeare, else a text made here)
set -eu

case ${1:-} in
  -h | --help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
esac
text=
if [ $# -gt 0 ]; then
  [ -r "$1" ] || { echo "quickstart: cannot read '$1'" >&2; exit 2; }
  text=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
fi

cd "$(dirname "$0")/.."
say() { printf '\n== %s\n' "$*"; }

say "packages"
sh packaging/install-dependencies.sh build

# Only what configs/quickstart.toml runs, and the device that `strata verify` compares it with.
say "build"
cuda=AUTO
nvidia-smi -L >/dev/null 2>&1 || cuda=OFF
cmake --preset release -DBUILD_TESTING=OFF -DSTRATA_CUDA=$cuda
cmake --build --preset release --target \
  strata strata_model_gpt2 strata_device_cpu strata_device_reference strata_communicator_local strata_optimizer_adamw \
  strata_dataset_text strata_strategy_ddp
strata=build/release/bin/strata

say "text"
fetch() {
  url=https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL --connect-timeout 5 --max-time 30 -o "$1" "$url" 2>/dev/null
  elif command -v wget >/dev/null 2>&1; then
    wget -q -t 1 -T 10 -O "$1" "$url" 2>/dev/null
  else
    return 1
  fi
}
if [ -n "$text" ]; then
  echo "using $text"
elif [ -r input.txt ]; then
  text=input.txt
  echo "using input.txt"
else
  mkdir -p runs
  text=runs/tinyshakespeare.txt
  if [ -s $text ] || { fetch $text.part && mv $text.part $text; }; then
    echo "using tiny shakespeare, $text"
  else
    rm -f $text.part
    text=runs/made.txt
    sh packaging/make-text.sh >$text
    echo "no text given and none could be fetched: using sentences from a small grammar, $text"
  fi
fi

say "training on two ranks"
run=runs/quickstart
rm -rf $run
mkdir -p $run
$strata train configs/quickstart.toml --set data.path="$text" --set run.output=$run --log-json $run/log.jsonl >$run/result.txt

say "loss"
$strata plot $run
$strata plot $run --output $run/loss.svg
echo "picture: $run/loss.svg"
cat $run/result.txt

say "what the model writes"
$strata generate $run --tokens 400 --temperature 0.8 --top-k 40 --seed 1
echo

say "next"
echo "This build has only the plugins of configs/quickstart.toml. To build all: cmake --build --preset release"
echo "Then prove that another stack trains as one rank would:                  $strata verify configs/zero3-pp-tp.toml"
