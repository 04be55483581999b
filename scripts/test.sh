#!/usr/bin/env bash
# Installs what is needed, builds, and runs all tests: the unit tests and the program's own (tests/cli) in Release, then both with AddressSanitizer and
# UndefinedBehaviorSanitizer. Tests that need the real model get it if PyPI can be reached; without it they say that they are skipped.
# Ends with "N passed, N failed, N skipped" and exits non-zero if anything failed.
set -euo pipefail
cd "$(dirname "$0")/.."
cores=$(nproc)

scripts/setup.sh model tests
if model=$(scripts/get_model.sh); then
    export QLFT_TEST_GGUF=$PWD/$model
else
    echo "test.sh: no model: the tests that need it are skipped" >&2
fi

# one_build FOLDER TYPE SANITIZE: builds and tests; ctest's log stays in FOLDER/test.log.
failed_builds=0
one_build() {
    local folder=$1
    cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE="$2" -DQLFT_SANITIZE="$3" -DQLFT_TESTS=ON >/dev/null
    cmake --build "$folder"
    echo
    echo "== tests: $folder ($2, sanitizers $3)"
    ctest --test-dir "$folder" -j "$cores" --output-on-failure || failed_builds=$((failed_builds + 1))
    cp "$folder/Testing/Temporary/LastTest.log" "$folder/test.log"
}
one_build build Release OFF
# The real model under sanitizers takes long and shows nothing that the tiny ones do not.
unset QLFT_TEST_GGUF
one_build build-asan RelWithDebInfo ON

# Single checks: what Criterion and tests/cli count themselves; any other test (arrows, headers, ...) is one check.
count='
    { gsub(/\033\[[0-9;]*m/, "") }
    /^[0-9]+\/[0-9]+ Test: / { inside = 0 }
    /Synthesis: Tested:/ { gsub(/[^0-9 ]/, ""); passed += $2; failed += $3 + $4; inside += $1 }
    /^\[SKIP\]/ || /^ok - .*# SKIP/ || /^-- skipped:/ { skipped++; inside++; print "skipped: " $0 > "/dev/stderr"; next }
    /^ok - / { passed++; inside++ }
    /^not ok - / { failed++; inside++ }
    /^Test Passed\.$/ && !inside { passed++ }
    /^Test Failed\.$/ && !inside { failed++ }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }'
echo
summary=$(cat build/test.log build-asan/test.log | awk "$count")
echo "$summary"
[ "$failed_builds" -eq 0 ]
