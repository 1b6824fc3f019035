
# Stacks, workloads, studies, profiles and places come from the program itself, everything else from what is above.
_nestor_asks() {
    local line=${COMP_LINE:0:COMP_POINT} word before one
    local -a words found
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[${#words[@]} - 1]}
    # An open quote.
    word=${word#[\'\"]}
    words[${#words[@]} - 1]=$word
    mapfile -t found < <("$1" complete -- "${words[@]:1}" 2>/dev/null)
    if ((${#found[@]} == 0)); then
        _nestor "$@"
        return
    fi
    # Only what follows the last `:` or `=` is completed, if they separate words in this shell.
    before=${word%"$2"}
    COMPREPLY=()
    for one in "${found[@]}"; do
        one=${one%%$'\t'*}
        [[ $one == *[/:=] ]] && compopt -o nospace
        COMPREPLY+=("${one#"$before"}")
    done
}
complete -F _nestor_asks -o bashdefault -o default nestor
