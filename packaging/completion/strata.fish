# Completion of strata for fish. `strata complete` prints the candidates, so installed plugins are among them.

function __strata_candidates
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    set -l candidates (strata complete $words "$current" 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\n' $candidates
    else
        # The name of a file may follow.
        __fish_complete_path "$current"
    end
end

complete -c strata -f -a '(__strata_candidates)'
