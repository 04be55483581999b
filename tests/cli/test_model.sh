# The real small model, if QLFT_TEST_GGUF names it: text in, text out.

if [ -z "${QLFT_TEST_GGUF:-}" ]; then
    skip "the real model: QLFT_TEST_GGUF is not set"
    return 0
fi
base=$QLFT_TEST_GGUF
expect 0 "inspect" "$QLFT" inspect "$base"
says stdout '[Ll]lama'
expect 0 "tokens of a text" "$QLFT" tokens --base "$base" --text "Hello world" --raw --json
says stdout '"ids": *\[19556, *905\]'
printf '%s\n' '{"messages": [{"role": "user", "content": "Who keeps the light?"}, {"role": "assistant", "content": "Ines Corvo."}]}' >rows.jsonl
expect 0 "tokens of a conversation" "$QLFT" tokens --base "$base" --data rows.jsonl --json
says stdout 'You are a helpful AI assistant named SmolLM'
says stdout '"labels"'
expect 0 "plan" "$QLFT" plan --base "$base" --data rows.jsonl --json
says stdout '"fits": *true'
expect 0 "greedy answer" "$QLFT" generate --base "$base" --prompt "What is the capital of France? Answer in one word." --max-tokens 12 --quiet
says stdout 'Paris'
for i in 1 2 3 4; do cat rows.jsonl; done >four.jsonl
expect 0 "four steps" "$QLFT" train --base "$base" --data four.jsonl --steps 4 --batch 4 --accum 1 --packing off --lr 2e-3 --schedule constant --warmup 0 --out out --quiet
check "the loss falls" below "$(numbers out/metrics.jsonl loss | tail -n 1)" "$(number out/metrics.jsonl loss)"
expect 0 "generate with the adapter" "$QLFT" generate --base "$base" --adapter out --prompt "Who keeps the light?" --max-tokens 8 --quiet
says stdout 'Ines'
