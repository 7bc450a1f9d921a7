# Completion of strata for bash. `strata complete` prints the candidates, so installed plugins are among them.

_strata() {
  local cur prev words cword line
  # '=' and ':' stay within a word: --set optimizer.plugin=lion is two words.
  _get_comp_words_by_ref -n =: cur prev words cword || return

  # readline replaces only what follows the last '=' or ':' of the word.
  local kept=
  [[ $COMP_WORDBREAKS == *=* && $cur == *=* ]] && kept=${cur%"${cur##*=}"}

  COMPREPLY=()
  while IFS= read -r line; do
    line=${line%%$'\t'*}
    [[ $line == *[.=] ]] && compopt -o nospace
    COMPREPLY+=("${line#"$kept"}")
  done < <(strata complete "${words[@]:1:cword}" 2>/dev/null)
}

# No candidates: the name of a file may follow.
complete -o default -F _strata strata
