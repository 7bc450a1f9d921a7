#!/bin/sh
# Compares what a library exports with a committed list, so that nothing is exported or lost by accident.
# Usage: sh sdk/abi/symbols.sh LIBRARY LIST [update]
#   LIBRARY   the built libstrata.so, or a plugin
#   LIST      the list, such as sdk/abi/symbols.txt
#   update    writes the list anew. A symbol that is gone or renamed asks for a new ABI number (docs/sdk/stability.md).
set -eu
export LC_ALL=C

[ $# -eq 2 ] || { [ $# -eq 3 ] && [ "$3" = update ]; } || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
library=$1
list=$2

exported=$(nm -D --defined-only --with-symbol-versions "$library" | awk '$2 != "A" { print $3 }' | sort)

if [ $# -eq 3 ]; then
  printf '%s\n' "$exported" >"$list"
  echo "$(wc -l <"$list") symbols written to $list"
  exit 0
fi

# difference MARK: the symbols on lines of the difference that begin with MARK, readable.
difference=$(printf '%s\n' "$exported" | diff "$list" - || true)
show() { printf '%s\n' "$difference" | sed -n "s/^$1 //p" | c++filt | sed 's/^/  /'; }
[ -n "$difference" ] || { echo "$(wc -l <"$list") symbols, as in $list"; exit 0; }
echo "$library does not export what $list says."
[ -z "$(show '<')" ] || { echo "missing; removing or changing them asks for a new ABI number:"; show '<'; }
[ -z "$(show '>')" ] || { echo "not in the list:"; show '>'; }
echo "If this is meant, read docs/sdk/stability.md, then: sh $0 $library $list update"
exit 1
