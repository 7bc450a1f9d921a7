#!/bin/sh
# Installs a build of Strata and does what its SDK is for: begins a plugin of every kind, builds, tests and packages it,
# follows the guide to a first strategy, and builds the examples of strategies and of a communicator.
# Usage: sh tests/external/sdk.sh BUILD WORK [ARGUMENT]...
#   BUILD     the build tree, with the targets of "all"
#   WORK      a folder for everything that the test makes
#   ARGUMENT  what CMake configures the projects with: generator, compiler, flags
set -eu
export LC_ALL=C

[ $# -ge 2 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
source=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
rm -rf "$2"
mkdir -p "$2/run"
work=$(cd "$2" && pwd)
shift 2
. "$source/common.sh"

echo "== install Strata"
install_strata "$build"
export CMAKE_PREFIX_PATH="$prefix"
cd "$work/run"

for kind in strategy model optimizer dataset library communicator device; do
  echo "== a new $kind"
  run 0 strata plugins new $kind "new_$kind"
  says "^new_$kind/new_$kind\.cpp$"
  run 1 grep -rnE 'my_plugin|MyPlugin|my_kind' "new_$kind"
  run 0 cmake -S "new_$kind" -B "new_$kind/build" "$@"
  run 0 cmake --build "new_$kind/build"
  # The guide runs the tests of a new strategy.
  [ $kind = strategy ] || run 0 ctest --test-dir "new_$kind/build" --output-on-failure --no-tests=error
  (cd "new_$kind/build" && run 0 cpack && says "^CPack: - package: .*strata-plugin-new-$kind.* generated\.$")
  # From another folder, since a configuration names its data by a path.
  (cd "new_$kind" && STRATA_PLUGIN_PATH=build/lib/strata/plugins run 0 strata train example.toml --set run.steps=2)
done

echo "== a model that requires an option"
sed -i 's/size("layers", 2,/strata::option::integer("layers", std::nullopt, 1, 100,/' new_model/new_model.cpp
run 0 cmake -S new_model -B new_model/build "$@"
run 0 cmake --build new_model/build
run 0 ctest --test-dir new_model/build --verbose --tests-regex check_
says "option 'layers' is required and has no default; give it with --set model.layers=VALUE"
sed -i 's/^set(check_arguments)$/set(check_arguments --set model.layers=2)/' new_model/CMakeLists.txt
run 0 cmake --build new_model/build
run 0 ctest --test-dir new_model/build --verbose --tests-regex check_
never_says "'layers' is required"

echo "== what is refused"
run 2 strata plugins new strategy
run 2 strata plugins new stratgy mine
says "found the kind 'stratgy'; accepted: strategy, model, optimizer, dataset, library, communicator, device$"
for name in Mine 9lives a-b a.b ../mine '' abcdefghijklmnopqrstuvwxyz; do
  run 2 strata plugins new strategy "$name"
done
says "found the plugin name 'abcdefghijklmnopqrstuvwxyz'; accepted: at most 25 lower-case letters, digits and '_'"
run 2 strata plugins new strategy zero
says "there is a strategy 'zero' already: .*; accepted: another name$"
run 2 strata plugins new strategy mine new_strategy
says "new_strategy': exists already; accepted: the name of a new folder"
run 2 strata plugins new strategy mine nowhere/mine
says 'there is no folder .*/nowhere$'
mkdir empty
run 0 strata plugins new strategy mine empty/
[ -e empty/mine.cpp ] || fail "no project is in an empty folder that was there"
# Root may write everywhere but into a full device.
[ ! -e /dev/full ] || { mkdir full && ln -s /dev/full full/mine; run 2 strata plugins new strategy mine full/mine; }
[ -z "$(find . -maxdepth 1 -name '*.tmp-*')" ] || fail "an unfinished folder is left"

echo "== the guide"
sh "$source/guide.sh" "$source/../../docs/sdk/first-strategy.md" "$work/guide"

# proves PROJECT STACK...: each stack of strategies trains as one rank does, with the configuration of the project.
proves() {
  project=$1
  shift
  for stack; do
    (cd "$source/$project" && run 0 strata verify example.toml --set "strategy=[$stack]")
    says '^equal within 1\.00e-09$'
  done
}

for project in grid periodic feedback halo capped sockets; do
  echo "== the example $project"
  run 0 cmake -S "$source/$project" -B "$work/$project" "$@"
  run 0 cmake --build "$work/$project"
  run 0 ctest --test-dir "$work/$project" --output-on-failure --no-tests=error
done

echo "== a strategy of rules only"
export STRATA_PLUGIN_PATH="$work/grid/lib/strata/plugins"
proves grid '{plugin="grid", rows=4, columns=1}' \
  '{plugin="zero", size=2, stage=3}, {plugin="grid"}, {plugin="tensor", size=2}' \
  '{plugin="pipeline", size=2}, {plugin="grid"}, {plugin="precision"}'
(cd "$source/grid" && run 0 strata explain example.toml)
says '^reduce_scatter +grid_rows '
says '^all_reduce +grid_columns '

echo "== a strategy that converts a collective and keeps state"
export STRATA_PLUGIN_PATH="$work/periodic/lib/strata/plugins"
proves periodic '{plugin="periodic", size=2, steps=1}' '{plugin="periodic", size=3, steps=2}' '{plugin="periodic", size=1}' \
  '{plugin="zero", size=2, stage=3}, {plugin="periodic", size=2, steps=1}, {plugin="tensor", size=2}' \
  '{plugin="pipeline", size=2}, {plugin="periodic", size=2, steps=1}, {plugin="precision"}'
(cd "$source/periodic" && run 0 strata explain example.toml)
says '^all_gather +replicas +0\.5 +[0-9.]+ KiB$'
never_says '^all_reduce +replicas +[0-9.]+ +[0-9.]+ [KM]iB$'

echo "== a strategy that sums gradients itself"
export STRATA_PLUGIN_PATH="$work/feedback/lib/strata/plugins"
proves feedback '{plugin="feedback", size=3}' '{plugin="feedback", size=1}' \
  '{plugin="zero", size=2, stage=3}, {plugin="feedback", size=2}, {plugin="tensor", size=2}' \
  '{plugin="pipeline", size=2}, {plugin="feedback", size=2}, {plugin="precision"}'
(cd "$source/feedback" && run 0 strata explain example.toml)
says '^all_gather +workers '
never_says '^all_reduce +workers +[0-9]+ +[0-9.]+ [KM]iB$'

echo "== a strategy that lowers a node"
export STRATA_PLUGIN_PATH="$work/halo/lib/strata/plugins"
proves halo '{plugin="halo", size=4}, {plugin="tensor", size=2}' \
  '{plugin="context", size=2, attention="all_gather"}, {plugin="halo", size=2}' \
  '{plugin="pipeline", size=2}, {plugin="halo", size=2}, {plugin="recompute", policy="full"}' \
  '{plugin="ddp", size=2}, {plugin="halo", size=2}, {plugin="precision"}'
(cd "$source/halo" && run 0 strata verify --ops example.toml)
says "^  ok +halo_shift .*  \(strategy 2 'halo'\)$"
says "^  ok +neighbour .* \('layers\.0\.neighbour', model 'shifted'\)$"
(cd "$source/halo" && run 0 strata explain example.toml)
says '^send +halo '
never_says '^all_gather +halo '

echo "== what a strategy could not do for an op"
(cd "$source/halo" && run 0 strata explain example.toml --set 'strategy=[{plugin="context", size=2}]')
says "^note: strategy 1 'context': attention = \"ring\" is not possible for op 'neighbour' because it declares no merge of \
results for parts of its keys, so 'seq' is gathered for it$"

echo "== an attention and a dimension of its own"
export STRATA_PLUGIN_PATH="$work/capped/lib/strata/plugins"
context='plugin="context", sequences=["time"]'
proves capped "{$context, size=4}" "{$context, size=2, balance=\"none\"}" \
  "{$context, size=2, attention=\"ulysses\"}" "{$context, size=2, attention=\"all_gather\"}" \
  "{$context, size=2}, {plugin=\"tensor\", size=2, sequence_parallel=true, sequences=[\"time\"]}" \
  "{plugin=\"pipeline\", size=2}, {$context, size=2}, {plugin=\"recompute\", policy=\"full\"}" \
  "{plugin=\"zero\", size=2, stage=3}, {$context, size=2, attention=\"ulysses\"}"
cd "$source/capped"
run 0 strata verify --ops example.toml
says "^  ok +capped_attention .*  \(.*model 'forecaster'\)$"
run 0 strata explain example.toml
says '^send +cp '
never_says '^all_gather +cp |^note: '
run 0 strata explain example.toml --set "strategy=[{$context, size=2, attention=\"ulysses\"}]"
says '^all_to_all +cp '
never_says '^all_gather +cp |^note: '
run 0 strata explain example.toml --set "strategy=[{$context, size=2, attention=\"ulysses\"}]" --set model.heads=1
says "^note: .* op 'capped_attention' because the ranks cannot share its heads \(heads = 1\), so 'time' is gathered for it$"
run 2 strata explain example.toml --set 'strategy=[{plugin="context", size=2}]'
says "adds mesh axis 'cp' of size 2, which shards nothing: the model has no dimension that its rules name: seq$"
run 0 strata train example.toml --steps 3 --set run.output="$work/run/capped" \
  --set "strategy=[{$context, size=2}, {plugin=\"precision\"}]"
says "no fast kernel for capped_attention \(operand 0 cannot be bf16; accepted: f32\), capped_attention_gradient \("
cd "$work/run"

echo "== what the pages build upon is installed"
examples=$prefix/share/strata/examples
mkdir "$work/own"
cat >"$work/own/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(own LANGUAGES CXX)
find_package(Strata REQUIRED)
add_subdirectory($examples/common common)
add_subdirectory($examples/adafactor adafactor)
END
for project in "$work/own" "$examples/grid" "$examples/rotary" "$examples/capped"; do
  run 0 cmake -S "$project" -B "$work/installed/$(basename "$project")" "$@"
  run 0 cmake --build "$work/installed/$(basename "$project")"
done

echo "== a communicator"
export STRATA_PLUGIN_PATH="$work/sockets/lib/strata/plugins"
for command in train launch; do
  (cd "$source/sockets" && run 0 strata $command example.toml --steps 5 --set run.output="$work/run/$command")
  grep '^loss ' "$work/said" >"$work/run/$command.loss"
done
cmp "$work/run/train.loss" "$work/run/launch.loss" || fail "processes train something else than threads"

echo "passed"
