#!/bin/sh
# No two headers may define types of the same name in the same namespace. Neither compiler nor linker says so: functions
# of both types get the same symbols, and one of them works on objects of the other's size.
# Usage: sh tests/sources/one_definition.sh SOURCES
set -eu
cd "$1"

# Prints "NAMESPACE::TYPE FILE" for each type that begins a line, which types of a namespace do.
types() {
  awk '
    FNR == 1 { scope = "" }
    /^namespace [a-z0-9_:]+ \{/ { scope = scope "::" $2 }
    /^\}  \/\/ namespace [a-z0-9_:]+$/ { sub("::" $4 "$", "", scope) }
    /^(struct|class|enum class) / && /\{/ && !/;.*\{/ {
      word = 2
      while ($word == "class" || $word ~ /_API$/ || $word ~ /^alignas/) ++word
      name = $word
      while (name ~ /</ && name !~ />/) name = name $(++word)  # a specialisation of two arguments
      print scope "::" name, FILENAME
    }' "$@"
}

files=$(find sdk host plugins models testing -name '*.hpp' -not -path '*/templates/*' | sort)
# shellcheck disable=SC2086 # names of sources have no spaces
found=$(types $files | sort)
[ "$(echo "$found" | wc -l)" -gt 300 ] || { echo "only $(echo "$found" | wc -l) types were found"; exit 1; }
repeated=$(echo "$found" | awk '$1 == last { print "  " $1 ": " file ", " $2 } { last = $1; file = $2 }')
[ -z "$repeated" ] || { echo "types that two headers define:"; echo "$repeated"; exit 1; }
