
# Stacks, workloads, studies, profiles and places come from the program itself, everything else from what is above.
function __fish_nestor_asks
    set -l words (commandline -opc)
    # An open quote is not of the word.
    set -l word (string trim --left --chars "'\"" -- (commandline -ct))
    command $words[1] complete -- $words[2..] "$word" 2>/dev/null
end

# Where the program knows what there is, files are not offered.
complete -c nestor -n "__fish_nestor_asks | string length --quiet" -f
complete -c nestor -a "(__fish_nestor_asks)"
for option in on settle workload from to stack
    complete -c nestor -l $option -x -a "(__fish_nestor_asks)"
end
