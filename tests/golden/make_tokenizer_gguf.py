"""Tiny vocabularies as GGUF files, and the ids that llama.cpp gives with each pre-tokenizer.

    pip install gguf llama_cpp_python tokenizers
    python make_tokenizer_gguf.py FOLDER     reads FOLDER/steps.json (make_tokenizers.py) and FOLDER/../spm/bpe.model (make_spm.sh);
                                             writes bytes.gguf, scores.gguf, phi3.gguf, holes.gguf and gguf.json: per file and tokenizer.ggml.pre, ids of the texts of steps.json

A text that llama.cpp and the package tokenizers split by other versions of Unicode would not be a fair test; the fixed texts have none.
"""

import json
import os
import sys
import tempfile

import gguf
from gguf import GGUFWriter
from llama_cpp import Llama

PRES = ["gpt-2", "llama-bpe", "qwen2", "smollm", "default", "falcon", "deepseek-v3", "seed-coder", "command-r", "dbrx"]


def write(path, model, pre, tokens, types, merges=None, scores=None, **extra):
    w = GGUFWriter(path, "llama")
    w.add_name(extra.get("name", "tiny"))
    w.add_context_length(64)
    w.add_embedding_length(8)
    w.add_block_count(1)
    w.add_feed_forward_length(8)
    w.add_head_count(1)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_tokenizer_model(model)
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    if merges is not None:
        w.add_token_merges(merges)
    if scores is not None:
        w.add_token_scores(scores)
    w.add_bos_token_id(extra["bos"])
    w.add_eos_token_id(extra["eos"])
    w.add_eot_token_id(extra["eot"])
    if "add_bos" in extra:
        w.add_add_bos_token(extra["add_bos"])
    w.add_chat_template("{{ messages[0].content }}")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def bytes_file(path, base, pre):
    vocab = {**base["model"]["vocab"]}
    types = {i: 1 for i in vocab.values()}
    for token in base["added_tokens"]:
        vocab[token["content"]] = token["id"]
        types[token["id"]] = 3 if token["special"] else 4
    order = sorted(vocab, key=vocab.get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in base["model"]["merges"]]
    write(path, "gpt2", pre, order, [types[vocab[t]] for t in order], merges=merges, bos=vocab["<|a|>"], eos=vocab["<|b|>"], eot=vocab["<mask>"])


def pieces_of(path):
    """id -> (piece, score, type) of a sentencepiece model: field 1 of ModelProto, a message of piece (1), score (2), type (3)."""
    import struct
    data, at, made = open(path, "rb").read(), 0, []

    def varint(d, i):
        value = shift = 0
        while True:
            value |= (d[i] & 127) << shift
            shift += 7
            i += 1
            if d[i - 1] < 128:
                return value, i

    def fields(d):
        i = 0
        while i < len(d):
            key, i = varint(d, i)
            if key & 7 == 2:
                n, i = varint(d, i)
                yield key >> 3, d[i:i + n]
                i += n
            elif key & 7 == 5:
                yield key >> 3, struct.unpack("<f", d[i:i + 4])[0]
                i += 4
            else:
                value, i = varint(d, i)
                yield key >> 3, value

    for number, value in fields(data):
        if number == 1:
            piece = dict(fields(value))
            made.append((piece[1].decode(), piece.get(2, 0.0), piece.get(3, 1)))
    return made


def holes_file(path):
    """A byte-level vocabulary of five tokens: what it lacks vanishes, and keeps its neighbours apart."""
    write(path, "gpt2", "gpt-2", ["a", "b", "ab", "\u0120", "<|e|>"], [1, 1, 1, 1, 3], merges=["a b"], bos=4, eos=4, eot=4)


def scores_file(path, model, pre, name="tiny"):
    pieces = pieces_of(model)
    names = [p[0] for p in pieces]
    write(path, "llama", pre, names, [p[2] for p in pieces], scores=[p[1] for p in pieces], bos=names.index("<s>"), eos=names.index("</s>"),
          eot=names.index("<|a|>"), add_bos=True, name=name)


def rows_of(path, texts):
    llama = Llama(path, vocab_only=True, verbose=False)
    made = []
    for text in texts:
        data = text.encode()
        made.append({"ids": llama.tokenize(data, add_bos=False, special=False), "special": llama.tokenize(data, add_bos=False, special=True),
                     "added": llama.tokenize(data, add_bos=True, special=False)})
    llama.close()
    return made


def main():
    folder = sys.argv[1]
    steps = json.load(open(os.path.join(folder, "steps.json"), encoding="utf-8"))
    texts = [t for t in steps["texts"][:35] if "\0" not in t] + ["axb ab a\u00e9b", "<|a|>  x<s> y<|endoftext|> z</s>\n w"]
    out = {"texts": texts, "files": {}}
    bytes_file(os.path.join(folder, "bytes.gguf"), steps["bases"]["bytes"], PRES[0])
    scores_file(os.path.join(folder, "scores.gguf"), os.path.join(folder, "..", "spm", "bpe.model"), "default")
    holes_file(os.path.join(folder, "holes.gguf"))
    scores_file(os.path.join(folder, "phi3.gguf"), os.path.join(folder, "..", "spm", "bpe.model"), "default", "Tiny Phi-3")
    with tempfile.TemporaryDirectory() as temporary:
        for pre in PRES:
            path = os.path.join(temporary, "x.gguf")
            bytes_file(path, steps["bases"]["bytes"], pre)
            out["files"].setdefault("bytes.gguf", {})[pre] = rows_of(path, texts)
    for name, pre in (("scores.gguf", "default"), ("phi3.gguf", "default"), ("holes.gguf", "gpt-2")):
        out["files"][name] = {pre: rows_of(os.path.join(folder, name), texts)}
    with open(os.path.join(folder, "gguf.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


main()
