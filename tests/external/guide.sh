#!/bin/sh
# Follows a guide: runs its blocks of shell commands, and applies its blocks of differences, in the order of the page.
# Usage: sh tests/external/guide.sh PAGE.md WORK
#   WORK  the folder in which the guide begins; a new one
# What is installed for all users goes to WORK/root.
set -eu
page=$(realpath "$1")
mkdir -p "$2/home"
work=$(cd "$2" && pwd)

{
  echo 'set -eux'
  echo "sudo() { DESTDIR='$work/root' \"\$@\"; }"
  awk '
    /^```/ && inside { if (inside == "diff") print "END_OF_DIFFERENCES"; inside = ""; next }
    /^```sh$/ { inside = "sh"; next }
    /^```diff$/ { inside = "diff"; print "patch <<\"END_OF_DIFFERENCES\""; next }
    /^```/ { inside = "other"; next }
    inside == "sh" || inside == "diff" { print }' "$page"
} >"$work/commands.sh"
grep -q 'strata plugins new' "$work/commands.sh" || { echo "guide.sh: $page has no commands" >&2; exit 1; }
cd "$work"
HOME=$work/home XDG_DATA_HOME='' sh "$work/commands.sh"
