# What the scripts of this folder share. They set $work, a folder for everything that they make, and source this file.

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# run CODE COMMAND...: the command must end with CODE. What it says, on both streams, is kept for `says`.
run() {
  wanted=$1
  shift
  echo "+ $*"
  code=0
  "$@" >"$work/said" 2>&1 || code=$?
  [ "$code" -eq "$wanted" ] || { cat "$work/said"; fail "exit code $code instead of $wanted"; }
}

# says PATTERN, never_says PATTERN: some line of the last command, or none, has the extended regular expression.
says() { grep -qE -e "$1" "$work/said" || { cat "$work/said"; fail "no line has '$1'"; }; }
never_says() { ! grep -qE -e "$1" "$work/said" || { cat "$work/said"; fail "a line has '$1'"; }; }

# install_strata BUILD: installs a build tree in $work/prefix, and makes its program the one that is found.
install_strata() {
  prefix=$work/prefix
  rm -rf "$prefix"
  for component in runtime development testing plugins; do
    run 0 cmake --install "$1" --prefix "$prefix" --component $component
  done
  unset STRATA_PLUGIN_PATH
  PATH=$prefix/bin:$PATH
  [ "$(command -v strata)" = "$prefix/bin/strata" ] || fail "strata is not installed in $prefix/bin"
}
