# What a user sees who asks for help or makes a mistake: the exit status, and a message that says what to do.

expect 0 "--version" "$QLFT" --version
says stdout '^qlft [0-9]+\.[0-9]+\.[0-9]+'
expect 0 "help" "$QLFT" help
says stdout 'train'
says stdout 'export'
for command in train plan eval generate export tokens probe inspect; do
    expect 0 "help $command" "$QLFT" help $command
    says stdout '[a-z]'
    expect 0 "$command --help" "$QLFT" $command --help
done
expect 0 "help train has every group" "$QLFT" help train
for option in base r data epochs memory out; do says stdout "--$option"; done

expect 2 "an unknown command" "$QLFT" trian
says stderr 'train'
expect 2 "a word with an escape, which must not steer the terminal" "$QLFT" $'tr\033[2Jn'
says stderr 'tr\\x1b\[2Jn'
expect 2 "an unknown option" "$QLFT" train --base x --data y --epoch 3
says stderr 'epochs'
expect 2 "an option of another command" "$QLFT" generate --base x --prompt a --lr 1
expect 2 "a value out of bounds" "$QLFT" train --base x --data y --r 0
says stderr 'r'
expect 2 "a value above its bound" "$QLFT" train --base x --data y --alpha 2e6
says stderr 'at most 1000000'
expect 2 "a value that is no number" "$QLFT" train --base x --data y --lr fast
says stderr 'lr'
expect 2 "an option without its value" "$QLFT" train --base
expect 2 "no base" "$QLFT" train --data y
says stderr 'base'
expect 2 "no data" "$QLFT" train --base x
says stderr 'data'

# What a newcomer types: names from other trainers, a word where a switch stands, several ways at once.
expect 2 "an option as other trainers call it" "$QLFT" train --base x --data y --learning_rate 1e-4
says stderr 'called --lr here'
expect 2 "an underscore for a dash" "$QLFT" train --base x --data y --save_every 10
says stderr 'called --save-every here'
expect 2 "a switch with a word that is neither on nor off" "$QLFT" train --base x --data y --packing maybe
says stderr '--packing maybe: neither on nor off'
expect 2 "generate without a question" "$QLFT" generate --base x
says stderr 'none is given'

expect 3 "a base that is not there" "$QLFT" train --base "$WORK/nothing" --data "$WORK/nothing.jsonl" --out "$WORK/out"
says stderr 'nothing'
tiny_rows rows.jsonl 4
expect 3 "data that is not there" "$QLFT" train --base "$TINY" --data "$WORK/missing.jsonl" --format tokens --out "$WORK/out"
says stderr 'missing.jsonl'

expect 3 "a base that is no model" "$QLFT" train --base rows.jsonl --data rows.jsonl --format tokens --out "$WORK/out"
says stderr 'rows.jsonl: not a model'
printf 'a,b\n1,2\n' >table.csv
expect 3 "rows of another kind of file" "$QLFT" train --base "$TINY" --data table.csv --format tokens --out "$WORK/out"
says stderr 'table.csv line 1: .*must be converted'
expect 3 "an adapter that is not there" "$QLFT" train --base "$TINY" --data rows.jsonl --format tokens --adapter "$WORK" --out "$WORK/out"
says stderr 'no adapter_config.json'
expect 3 "a file where the folder should be" "$QLFT" train --base "$TINY" --data rows.jsonl --format tokens --out rows.jsonl
says stderr 'there is a file of that name'

printf 'base: x\nepoch: 3\n' >bad.yaml
expect 2 "an unknown key in a recipe" "$QLFT" train --recipe bad.yaml
says stderr 'bad.yaml line 2'
says stderr 'epochs'

expect 0 "inspect" "$QLFT" inspect "$TINY"
says stdout '[Ll]lama'
expect 3 "inspect of what is not there" "$QLFT" inspect "$WORK/nothing"
