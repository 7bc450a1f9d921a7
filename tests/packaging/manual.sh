#!/bin/bash
# Every command has a manual page, and mandoc and man find no fault in any page.
# Usage: bash tests/packaging/manual.sh SOURCE BUILD
set -eu
build=$2
manual=$build/manual
export LC_ALL=C.UTF-8

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

commands=$("$build/bin/strata" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]*\) .*/\1/p')
[[ $(wc -w <<<"$commands") -ge 9 ]] || fail "strata --help lists only the commands $commands"
for command in $commands; do
  page=$manual/strata-$command.1
  [[ -f $page ]] || fail "no page $page"
  # Every long option of --help is an entry of the page.
  for option in $("$build/bin/strata" "$command" --help | sed -n 's/^  \(-h,\)\{0,1\}\(--[a-z-]*\).*/\2/p'); do
    grep -qF -e "\\fB${option//-/\\-}\\fR" "$page" || fail "$page has no entry $option"
  done
done
"$build/bin/strata" help configuration | sed -n 's/^  \([a-z_]*\): .*/\1/p' | sort -u | while read -r key; do
  grep -qF "\\fB$key\\fR" "$manual/strata.toml.5" || fail "strata.toml.5 has no key $key"
done

mandoc -T lint -W warning "$manual"/* || fail "mandoc finds faults"
for page in "$manual"/*; do
  said=$(MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
  [[ -z $said ]] || fail "$page: $said"
done
