#!/bin/sh
# Installs a build of Strata, builds and installs the projects in rotary/, signum/ and lines/ against it, and uses all of them as
# a user would.
# Usage: sh tests/external/external.sh BUILD WORK [ARGUMENT]...
#   BUILD     the build tree, with the targets of "all"
#   WORK      a folder for everything that the test makes
#   ARGUMENT  what CMake configures the project with: generator, compiler, flags
set -eu
export LC_ALL=C

[ $# -ge 2 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
source=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
mkdir -p "$2"
work=$(cd "$2" && pwd)
shift 2

rm -rf "$work/project" "$work/request" "$work/signum" "$work/lines" "$work/run"
mkdir "$work/run"
project=$work/project

. "$source/common.sh"

echo "== install Strata"
install_strata "$build"

echo "== the package"
# configure WANTED FOLDER REQUEST: configures a project that asks for the package with REQUEST, and is given FOLDER.
configure() {
  mkdir -p "$work/request"
  {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(request CXX)\n%s\n' "$3"
    # shellcheck disable=SC2016  # CMake's variables
    echo 'message(STATUS "plugins of ABI ${Strata_ABI_NUMBER} go to ${Strata_PLUGIN_DIRECTORY}")'
  } >"$work/request/CMakeLists.txt"
  run "$1" cmake --fresh -S "$work/request" -B "$work/request/build" -DCMAKE_PREFIX_PATH="$2"
}
configure 0 "$prefix" 'find_package(Strata 0.1 REQUIRED COMPONENTS sdk)'
says '^-- plugins of ABI [0-9]+ go to lib.*/strata/plugins$'
configure 1 "$prefix" 'find_package(Strata REQUIRED COMPONENTS sdk runtime)'
says "Strata has no component 'runtime'; accepted: sdk, testing$"
if [ ! -e "$(echo "$prefix"/lib*/cmake/Strata/StrataTestingTargets.cmake)" ]; then
  configure 1 "$prefix" 'find_package(Strata REQUIRED COMPONENTS testing)'
  says "This Strata was installed without its component 'testing'"
fi
configure 1 "$build" 'find_package(Strata REQUIRED)'
says " is a build tree of Strata\. "
says "^ *cmake --install $build --prefix <prefix>$"

echo "== a plugin by pkg-config"
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name strata.pc)")
export PKG_CONFIG_PATH
mkdir "$work/run/plugins"
# shellcheck disable=SC2046,SC2086  # lists of options
run 0 ${CXX:-g++} ${CXXFLAGS:-} $(pkg-config --cflags strata) -fPIC -fvisibility=hidden -shared \
  -Wl,--version-script="$(pkg-config --variable=pluginmap strata)" -o "$work/run/plugins/strategy_my_strategy.so" \
  "$source/../plugins/samples/wide_layers.cpp" $(pkg-config --libs strata)
export STRATA_PLUGIN_PATH="$work/run/plugins"
run 0 strata plugins show my_strategy
says "ABI $(pkg-config --variable=abi strata), "

echo "== a plugin of the next ABI number"
# Linked with the library of that number, which is not installed. Its record tells more than the loader could.
abi=$(pkg-config --variable=abi strata)
next=$((abi + 1))
mkdir "$work/run/next"
cp -R "$(pkg-config --variable=includedir strata)/strata" "$work/run/next"
sed -i "s/kAbiNumber = $abi;/kAbiNumber = $next;/" "$work/run/next/strata/plugin.hpp"
# shellcheck disable=SC2086  # lists of options
{
  run 0 ${CXX:-g++} ${CXXFLAGS:-} -shared -Wl,-soname,libstrata.so.$next -o "$work/run/next/libstrata.so" -x c++ /dev/null
  run 0 ${CXX:-g++} ${CXXFLAGS:-} -std=c++20 -I"$work/run/next" -fPIC -fvisibility=hidden -shared \
    -o "$work/run/plugins/strategy_my_strategy.so" "$source/../plugins/samples/wide_layers.cpp" \
    -L"$work/run/next" -Wl,--no-as-needed -lstrata
}
run 2 strata plugins show my_strategy
says "strategy_my_strategy\.so: refused: it is built for ABI $next; accepted: $abi, the ABI of this host\. Build it again "
unset STRATA_PLUGIN_PATH
[ "$(pkg-config --variable=pluginsdir strata | xargs realpath)" = "$(realpath "$prefix"/lib*/strata/plugins)" ] ||
  fail "pluginsdir is not the folder of the plugins"

echo "== build and install the project"
# CMAKE_INSTALL_LIBDIR: plugins go where this Strata looks for them, whatever a project calls its own libraries' folder.
run 0 cmake -S "$source/rotary" -B "$project" -DCMAKE_PREFIX_PATH="$prefix" -DROTARY_WITH_WRONG_GRADIENT=ON \
  -DCMAKE_INSTALL_LIBDIR=lib/elsewhere "$@"
run 0 cmake --build "$project" --parallel 2
run 0 ctest --test-dir "$project" --output-on-failure --no-tests=error
run 0 cmake --install "$project" --prefix "$prefix"
never_says 'rotary_wrong'

echo "== the plugins, as strata finds them"
run 0 strata plugins list
says '^library +rotary +1\.0\.0 '
says '^model +rotary_decoder +1\.0\.0 '
never_says 'refused|rotary_wrong'
run 0 strata plugins show rotary
says '^  host_kernel: true or false; default true$'
abi=$(sed -n 's/.*, ABI \([0-9]*\),.*/\1/p' "$work/said")
run 0 readelf -d "$(sed -n 's/^ *\(\/.*\.so\)$/\1/p' "$work/said")"
says "NEEDED.*\[libstrata\.so\.$abi\]"
# Sanitizers export symbols of their own.
if ! ldd "$prefix/bin/strata" | grep -qE 'lib(a|t|ub)san|clang_rt'; then
  run 0 sh "$source/../../sdk/abi/symbols.sh" "$(find "$prefix" -name library_rotary.so)" \
    "$source/../../sdk/abi/plugin_symbols.txt"
fi
run 0 strata plugins ops rotary
says "^rotary, version 1, from library 'rotary'$"
says '^  x \[batch seq heads head_dim\], cos and sin \[seq head_pair\] -> y: rotates '
says '^  gradient: yes$'
says "^  kernel: runtime host, from library 'rotary', rank 100, operands \"tff\", results \"t\", real types f32 bf16 f16$"
says "^  kernel: runtime host, from library 'rotary', rank reference, operands \"rrr\", results \"r\", "

cd "$work/run"
sh "$source/../../packaging/make-text.sh" >"$work/text"
head -c 40000 "$work/text" >input.txt
configs=$source/rotary/configs

for config in one-rank four-ranks; do
  echo "== $config"
  ranks=1
  [ $config = one-rank ] || ranks=4
  run 0 strata check "$configs/$config.toml"
  says "^ok: $ranks ranks?; communication matches and cannot deadlock"

  run 0 strata verify "$configs/$config.toml"
  says "^$ranks ranks against one, 3 steps in f64"
  says '^equal within 1\.00e-09$'

  run 0 strata verify --ops "$configs/$config.toml"
  says "^  ok +rotary .* operand 0 \[batch seq heads head_dim\]f64  \('layers\.0\.wq\.rotary', library 1 'rotary'\)$"
  says "^  ok +rotary .* f32 f32 f32 -> f32; .* launches  \(library 1 'rotary'\)$"
  says '^all gradients and kernels are right$'

  run 0 strata train "$configs/$config.toml" --set run.steps=20 --set run.log_every=1 --log-json "$work/$config.jsonl"
  says ", $ranks rank\(s\),"
  says '^steps 20$'
  never_says 'no fast kernel'
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$work/$config.jsonl" >"$work/$config.losses"
  awk 'NR == 1 { first = $2 } END { exit !(NR == 20 && first > 5.4 && $2 < 3.5) }' "$work/$config.losses" ||
    { cat "$work/$config.losses"; fail "the loss does not fall from 5.5 to 3.5 within 20 steps"; }
done
paste -d ' ' "$work/one-rank.losses" "$work/four-ranks.losses" |
  awk '{ difference = $2 - $4; if (difference * difference > 1e-8 * $2 * $2) { print "step " $1 ": " $2 ", " $4; bad = 1 } }
       END { exit bad }' || fail "the losses on four ranks are not those on one"

echo "== an optimizer"
run 0 cmake -S "$source/signum" -B "$work/signum" -DCMAKE_PREFIX_PATH="$prefix" "$@"
run 0 cmake --build "$work/signum"
run 0 ctest --test-dir "$work/signum" --output-on-failure --no-tests=error
run 0 cmake --install "$work/signum" --prefix "$prefix"
run 0 strata plugins list
says '^optimizer +signum +1\.0\.0 '
signum="--set optimizer.plugin=signum --set optimizer.lr=1e-3 --set optimizer.beta=0.8"
for config in one-rank four-ranks; do
  # shellcheck disable=SC2086
  run 0 strata verify "$configs/$config.toml" $signum
  says '^equal within 1\.00e-09$'
  run 0 strata verify --ops "$configs/$config.toml" $signum
  says "^  ok +signum_update .*  \(optimizer 'signum'\)$"
  run 0 strata train "$configs/$config.toml" $signum --set run.steps=20 --set run.output=runs/signum-$config
  says '^steps 20$'
done
run 2 strata check "$configs/one-rank.toml" --set optimizer.plugin=signum --set optimizer.beta=2
says 'optimizer.beta: found the number 2.0; accepted: a number from 0 to 0.999999$'

echo "== a dataset"
run 0 cmake -S "$source/lines" -B "$work/lines" -DCMAKE_PREFIX_PATH="$prefix" "$@"
run 0 cmake --build "$work/lines"
run 0 ctest --test-dir "$work/lines" --output-on-failure --no-tests=error
run 0 cmake --install "$work/lines" --prefix "$prefix"
run 0 strata plugins list
says '^dataset +lines +1\.0\.0 '
lines="--set data.plugin=lines --set data.path=input.txt"
for config in one-rank four-ranks; do
  # shellcheck disable=SC2086
  run 0 strata verify "$configs/$config.toml" $lines
  says '^equal within 1\.00e-09$'
  run 0 strata train "$configs/$config.toml" $lines --set run.steps=20 --set run.eval_every=10 \
    --set run.output=runs/lines-$config --log-json "$work/lines-$config.jsonl"
  says ' lines of .input\.txt., '
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$work/lines-$config.jsonl" >"$work/lines-$config.losses"
done
paste -d ' ' "$work/lines-one-rank.losses" "$work/lines-four-ranks.losses" |
  awk '{ difference = $2 - $4; if (difference * difference > 1e-8 * $2 * $2) { print "step " $1 ": " $2 ", " $4; bad = 1 } }
       END { exit bad || NR != 20 }' || fail "the losses on four ranks are not those on one"
run 2 strata check "$configs/one-rank.toml" --set data.plugin=lines --set data.path=nothing.txt
says "data\.path: 'nothing\.txt': cannot be opened: No such file"
run 2 strata train "$configs/one-rank.toml" --set data.path=shorter.txt --resume runs/rotary-1
says 'cannot be opened'
head -c 30000 input.txt >shorter.txt
run 2 strata train "$configs/one-rank.toml" --set data.path=shorter.txt --resume runs/rotary-1
says 'was trained on data with the fingerprint [0-9a-f]{32} .* found [0-9a-f]{32} .* data\.allow_changed = true'

echo "== bf16"
run 0 strata verify --ops "$configs/one-rank.toml" --set strategy.0.plugin=precision
says "^  ok +rotary .* bf16 f32 f32 -> bf16; .* launches  \(library 1 'rotary'\)$"

echo "== generate"
for attempt in first second; do
  run 0 sh -c "strata generate runs/rotary-4 --prompt 'The ' --tokens 40 --seed 1 >'$work/$attempt.txt'"
  says "has no cache of keys and values, .* parameter 'rotary\.cos' lies along 'seq'"
done
grep -q '^The ' "$work/first.txt" || { cat "$work/first.txt"; fail "the text does not begin with the prompt"; }
[ "$(wc -c <"$work/first.txt")" -eq 45 ] || { cat "$work/first.txt"; fail "not a prompt of 4, 40 tokens and a new line"; }
cmp -s "$work/first.txt" "$work/second.txt" || fail "one seed gives two texts"

echo "== files as Hugging Face models have them"
run 0 strata export runs/rotary-4 published
grep -q '"model_type": "rotary_decoder"' published/config.json || fail "config.json lacks the model's type"
run 2 strata import published imported
says "no plugin of this run brings the op 'rotary'"
run 0 strata import published imported --library rotary
run 0 strata export imported again
for file in config.json model.safetensors; do
  cmp "published/$file" "again/$file" || fail "$file differs after an import and an export"
done
run 0 strata train "$configs/four-ranks.toml" --set run.steps=2 --set run.log_every=1 --set run.output=runs/continued \
  --set model.from=published --log-json "$work/continued.jsonl"
awk -F '[:,]' '/^{"step":/ && !found { found = $4 } END { exit !(found > 1 && found < 4) }' "$work/continued.jsonl" ||
  { cat "$work/continued.jsonl"; fail "the imported model does not begin with the loss that it was left with"; }

echo "== without the fast kernel, and without the library"
run 0 strata train "$configs/one-rank.toml" --set run.steps=1 --set run.output=runs/slow --set library.0.host_kernel=false
says 'no fast kernel for rotary on '
run 2 strata check "$configs/one-rank.toml" --set 'library=[]'
says "no plugin of this run brings the op 'rotary'"

echo "== a wrong gradient"
# All ranks and the one rank compute it alike, so only the check of ops finds it.
export STRATA_PLUGIN_PATH="$project/lib/strata/plugins"
run 0 strata verify "$configs/four-ranks.toml" --set library.0.plugin=rotary_wrong
run 1 strata verify --ops "$configs/four-ranks.toml" --set library.0.plugin=rotary_wrong
says "^  WRONG +rotary .*  \('layers\.0\.wq\.rotary', library 1 'rotary_wrong'\)$"
says "^WRONG: the gradient of 'rotary' of library 1 'rotary_wrong'$"
[ "$(grep -c WRONG "$work/said")" -eq 2 ] || { cat "$work/said"; fail "more than the gradient of rotary is called wrong"; }

echo "passed"
