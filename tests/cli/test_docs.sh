# docs/cli.md is what the option table says: after a change of the table, qlft help --markdown > docs/cli.md.
expect 0 "help --markdown" "$QLFT" help --markdown
same stdout "$GOLDEN/../../docs/cli.md" "docs/cli.md is up to date"
for command in train plan eval generate export tokens probe inspect; do says stdout "^## qlft $command\$"; done

# The completion is a script that bash takes, and it knows commands, options and the words of choices.
expect 0 "help --completion bash" "$QLFT" help --completion bash
cp stdout completion.bash
completes() { # completes WHAT WANTED WORD...: the last word is the one being completed
    local what=$1 wanted=$2
    shift 2
    local got
    got=$(. ./completion.bash && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) && _qlft && echo "${COMPREPLY[*]}")
    if [ "$got" = "$wanted" ]; then ok "$what"; else fail "$what: got '$got', not '$wanted'"; fi
}
completes "a command" "plan" qlft pl
completes "an option" "--schedule" qlft train --sched
completes "an option without a command" "--epochs" qlft --epo
completes "a choice" "nf4 none" qlft plan --quant ""
completes "a choice behind =" "none" qlft plan --quant = no
