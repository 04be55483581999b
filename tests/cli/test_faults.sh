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
if mount -t tmpfs -o size=4m tmpfs disk 2>/dev/null; then
    expect 0 "a run on a small disk" tiny_train disk/out rows.jsonl
    older=$(sum disk/out/adapter_model.safetensors)
    # fill KB: leaves that much
    fill() { head -c $((($(df -k --output=avail disk | tail -n 1) - $1) * 1024)) /dev/zero >disk/filler; }

    tiny_start disk/out rows.jsonl --epochs 100000 --save-every 20 --keep 1 --seed 8
    until_lines disk/out/metrics.jsonl 50
    fill 8
    ended
    check "the disk fills up in the middle: exit 3 (is $status)" test "$status" = 3
    says started.log '[Nn]o space'
    says started.log 'disk/out'
    check "the older adapter is still there" test "$(sum disk/out/adapter_model.safetensors)" = "$older"
    check "no temporary file is left" test -z "$(find disk/out -name '*.tmp*')"
    check "a checkpoint is still whole" sh -c 'ls disk/out/checkpoints/step-*/state.safetensors >/dev/null'
    expect 3 "a disk that is full from the start" tiny_train disk/out rows.jsonl --seed 8
    says stderr 'No space|free'
    rm disk/filler
    expect 0 "with room again it goes on" tiny_train disk/out rows.jsonl --seed 8
    umount disk
else
    skip "a full disk: no tmpfs can be mounted here"
fi

# Two runs, one folder.
tiny_start shared rows.jsonl --epochs 100000
until_lines shared/metrics.jsonl 2
expect 3 "a second run in the same folder" tiny_train shared rows.jsonl
says stderr 'shared'
kill -KILL "$child"
ended
expect 0 "a lock whose process died does not block" tiny_train shared rows.jsonl

check "no lock is left" test ! -e shared/.lock

# What is refused while loading leaves nothing behind: not even the folder.
echo '{"input_ids": [1, 2' >broken.jsonl
expect 3 "a bad row" tiny_train nothing broken.jsonl
check "nothing is left of it" test ! -e nothing
mkdir mine
expect 3 "a bad row, in a folder that was there" tiny_train mine broken.jsonl
check "a folder that was there stays, empty" test -d mine -a -z "$(ls -A mine)"

# Weights near the largest finite number: the loss is not finite, exit 6, nothing is written.
cp -r "$TINY" huge
head -c 20000 /dev/zero | tr '\0' '\177' | dd of=huge/model.safetensors bs=1000 seek=100 conv=notrunc 2>/dev/null
expect 6 "a loss that is not finite" "$QLFT" train --base huge --data rows.jsonl --format tokens --out blown --r 4 --threads 1 --quiet
says stderr 'not finite'
says stderr 'rows.jsonl'
check "no adapter is written" test ! -e blown/adapter_model.safetensors
