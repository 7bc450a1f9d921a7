#!/bin/sh
# Copies the source tree into a folder: the files that git tracks, or without git everything but builds and runs.
# Usage: sh packaging/copy-source.sh FOLDER
set -eu
[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

if [ -e .git ] && command -v git >/dev/null 2>&1; then
  git ls-files -z | tar -c --null --files-from=- -f - | tar -x -C "$folder" -f -
else
  tar -c --exclude=./build --exclude=./runs --exclude=./.git -f - . | tar -x -C "$folder" -f -
fi
