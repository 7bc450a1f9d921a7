#!/bin/bash
# Doxygen makes the reference of the headers without a warning, and shows their examples as code.
# Usage: bash tests/packaging/reference.sh SOURCE BUILD
set -eu
cd "$1"
. packaging/version.sh
export STRATA_VERSION=$version STRATA_REFERENCE=$2/reference
rm -rf "$STRATA_REFERENCE"
mkdir "$STRATA_REFERENCE"
doxygen packaging/Doxyfile
grep -q '<pre class="fragment">template &lt;class T&gt;' "$STRATA_REFERENCE/html/update__kernel_8hpp.html" || {
  echo "FAILED: the example of update_kernel.hpp is not code" >&2
  exit 1
}
