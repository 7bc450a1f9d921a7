#!/bin/bash
# Every link of the documents in a folder leads to a file there, and to a heading of it if it names one.
# Usage: bash tests/packaging/links.sh SOURCE BUILD
set -eu
cd "$1"

# In GitHub's form: lower case, hyphens for spaces, without punctuation.
anchors() {
  awk '/^```/ { code = !code } !code && /^#+ / {
    sub(/^#+ /, ""); gsub(/\]\([^)]*\)/, ""); gsub(/[^[:alnum:] _-]/, ""); gsub(/ /, "-"); print tolower($0) }' "$1"
}

count=0
bad=0
while IFS=: read -r page line link; do
  count=$((count + 1))
  target=${link%%#*}
  file=$page
  [[ -z $target ]] || file=$(dirname "$page")/$target
  if [[ ! -e $file ]]; then
    echo "$page:$line: found a link to '$link'; there is no $file"
    bad=1
  elif [[ $link == *'#'* ]] && ! anchors "$file" | grep -qxF -- "${link#*#}"; then
    echo "$page:$line: found a link to '$link'; accepted headings: $(anchors "$file" | tr '\n' ' ')"
    bad=1
  fi
done < <(find . -name '*.md' -not -path './build/*' -not -path './.git/*' -print0 | sort -z |
  xargs -0 awk '/^```/ { code = !code } FNR == 1 { code = /^```/ } !code {
    text = $0; gsub(/`[^`]*`/, "", text)
    while (match(text, /\]\([^)]*\)/)) {
      link = substr(text, RSTART + 2, RLENGTH - 3); text = substr(text, RSTART + RLENGTH)
      if (link !~ /^[a-z]+:/) print FILENAME ":" FNR ":" link } }')
[[ $count -gt 100 ]] || { echo "only $count links are found"; bad=1; }
exit $bad
