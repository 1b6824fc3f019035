
# Stacks, workloads, studies, profiles and places come from the program itself, everything else from what is above.
_nestor_asks() {
    local one
    local -a found open whole
    found=("${(@f)$(command ${words[1]} complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for one in $found; do
        one=${one%%$'\t'*}
        if [[ $one == *[/:=] ]]; then open+=$one; else whole+=$one; fi
    done
    if (( $#open + $#whole == 0 )); then
        _nestor "$@"
        return
    fi
    (( $#open )) && compadd -S '' -- $open
    (( $#whole )) && compadd -- $whole
}

if [ "$funcstack[1]" = "_nestor" ]; then
    _nestor_asks "$@"
else
    compdef _nestor_asks nestor
fi
