# A run that is killed, or stopped by a signal, and resumed ends in the same bytes as one that was never stopped.

tiny_rows rows.jsonl 60
options=(--epochs 30 --save-every 7 --keep 2 --dropout 0.1 --schedule linear --warmup 5)
expect 0 "the run that nobody stops" tiny_train whole rows.jsonl "${options[@]}"
want=$(sum whole/adapter_model.safetensors)
steps=$(wc -l <whole/metrics.jsonl)

# kill_at STEP SECONDS [options]: starts (or goes on), kills with SIGKILL that long after the step; counts in $killed those that were still running.
killed=0
kill_at() {
    local step=$1 after=$2
    shift 2
    tiny_start out rows.jsonl "${options[@]}" "$@"
    [ "$step" = 0 ] || until_lines out/metrics.jsonl "$step"
    sleep "$after"
    kill -KILL "$child" 2>/dev/null
    ended
    [ "$status" = 137 ] && killed=$((killed + 1))
}

# Points all over the run, loading and saving too, from a generator with a fixed seed.
equal=0 points=20
for i in $(seq 1 $points); do
    rm -rf out
    step=$(((i - 1) * steps / points))
    after=$(awk -v i="$i" 'BEGIN { srand(i); printf "%.4f", rand() * 0.03 }')
    kill_at $step "$after"
    tiny_train out rows.jsonl "${options[@]}" --resume auto >resume.log 2>&1 </dev/null || sed 's/^/#   /' resume.log
    if [ "$(sum out/adapter_model.safetensors)" = "$want" ] && [ -z "$(find out -name '*.tmp*')" ]; then
        equal=$((equal + 1))
    else
        echo "# killed $after s after step $step of $steps: another adapter, or temporary files"
        find out -name '*.tmp*' | sed 's/^/#   /'
    fi
done
check "killed inside the run at $killed of $points points, resumed to the same adapter at $equal" test "$equal" = $points
check "most of the points were inside the run" test "$killed" -ge 10

# Killed again and again.
rm -rf out
for i in 1 2 3 4; do kill_at $((steps * i / 6)) 0.01 --resume auto; done
expect 0 "resumed after four kills" tiny_train out rows.jsonl "${options[@]}" --resume auto
check "four kills, the same adapter" test "$(sum out/adapter_model.safetensors)" = "$want"
check "metrics.jsonl has each step once" test "$(numbers out/metrics.jsonl step | uniq | wc -l)" = "$(wc -l <whole/metrics.jsonl)"
newest=$(ls -d out/checkpoints/step-* | sort -t- -k2n | tail -n 1)
expect 2 "resume with another rate is refused" tiny_train out rows.jsonl "${options[@]}" --lr 1e-3 --resume "$newest"
says stderr 'lr'

# A signal: the step ends, everything is saved, 130, and the rest can be had. Job control, since without it the shell has background programs ignore SIGINT.
set -m
for signal in INT TERM; do
    rm -rf out
    tiny_start out rows.jsonl "${options[@]}" --save-every 0
    until_lines out/metrics.jsonl 5
    kill -$signal "$child"
    ended
    check "SIG$signal: exit 130 (is $status)" test "$status" = 130
    says started.log 'resume'
    says out/report.json '"exit": *130|interrupted'
    check "SIG$signal: there is a checkpoint" sh -c 'ls -d out/checkpoints/step-* >/dev/null'
    check "SIG$signal: no temporary file is left" test -z "$(find out -name '*.tmp*')"
    expect 0 "SIG$signal: resumed" tiny_train out rows.jsonl "${options[@]}" --save-every 0 --resume auto
    check "SIG$signal: the same adapter" test "$(sum out/adapter_model.safetensors)" = "$want"
done
set +m

# A new run in a folder that an older one has used, killed and resumed: its own checkpoints count, not the older ones, which have more steps.
rm -rf out
expect 0 "an older run" tiny_train out rows.jsonl "${options[@]}"
: >out/report.json.tmp-999999999
: >out/report.json.tmp-$$
rm out/metrics.jsonl
tiny_start out rows.jsonl "${options[@]}" --epochs 100000
until_lines out/metrics.jsonl 20
kill -KILL "$child"
ended
check "what a dead process left half written is removed" test ! -e out/report.json.tmp-999999999
check "what a living one writes is left alone" test -e out/report.json.tmp-$$
done_steps=$(numbers out/metrics.jsonl step | tail -n 1)
newest=$(ls out/checkpoints | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
check "the newest checkpoint ($newest) is of the new run, which did $done_steps steps" test "$newest" -le "$done_steps"
