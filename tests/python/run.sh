#!/bin/sh
# Runs a test in the Python environment that environment.sh makes. Usage: sh tests/python/run.sh FOLDER SCRIPT [ARGUMENT]...
# Exit code 77: there is no environment, so the test is skipped.
set -eu
folder=$1
shift
if ! cmp -s "$(dirname "$0")/requirements.txt" "$folder/requirements.txt"; then
  echo "skipped: no Python environment in $folder"
  exit 77
fi
exec "$folder/bin/python" "$@"
