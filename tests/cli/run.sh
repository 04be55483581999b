#!/usr/bin/env bash
# Runs tests of this folder against a program: run.sh PROGRAM [TEST...]; without tests, all test_*.sh.
# Prints their lines ("ok - ...", "not ok - ...", "ok - ... # SKIP") and a count. Exit status: 0 all well, 1 something failed, 77 nothing but skips.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { echo "usage: run.sh PROGRAM [TEST...]" >&2; exit 2; }
QLFT=$(realpath "$1") || exit 2
shift
[ -x "$QLFT" ] || { echo "run.sh: $QLFT is not a program: build it first" >&2; exit 2; }
[ $# -gt 0 ] || set -- "$here"/test_*.sh
GOLDEN=$here/../golden
export QLFT GOLDEN

passed=0 failed=0 skipped=0
for test in "$@"; do
    test=$(realpath -e "$test") || exit 2
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/qlft-cli.XXXXXX")
    export WORK
    name=$(basename "$test" .sh)
    echo "# $name"
    (
        . "$here/lib.sh"
        cd "$WORK" && . "$test"
        echo "# end of $name"
    ) 2>&1 | tee "$WORK.log"
    # A test that died in the middle has no last line.
    grep -q "^# end of $name\$" "$WORK.log" || { echo "not ok - $name ended early" | tee -a "$WORK.log"; }
    failed=$((failed + $(grep -c '^not ok' "$WORK.log")))
    skipped=$((skipped + $(grep -c '^ok .*# SKIP' "$WORK.log")))
    passed=$((passed + $(grep -c '^ok' "$WORK.log") - $(grep -c '^ok .*# SKIP' "$WORK.log")))
    rm -rf "$WORK" "$WORK.log"
done
echo "# cli: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ $((passed + skipped)) -gt 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
exit 0
