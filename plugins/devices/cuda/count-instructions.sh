#!/bin/sh
# Reads the output of cuobjdump -sass. For every kernel, counts the instructions that move and multiply data: accesses
# of 16 bytes and of less, matrix units, asynchronous copies, and local memory (spilled registers).
# Usage: cuobjdump -sass -arch sm_90a device_cuda.so | sh count-instructions.sh
set -eu

awk '
  function line() { if (kernel != "") printf "%8d %8d %8d %8d %8d  %s\n", wide, narrow, matrix, async, local_memory, kernel }
  BEGIN { printf "%8s %8s %8s %8s %8s  %s\n", "16 byte", "smaller", "HMMA", "LDGSTS", "local", "kernel" }
  /Function :/ { line(); kernel = $NF; wide = narrow = matrix = async = local_memory = 0 }
  / (LDG|STG)[.]/ { if (/[.]128/) wide++; else narrow++ }
  / HMMA[.]/ { matrix++ }
  / LDGSTS[.]/ { async++ }
  / (LDL|STL)([.]| )/ { local_memory++ }
  END { line() }' | { if command -v c++filt >/dev/null; then c++filt; else cat; fi; }
