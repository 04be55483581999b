# What the tests in this folder share; sourced by run.sh before the test. The test's variables:
#   QLFT    the program            GOLDEN  tests/golden of the checkout
#   WORK    an empty folder, removed afterwards
# A test calls `ok`, `fail` or `skip` for each thing it looks at; run.sh counts the lines.

ok() { echo "ok - $*"; }
fail() { echo "not ok - $*"; }
skip() { echo "ok - $* # SKIP"; }

# check WHAT COMMAND...: ok if the command succeeds.
check() {
    local what=$1
    shift
    if "$@"; then ok "$what"; else fail "$what"; fi
}

# expect STATUS WHAT COMMAND...: runs it, its output in $WORK/stdout and $WORK/stderr; ok if it exits with STATUS.
expect() {
    local wanted=$1 what=$2 status=0
    shift 2
    "$@" >"$WORK/stdout" 2>"$WORK/stderr" </dev/null || status=$?
    if [ "$status" = "$wanted" ]; then
        ok "$what"
    else
        fail "$what: exit $status, not $wanted"
        sed 's/^/#   /' "$WORK/stderr" | tail -n 15
    fi
}

# says FILE PATTERN: ok if the file has a line that matches (grep -E).
says() {
    if grep -Eq -- "$2" "$1"; then
        ok "$(basename "$1") says $2"
    else
        fail "$(basename "$1") does not say $2"
        head -n 15 "$1" | sed 's/^/#   /'
    fi
}

# same A B: ok if both files are there and equal.
same() { check "$3" cmp -s "$1" "$2"; }

# The rows of tiny_rows: numbers of tokens differ, so that packing and accumulation have something to do.
# tiny_rows FILE COUNT [SEED]: tokens rows for the models of tests/golden (vocabulary 300).
tiny_rows() {
    awk -v rows="$2" -v seed="${3:-1}" 'BEGIN {
        state = seed * 7919 + 17
        for (row = 0; row < rows; row++) {
            length_ = 5 + (row * 7) % 23
            ids = ""; labels = ""
            for (i = 0; i < length_; i++) {
                state = (state * 1103515245 + 12345) % 2147483648
                id = 3 + int(state / 65536) % 40
                ids = ids (i ? "," : "") id
                labels = labels (i ? "," : "") (i < 2 ? -100 : id)
            }
            printf "{\"input_ids\": [%s], \"labels\": [%s]}\n", ids, labels
        }
    }' >"$1"
}

TINY=$GOLDEN/arch/llama/model
# tiny_train OUT DATA [options]: a run of the tiny model that takes less than a second. Compare results of one machine only: levels of kernels round apart.
tiny_train() {
    local out=$1 data=$2
    shift 2
    "$QLFT" train --base "$TINY" --data "$data" --format tokens --out "$out" --r 4 --seq 64 --batch 2 --accum 2 --lr 5e-3 --seed 5 --threads 1 --quiet "$@"
}
# tiny_start OUT DATA [options]: the same in the background; $child is the program itself.
tiny_start() {
    local out=$1 data=$2
    shift 2
    "$QLFT" train --base "$TINY" --data "$data" --format tokens --out "$out" --r 4 --seq 64 --batch 2 --accum 2 --lr 5e-3 --seed 5 --threads 1 --quiet "$@" \
        >"$WORK/started.log" 2>&1 </dev/null &
    child=$!
}
# ended: waits for it; its exit status is in $status.
ended() {
    status=0
    wait "$child" 2>/dev/null || status=$?
}

# sum FILE: SHA-256 of a file, "none" if it is not there.
sum() { if [ -f "$1" ]; then sha256sum "$1" | cut -d' ' -f1; else echo none; fi; }

# number FILE KEY: the first number of that key in a JSON file.
number() { grep -Eo "\"$2\": *-?[0-9.eE+-]+" "$1" | head -n 1 | sed 's/.*: *//'; }

# numbers FILE KEY: all of them, a line each.
numbers() { grep -Eo "\"$2\": *-?[0-9.eE+-]+" "$1" | sed 's/.*: *//'; }

# below A B: is the number A below B?
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 < b + 0) }'; }

# until_lines FILE COUNT: waits (30 s at most) until the file has that many lines.
until_lines() {
    local tries=0
    while [ "$tries" -lt 3000 ]; do
        [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ] && return 0
        sleep 0.01
        tries=$((tries + 1))
    done
    return 1
}

# Is the program built with AddressSanitizer? Then its memory and speed are not its own.
sanitized() { grep -q __asan_init "$QLFT"; }
