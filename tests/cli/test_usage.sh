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
expect 2 "an unknown option" "$QLFT" train --base x --data y --epoch 3
says stderr 'epochs'
expect 2 "an option of another command" "$QLFT" generate --base x --prompt a --lr 1
expect 2 "a value out of bounds" "$QLFT" train --base x --data y --r 0
says stderr 'r'
expect 2 "a value that is no number" "$QLFT" train --base x --data y --lr fast
says stderr 'lr'
expect 2 "an option without its value" "$QLFT" train --base
expect 2 "no base" "$QLFT" train --data y
says stderr 'base'
expect 2 "no data" "$QLFT" train --base x
says stderr 'data'

expect 3 "a base that is not there" "$QLFT" train --base "$WORK/nothing" --data "$WORK/nothing.jsonl" --out "$WORK/out"
says stderr 'nothing'
tiny_rows rows.jsonl 4
expect 3 "data that is not there" "$QLFT" train --base "$TINY" --data "$WORK/missing.jsonl" --format tokens --out "$WORK/out"
says stderr 'missing.jsonl'

printf 'base: x\nepoch: 3\n' >bad.yaml
expect 2 "an unknown key in a recipe" "$QLFT" train --recipe bad.yaml
says stderr 'bad.yaml line 2'
says stderr 'epochs'

expect 0 "inspect" "$QLFT" inspect "$TINY"
says stdout '[Ll]lama'
expect 3 "inspect of what is not there" "$QLFT" inspect "$WORK/nothing"
