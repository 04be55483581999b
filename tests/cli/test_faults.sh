# What the machine does to a run: a full disk, a folder that cannot be written, a second run in the same folder.

tiny_rows rows.jsonl 20

: >plain
expect 3 "a folder that cannot be made" tiny_train plain/out rows.jsonl
says stderr 'plain'
if [ "$(id -u)" = 0 ]; then
    skip "a folder without write permission: root may write everywhere"
else
    mkdir closed && chmod a-w closed
    expect 3 "a folder without write permission" tiny_train closed rows.jsonl
    says stderr 'closed'
fi

# A file size limit while saving: the older adapter stays.
expect 0 "an older adapter" tiny_train limited rows.jsonl
older=$(sum limited/adapter_model.safetensors)
limit() { (ulimit -f 16; tiny_train "$@"); }
expect 3 "a file size limit of 16 KB" limit limited rows.jsonl --seed 8 --r 32
says stderr 'limited'
check "the older adapter is still there" test "$(sum limited/adapter_model.safetensors)" = "$older"
check "no temporary file is left" test -z "$(find limited -name '*.tmp*')"

mkdir disk
if mount -t tmpfs -o size=1m tmpfs disk 2>/dev/null; then
    expect 0 "a run on a small disk" tiny_train disk/out rows.jsonl --save-every 1 --keep 1 --resume auto
    older=$(sum disk/out/adapter_model.safetensors)
    dd if=/dev/zero of=disk/filler bs=4k count=1000 2>/dev/null
    dd if=/dev/null of=disk/filler bs=1 seek=$(($(stat -c %s disk/filler) - 16384)) 2>/dev/null
    expect 3 "a full disk" tiny_train disk/out rows.jsonl --save-every 1 --keep 1 --seed 8
    says stderr '[Nn]o space|free'
    says stderr 'disk'
    check "the older adapter is still there" test "$(sum disk/out/adapter_model.safetensors)" = "$older"
    check "no temporary file is left" test -z "$(find disk/out -name '*.tmp*')"
    check "a checkpoint is still whole" sh -c 'ls disk/out/checkpoints/step-*/state.safetensors >/dev/null'
    umount disk
else
    skip "a full disk: no tmpfs can be mounted here"
fi

# Two runs, one folder. Each is a process of its own, so the first can be killed.
"$QLFT" train --base "$TINY" --data rows.jsonl --format tokens --out shared --r 4 --seq 64 --epochs 100000 --threads 1 --quiet </dev/null >first.log 2>&1 &
first=$!
until_lines shared/metrics.jsonl 2
expect 3 "a second run in the same folder" tiny_train shared rows.jsonl
says stderr 'shared'
kill -KILL $first
wait $first 2>/dev/null
expect 0 "a lock whose process died does not block" tiny_train shared rows.jsonl

# Not a number: nothing is written, exit 6.
expect 6 "a rate that blows up" tiny_train blown rows.jsonl --lr 10 --clip 0 --epochs 200 --schedule constant --warmup 0 --alpha 100000
check "no adapter with a NaN" test ! -e blown/adapter_model.safetensors
