# Rows that cannot be used: stop at once with file and line, or skip and count.

tiny_rows good.jsonl 6
{ head -n 2 good.jsonl; echo '{"input_ids": [1, 2'; tail -n 4 good.jsonl; } >broken.jsonl
{ head -n 3 good.jsonl; echo '{"input_ids": [5, 300, 7]}'; tail -n 3 good.jsonl; } >outside.jsonl
{ head -n 1 good.jsonl; echo '{"input_ids": [5, 6], "labels": [-100]}'; } >uneven.jsonl
{ head -n 1 good.jsonl; echo '{"input_ids": [5, 6, 7], "labels": [-100, -100, -100]}'; } >unsupervised.jsonl

expect 3 "a line that is no JSON stops" tiny_train out broken.jsonl
says stderr 'broken.jsonl.*(line|:) ?3'
check "nothing is written for it" test ! -e out/adapter_model.safetensors
expect 3 "an id outside the vocabulary stops" tiny_train out outside.jsonl
says stderr 'outside.jsonl.*(line|:) ?4'
says stderr '300'
expect 3 "labels of another length stop" tiny_train out uneven.jsonl
says stderr '(line|:) ?2'
expect 0 "skip goes on" tiny_train skipped broken.jsonl --epochs 2 --on-bad-row skip
says skipped/report.json '"skipped": 1'
says skipped/report.json '"samples": 6'
: >empty.jsonl
expect 3 "an empty file" tiny_train out empty.jsonl
says stderr 'empty.jsonl|no (rows|samples)|nothing'

printf '\n\n' | cat - good.jsonl | sed 's/$/\r/' >crlf.jsonl
expect 0 "CRLF and blank lines" tiny_train crlf crlf.jsonl --epochs 2
expect 0 "the plain file" tiny_train plain good.jsonl --epochs 2
same crlf/adapter_model.safetensors plain/adapter_model.safetensors "line ends do not matter"
gzip -c good.jsonl >good.jsonl.gz
expect 0 "a .gz" tiny_train zipped good.jsonl.gz --epochs 2
same zipped/adapter_model.safetensors plain/adapter_model.safetensors "compression does not matter"
status=0
tiny_train piped - --epochs 2 <good.jsonl >/dev/null || status=$?
check "standard input" test $status = 0
same piped/adapter_model.safetensors plain/adapter_model.safetensors "standard input does not matter"

expect 0 "tokens shows rows" "$QLFT" tokens --base "$TINY" --data good.jsonl --format tokens --json
check "a line a row" test "$(wc -l <stdout)" = 6
says stdout '"labels"'

{ cat broken.jsonl; tail -n 1 uneven.jsonl; } >twice.jsonl
expect 3 "tokens shows all rows, then fails" "$QLFT" tokens --base "$TINY" --data twice.jsonl --format tokens --json
check "a line a row, good or bad" test "$(wc -l <stdout)" = 8
says stdout '"line": ?3, ?"error"'
says stdout '"line": ?8, ?"error"'
says stderr 'twice.jsonl line 3: .*2 bad rows'
expect 0 "tokens with skip" "$QLFT" tokens --base "$TINY" --data twice.jsonl --format tokens --json --on-bad-row skip
check "bad rows are still shown" test "$(grep -c '"error"' stdout)" = 2
