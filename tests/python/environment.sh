#!/bin/sh
# Makes the Python environment of the tests in a folder, with the packages of requirements.txt.
# Usage: sh tests/python/environment.sh FOLDER
# Packages that the system's Python has already are not installed again. Two calls at once are one: the second waits.
# Exit code 77: the packages could not be installed, as without a network.
set -eu
folder=$1
requirements=$(dirname "$0")/requirements.txt
stamp=$folder/requirements.txt
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
cmp -s "$requirements" "$stamp" && exit 0

python3 -m venv --system-site-packages "$folder"
# Python compiles the modules that the tests import, and not the thousands of others, when they are imported.
if ! "$folder/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --requirement "$requirements"; then
  echo "skipped: the packages of $requirements could not be installed"
  exit 77
fi
cp "$requirements" "$stamp"
