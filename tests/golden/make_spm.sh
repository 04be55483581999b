#!/bin/sh
# Two tiny sentencepiece models of the text in make_tokenizers.py, and the ids that spm_encode (Debian package sentencepiece) gives for lines of text.
#     sh make_spm.sh FOLDER     writes bpe.model, bpe.ids, unigram.model, unigram.ids, lines.txt
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
python3 - "$here/make_tokenizers.py" <<'EOF'
import sys
source = open(sys.argv[1], encoding="utf-8").read()
names = {}
exec(source[source.index("CORPUS ="):source.index("LLAMA3 =")], names)
open("corpus.txt", "w", encoding="utf-8").write(names["CORPUS"])
lines = [t for t in names["TEXTS"] if t == " ".join(t.splitlines()) and "\0" not in t]
open("lines.txt", "w", encoding="utf-8").write("\n".join(lines) + "\n")
EOF
spm_train --input=corpus.txt --model_prefix=bpe --vocab_size=480 --model_type=bpe --byte_fallback=true --character_coverage=0.98 \
    --normalization_rule_name=identity --remove_extra_whitespaces=false --user_defined_symbols='<w>' --control_symbols='<|a|>,<|endoftext|>' --minloglevel=2
spm_train --input=corpus.txt --model_prefix=unigram --vocab_size=150 --model_type=unigram --character_coverage=1.0 --normalization_rule_name=identity --minloglevel=2
for name in bpe unigram; do
    spm_encode --model=$name.model --output_format=id <lines.txt >$name.ids
done
rm -f corpus.txt bpe.vocab unigram.vocab
