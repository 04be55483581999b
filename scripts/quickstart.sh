#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what the build needs, builds, fetches a real small model, trains it on the CPU on facts about a town that
# does not exist (under ten minutes on two cores), and shows what it answers before and after.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh model
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DQLFT_TESTS="${QLFT_TESTS:-OFF}" >/dev/null
cmake --build build
base=$(scripts/get_model.sh)

recipe=recipes/smollm2-135m-cpu.yaml
out=qlft-out/smollm2-135m-cpu
echo
echo "== training: build/qlft --recipe $recipe"
started=$SECONDS
build/qlft --recipe $recipe --base "$base" --out $out
echo "== trained in $((SECONDS - started)) s"

# Two held-out questions: the training data asks for the same facts in other words.
for question in "How tall is the lighthouse at Harrowmere?" "Which ingredients does brindle soup have?"; do
    echo
    echo "== $question"
    printf 'before: '
    build/qlft generate --base "$base" --prompt "$question" --max-tokens 60 --quiet
    printf '\nafter:  '
    build/qlft generate --base "$base" --adapter $out --prompt "$question" --max-tokens 60 --quiet
    echo
done

echo
echo "== the report, with the loss on held-out rows before and after: $out/report.html ($out/report.json)"
