# A run of a tiny model: what it writes, that the plan is kept, and that nothing but the numbers asked for decides the result.

tiny_rows rows.jsonl 40
tiny_rows held.jsonl 10 2
cat >check_report.awk <<'A'
/"planned_bytes"/ { gsub(/[^0-9]/, ""); planned = $0 }
/"used_bytes"/ { gsub(/[^0-9]/, ""); if ($0 != planned) wrong++; rows++ }
END { exit !(rows > 5 && !wrong) }
A

expect 0 "train" tiny_train out rows.jsonl --eval-data held.jsonl --epochs 3 --gguf on
for file in adapter_model.safetensors adapter_config.json adapter.gguf report.json report.html metrics.jsonl recipe.yaml; do
    check "wrote $file" test -s out/$file
done
check "no temporary file is left" test -z "$(find out -name '*.tmp*')"
says out/adapter_config.json '"peft_type": *"LORA"'
says out/report.html '<svg'
check "the page needs no network" sh -c '! grep -Eq "(src|href)=.?https?://" out/report.html'

tr ',{}' '\n' <out/report.json >report.lines
check "planned = used in every row of the ledger" awk -f check_report.awk report.lines
check "a line a step" test "$(wc -l <out/metrics.jsonl)" = "$(numbers out/metrics.jsonl step | tail -n 1)"
first=$(number out/metrics.jsonl loss)
last=$(numbers out/metrics.jsonl loss | tail -n 1)
check "the loss falls ($first to $last)" below "$last" "$first"
check "the hash in the report is the adapter's" grep -q "$(sum out/adapter_model.safetensors)" out/report.json
if sanitized; then
    skip "process peak near the plan: sanitizers take memory"
else
    # 5 % and 64 MB: shared libraries, thread stacks, mapped data
    check "process peak near the plan" below "$(number out/report.json process_peak_bytes)" "$(awk -v p="$(number out/report.json planned_peak_bytes)" 'BEGIN { print p * 1.05 + 64e6 }')"
fi

base=$(sum out/adapter_model.safetensors)
again() { # again WHAT [options]: the same run with options that must not change its result
    local what=$1
    shift
    rm -rf again
    expect 0 "run: $what" tiny_train again rows.jsonl --eval-data held.jsonl --epochs 3 "$@"
    check "the same bytes: $what" test "$(sum again/adapter_model.safetensors)" = "$base"
}
again "a second time"
again "two threads" --threads 2
again "blocks recomputed" --checkpointing block
again "blocks kept" --checkpointing none
again "optimizer paged" --page-optim on
again "loss in chunks of 3 rows" --loss-chunk 3
again "saving at every step" --save-every 1 --keep 1
rm -rf again
expect 0 "run from its own recipe" "$QLFT" train --recipe out/recipe.yaml --out again --quiet
check "the same bytes: its own recipe" test "$(sum again/adapter_model.safetensors)" = "$base"
expect 0 "another seed" tiny_train other rows.jsonl --epochs 3 --seed 6
check "another seed, another adapter" test "$(sum other/adapter_model.safetensors)" != "$base"

expect 0 "dropout, recomputed" tiny_train drop1 rows.jsonl --dropout 0.3 --checkpointing block
expect 0 "dropout, kept" tiny_train drop2 rows.jsonl --dropout 0.3 --checkpointing none
same drop1/adapter_model.safetensors drop2/adapter_model.safetensors "dropout is the same when recomputed"

expect 0 "continue from an adapter" tiny_train more rows.jsonl --adapter out
check "it starts where that one ended" below "$(number more/metrics.jsonl loss)" "$first"
expect 0 "eval of the adapter" "$QLFT" eval --base "$TINY" --adapter out --data held.jsonl --format tokens --json --quiet --threads 1
evaluated=$(number stdout loss)
after=$(tr '{' '\n' <out/report.json | tr -d '\n ' | grep -Eo '"eval":\[[^]]*\]' | grep -Eo '"loss":[0-9.eE+-]+' | tail -n 1 | sed 's/.*://')
check "eval gives the loss of the report ($evaluated, $after)" awk -v a="$evaluated" -v b="$after" 'BEGIN { d = a - b; exit !(a > 0 && d < 0.02 && d > -0.02) }'

expect 0 "plan" "$QLFT" plan --base "$TINY" --data rows.jsonl --format tokens --eval-data held.jsonl --epochs 3 --r 4 --seq 64 --batch 2 --accum 2 --threads 1 --json
check "plan and run say the same peak" test "$(number stdout planned_peak_bytes)" = "$(number out/report.json planned_peak_bytes)"
expect 0 "plan without data: rows of --seq tokens" "$QLFT" plan --base "$TINY" --r 4 --seq 64 --batch 2 --threads 1 --json
check "it is no less than with data" test "$(number stdout planned_peak_bytes)" -ge "$(number out/report.json planned_peak_bytes)"
expect 4 "a budget that is too small" tiny_train small rows.jsonl --memory 100KB
says stderr '[0-9]'
check "nothing is written for it" test ! -e small/adapter_model.safetensors

expect 0 "export to PEFT" "$QLFT" export --base "$TINY" --adapter out --format peft --out exported --quiet
check "export keeps the tensors" test -s exported/adapter_model.safetensors
expect 0 "inspect an adapter" "$QLFT" inspect out
says stdout 'lora_A'
