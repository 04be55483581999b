# A run that is killed, or stopped by a signal, and resumed ends in the same bytes as one that was never stopped.

tiny_rows rows.jsonl 60
options=(--epochs 8 --save-every 3 --keep 2 --dropout 0.1 --schedule linear --warmup 5)
started=$(date +%s%N)
expect 0 "the run that nobody stops" tiny_train whole rows.jsonl "${options[@]}"
took=$((($(date +%s%N) - started) / 1000))
want=$(sum whole/adapter_model.safetensors)

# Points over the whole run, from a generator with a fixed seed: loading, steps, saves.
killed=0 equal=0 points=20
for i in $(seq 1 $points); do
    rm -rf out
    after=$(awk -v i="$i" -v n="$points" -v us="$took" 'BEGIN { srand(i); printf "%.4f", us / 1e6 * (i - rand()) / n }')
    status=0
    timeout -s KILL "$after" "$QLFT" train --base "$TINY" --data rows.jsonl --format tokens --out out --r 4 --seq 64 --batch 2 --accum 2 --lr 5e-3 --seed 5 --threads 1 --quiet \
        "${options[@]}" </dev/null >/dev/null 2>&1 || status=$?
    [ $status = 137 ] && killed=$((killed + 1))
    tiny_train out rows.jsonl "${options[@]}" --resume auto >resume.log 2>&1 </dev/null || { echo "# resume after $after s failed"; sed 's/^/#   /' resume.log; }
    if [ "$(sum out/adapter_model.safetensors)" = "$want" ] && [ -z "$(find out -name '*.tmp*')" ]; then
        equal=$((equal + 1))
    else
        echo "# killed after $after s of $took us: another adapter, or temporary files"
        find out -name '*.tmp*' | sed 's/^/#   /'
    fi
done
check "killed at $killed of $points points, resumed to the same adapter at $equal" test "$equal" = $points
check "most of the points were inside the run" test $killed -ge 10

# Killed again and again.
rm -rf out
for i in 1 2 3 4; do
    timeout -s KILL "$(awk -v us="$took" 'BEGIN { print us / 1e6 * 0.55 }')" "$QLFT" train --base "$TINY" --data rows.jsonl --format tokens --out out --r 4 --seq 64 --batch 2 \
        --accum 2 --lr 5e-3 --seed 5 --threads 1 --quiet "${options[@]}" --resume auto </dev/null >/dev/null 2>&1
done
expect 0 "resumed after four kills" tiny_train out rows.jsonl "${options[@]}" --resume auto
check "four kills, the same adapter" test "$(sum out/adapter_model.safetensors)" = "$want"
check "metrics.jsonl has each step once" test "$(numbers out/metrics.jsonl step | uniq | wc -l)" = "$(wc -l <whole/metrics.jsonl)"

expect 2 "resume with another rate is refused" tiny_train out rows.jsonl "${options[@]}" --lr 1e-3 --resume "$(ls -d out/checkpoints/step-* 2>/dev/null | tail -n 1)"
says stderr 'lr'

# A signal: the step ends, everything is saved, 130, and the rest can be had.
set -m
for signal in INT TERM; do
    rm -rf out
    tiny_train out rows.jsonl "${options[@]}" --epochs 400 >signal.log 2>&1 </dev/null &
    child=$!
    until_lines out/metrics.jsonl 5
    # the function's own shell may stand between: signal the program itself
    kill -$signal "$(pgrep -P $child -x qlft || echo $child)"
    status=0
    wait $child || status=$?
    check "SIG$signal: exit 130 (is $status)" test $status = 130
    says out/report.json '"exit": *130|interrupted'
    check "SIG$signal: there is a checkpoint" sh -c 'ls -d out/checkpoints/step-* >/dev/null'
    check "SIG$signal: no temporary file is left" test -z "$(find out -name '*.tmp*')"
done
set +m
