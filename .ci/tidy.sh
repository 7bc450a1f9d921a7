#!/bin/sh
# Analyses one unit of a build with clang-tidy. Clang's own errors count as well.
# Usage: sh .ci/tidy.sh BUILD_FOLDER FILE
#
# A unit that was clean is not analysed again. The cache has one empty file for each clean unit, named by the checks
# and the preprocessed text with its comments, some of which switch checks off.
set -eu
build=$1
file=$2
cache=${XDG_CACHE_HOME:-$HOME/.cache}/strata-tidy

# The unit's compile command without the output and -c, to be run as a preprocessor's.
command=$(awk -v file="\"file\": \"$file\"" '/"command":/ { command = $0 } index($0, file) { print command; exit }' \
  "$build/compile_commands.json" | sed 's/^ *"command": "//; s/",$//; s/\\"/"/g; s/\\\\/\\/g; s/ -o [^ ]* -c / /')
text=$(mktemp)
trap 'rm -f "$text"' EXIT
{
  clang-tidy --version
  cat .clang-tidy "$0"
  echo "$command" | sed "s|$PWD||g"
  (cd "$build" && eval "$command -E -C -P")
} >"$text"
clean=$cache/$(sha256sum "$text" | cut -d ' ' -f 1)
[ ! -e "$clean" ] || exit 0

clang-tidy -p "$build" --quiet --warnings-as-errors='*' --checks=-bugprone-suspicious-include \
  --extra-arg=-Wno-unknown-warning-option "$file"
mkdir -p "$cache"
: >"$clean"
