
# Stacks, workloads, studies and profiles come from the program itself, everything else from what is above.
function __fish_nestor_asks
    set -l words (commandline -opc)
    # An open quote is not of the word.
    set -l word (string trim --left --chars "'\"" -- (commandline -ct))
    command $words[1] complete -- $words[2..] "$word" 2>/dev/null
end

complete -c nestor -a "(__fish_nestor_asks)"
