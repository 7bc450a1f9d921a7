#!/bin/bash
# Completes command lines in bash, zsh and fish with the installed functions.
# Usage: bash tests/packaging/completion.sh SOURCE BUILD
set -eu
source=$1
build=$2
cd "$source"
export PATH=$build/bin:$PATH
unset STRATA_PLUGIN_PATH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$build"/lib/strata/plugins/optimizer_lion.so "$work/optimizer_third_party.so"
# A plugin that is not Strata's: the same record under another name of the same length.
sed -i 's/lion\x00/leon\x00/' "$work/optimizer_third_party.so"
chmod 700 "$work"

failures=0
fail() {
  echo "FAILED: $*" >&2
  failures=1
}

# complete_in SHELL LINE: the words that the shell puts in place of the last word of the line, one a line.
complete_in() {
  case $1 in
    bash) bash -c '
        . /usr/share/bash-completion/bash_completion
        . "$1/packaging/completion/strata.bash"
        compopt() { :; }   # readline, which is not running here, would be told of spaces
        COMP_LINE=$2 COMP_POINT=${#2}
        # readline splits words at = as well.
        read -ra COMP_WORDS <<<"${2//=/ = }"
        [[ $2 == *[\ =] ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _strata
        printf "%s\n" "${COMPREPLY[@]}"' bash "$source" "$2" ;;
    zsh) zsh -f -c '
        emulate -L zsh
        _call_program() { shift; eval "$*"; }
        compadd() { print -l -- "${(@P)@[-1]}"; }
        _files() { print -- FILES; }
        functions[_strata]=$(<"$1/packaging/completion/_strata")
        words=("${(@s: :)2}") CURRENT=${#words} PREFIX=$words[-1]
        _strata' zsh "$source" "$2" ;;
    fish) fish --no-config -c '
        source $argv[1]/packaging/completion/strata.fish
        complete -C $argv[2] | string split -f 1 \t' "$source" "$2" ;;
  esac
}

# A row: a command line, and the words that must be offered, or after ! must not be.
while IFS='|' read -r line offered; do
  [[ -n $line ]] || continue
  line=${line#"'"} line=${line%"'"}
  for shell in bash zsh fish; do
    found=$(complete_in "$shell" "$line" | sort)
    for word in $offered; do
      [[ $shell != bash || $line != *=* ]] || word=${word/#"${line##* }"/"${line##*=}"}
      [[ $shell != bash || $line != *=* || $word != *=* ]] || word=${word##*=}
      if [[ $word == !* ]]; then
        ! grep -qxF -e "${word#!}" <<<"$found" || fail "$shell: '$line' offers '${word#!}'"
      else
        grep -qxF -e "$word" <<<"$found" || fail "$shell: '$line' does not offer '$word', but: $found"
      fi
    done
  done
done <<'END'
'strata '|train check plugins help
'strata tr'|train !check
'strata train --st'|--steps !--set
'strata plugins '|list show ops
'strata plugins show li'|lion
'strata help conf'|configuration
'strata --log-level w'|warning
'strata train --set optimizer.'|optimizer.lr= optimizer.plugin= optimizer.betas= optimizer.schedule. !run.seed=
'strata train --set optimizer.plugin=li'|optimizer.plugin=lion
'strata train --set optimizer.schedule.kind=cos'|optimizer.schedule.kind=cosine
'strata train configs/ddp.toml --set strategy.0.si'|strategy.0.size=
'strata train configs/ddp.toml --set strategy.'|strategy.0. strategy.1. !strategy.2.
'strata verify configs/ddp.toml --device ref'|reference
END

# The name of a file follows if there is no candidate.
[[ $(complete_in zsh 'strata train configs/qu') == FILES ]] || fail "zsh offers no files"
complete_in fish 'strata train configs/qu' | grep -qx configs/quickstart.toml || fail "fish offers no files"

# Plugins of others, of whatever folder, are candidates too.
export STRATA_PLUGIN_PATH=$work
complete_in bash 'strata train --set optimizer.plugin=le' | grep -qx leon || fail "a plugin of another folder is not offered"

exit $failures
