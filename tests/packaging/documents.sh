#!/bin/bash
# Every link of the installed documents leads to an installed file.
# Usage: bash tests/packaging/documents.sh SOURCE BUILD
set -eu
installed=$(mktemp -d)
trap 'rm -r "$installed"' EXIT
cmake --install "$2" --prefix "$installed" --component documents >/dev/null
[[ -f $installed/share/doc/strata/docs/sdk/models.md ]] || { echo "FAILED: there is no docs/sdk/models.md" >&2; exit 1; }
bash "$(dirname "$0")/links.sh" "$installed/share/doc/strata" "$2"
