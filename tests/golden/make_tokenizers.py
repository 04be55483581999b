"""Small tokenizers that use every step of tokenizer.json which qlft does, and what the package `tokenizers` makes of texts.

    pip install tokenizers
    python make_tokenizers.py FILE SEED COUNT     COUNT random texts beside the fixed ones

The file: `bases` (whole tokenizer.json objects, trained here on the text below), `texts`, and `variants`: `base`, `patch` (keys of tokenizer.json to
replace; "model.x" is a key of the model), and per text `ids` (nothing added, special tokens recognised), `plain` (only where different: special tokens
are text), `offsets` (bytes of the text; not for all) and `decoded` (true: the text itself; only where UTF-8 came back: others hold U+FFFD).
"""

import json
import random
import sys
import unicodedata

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = """The mill by the river ground corn for three villages, and in the year of the great flood it ground nothing at all.
Its wheel turned 24 hours a day; 365 days made 8,760 hours, and the miller counted every one of them twice.
"Don't you think," said the baker's daughter, "that we've waited long enough? I'll go, they're late, she'd know, I'm sure it's fine."
Gr\u00fc\u00dfe aus M\u00fcnchen: \u00c4pfel, \u00d6l und \u00dcbermut kosten 3,50 \u20ac. Le gar\u00e7on na\u00eff a mang\u00e9 une cr\u00eape \u00e0 No\u00ebl. \u00bfQu\u00e9 pas\u00f3, se\u00f1or?
\u041c\u0435\u043b\u044c\u043d\u0438\u0446\u0430 \u0443 \u0440\u0435\u043a\u0438 \u043c\u043e\u043b\u043e\u043b\u0430 \u0437\u0435\u0440\u043d\u043e. \u6cb3\u8fb9\u7684\u78e8\u574a\u78e8\u4e86\u4e00\u5e74\u7684\u8c37\u5b50\u3002 \u5ddd\u306e\u307b\u3068\u308a\u306e\u6c34\u8eca\u5c0f\u5c4b\u3002
for (int i = 0; i < 10; i++) { sum += a[i] * b[i]; }   // the inner loop
def grind(corn):
    return [flour(x) for x in corn if x > 0]
"""
TEXTS = ["", " ", "   ", "\n", " \n \t ", "a", " a ", "The mill", "  The mill  by the river ", "Don't! They're here; SHE'D KNOW, we'Ve.", "1234567 89 3,50 a1b22",
         "e\u0301le\u0300ve na\u00efve \u212b \ufb01n \u0958 \u1112\u1161\u11ab q\u0323\u0307 q\u0307\u0323", "\u6cb3\u8fb9\u7684\u78e8\u574a\uff0c\u5728\u8fd9\u91cc\u3002", "\u041c\u0435\u043b\u044c\u043d\u0438\u0446\u0430!!", "\U0001f600\U0001f468\u200d\U0001f469 ok",
         "<|a|>x<|b|> y <|a|><|b|>", "<|a|> \n z", "y>x<|b|> <|a|>x<|b|>", "<w>b <w>",  "a<mask>b <mask> c", "x<w>y <w> z\u00e9<w>", "<|a|><|a|>", "<|A|> <E\u0301> <\u00c9> <e\u0301>", "tab\tand\u00a0nbsp\u3000wide\u2028line\u0085next\u180emvs",
         "a_b \u00b2\u00b3\u00bd \u2167 \u0661\u0662\u0663 _x_", "--- ... !?, (a) [b] {c} $5 + 3 = 8 ^ ~ ` |", "\u2581a \u2581 \u2581\u2581b", "\ufffd\u0000x\u0001", "I\u0307 \u0130stanbul \u01c5 \u03a3\u03c3\u03c2", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "the the  the   the", "\r\nline\r\n\r\nend\r", "\u0301start mark", "x" * 40 + "\u0301" * 40,
         "sS\u017f\u00df kK\u212a 'S'\u017f", "th e\u0301th \u0301th _th", "xxxxy {a} a{1", "\u03b1\u0342 \u30fc\u3042 \u30ab\u4e00", "ab1.\nab2.\r\nab3.\n", "\x0b\x0c\x1b \u20e3", "a\u061db\u166dc\u2e44d", "a\U00031350b\U0001e4f0 \u1c8a\u0897c"]
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")


def random_texts(rng, count):
    ranges = [(0x20, 0x7e), (0x20, 0x7e), (0x20, 0x7e), (0x30, 0x39), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x52f), (0x590, 0x6ff), (0x900, 0x97f), (0x1100, 0x11ff),
              (0x1e00, 0x1fff), (0x2000, 0x206f), (0x20a0, 0x2bff), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xfe00, 0xffef), (0x1f300, 0x1faff)]
    words = [" ", "  ", "\n", "\t", "\r\n", "the", "The", "mill", "'s", "'LL", "<|a|>", "<|b|>", "<mask>", "<w>", "<E\u0301>", "12", "1", ",", ".", "river", " the", "\u00e9", "e\u0301", "\u2581"]
    made = []
    while len(made) < count:
        parts = []
        for _ in range(rng.randint(1, 12)):
            if rng.random() < 0.6:
                parts.append(rng.choice(words))
            else:
                low, high = rng.choice(ranges)
                parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6))))
        text = "".join(parts)
        # U+0130 and friends: lower case by other rules is no matter of tokenizers.
        if all(not 0xd800 <= ord(c) < 0xe000 for c in text):
            made.append(text)
    return made


def added(content, **flags):
    made = {"id": 0, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    made.update(flags)
    return made


def with_added(base, tokens):
    size = max(base["model"]["vocab"].values()) + 1
    for token in tokens:
        token["id"] = base["model"]["vocab"].get(token["content"], size)
        size += token["id"] == size
    base["added_tokens"] = tokens
    return base


def bases():
    special = [added("<|a|>", rstrip=True), added("<|b|>"), added("<mask>", lstrip=True), added("<w>", single_word=True, special=False), added("<|a|><|a|>"), added(">x<"),
               added("<E\u0301>", normalized=True, special=False)]
    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    byte_level.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=480, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    characters = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    characters.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    characters.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    characters.train_from_iterator([line for line in CORPUS.split("\n")], trainers.BpeTrainer(
        vocab_size=620, special_tokens=["<unk>"] + ["<0x%02X>" % b for b in range(256)], limit_alphabet=90, show_progress=False))
    made = {}
    for name, tokenizer in (("bytes", byte_level), ("characters", characters)):
        spec = json.loads(tokenizer.to_str())
        keep = [t for t in spec["added_tokens"] if t["content"] == "<unk>"]
        made[name] = with_added(spec, keep + json.loads(json.dumps(special)))
    return made


def split(pattern, behavior="Isolated", invert=False, literal=False):
    return {"type": "Split", "pattern": {"String" if literal else "Regex": pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": False, "use_regex": regex}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def metaspace(scheme, pieces):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": pieces}


def variants():
    end = byte_level(regex=False)
    marked = byte_level(prefix=True, regex=False)  # a space in front of each piece shows where the pieces are
    rows = [("bytes", {}), ("bytes", {"pre_tokenizer": byte_level(prefix=True)}), ("bytes", {"pre_tokenizer": sequence(split(LLAMA3), marked)}),
            ("bytes", {"pre_tokenizer": sequence(split(LLAMA3), end), "model.ignore_merges": True}), ("bytes", {"pre_tokenizer": sequence(split(O200K), marked)}),
            ("bytes", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, byte_level())}),
            ("bytes", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, byte_level(prefix=True))}),
            ("bytes", {"pre_tokenizer": sequence({"type": "Punctuation", "behavior": "Contiguous"}, marked)}),
            ("bytes", {"pre_tokenizer": sequence(split(r"\w+|[^\w\s]+"), marked)}), ("bytes", {"pre_tokenizer": sequence(split(r"(?=(\d{3})+(?!\d))"), marked)}),
            ("bytes", {"pre_tokenizer": sequence(split(r"[\s\S]{1,3}"), marked)}), ("bytes", {"pre_tokenizer": sequence(split(r"[^\S\n]+|\h+"), marked)}),
            ("bytes", {"pre_tokenizer": end}),
            *[("bytes", {"pre_tokenizer": sequence(split(pattern), marked)}) for pattern in (
                r"^\s*\w|\.$", r".+", r"(?m:.+)", r"(?mi)T.|^a", r"\bth|\B\d", r"x{,3}|a{1", r"\u00e9+|[\u0061-\u0063]", r"\v|[\v\f]+", r"\p{Letter}+", r"\p{Greek}|\p{Hiragana}+",
                r"(?i:s|k)", r"[^\s\d]+", r"\R|\N", r"(?<=t)h|(?<!t)h", r"a++|e?+", r"\P{L}+|\p{^N}", r"\s+\Z|\w\z", r"[]a]+|\]")],
            ("characters", {}), ("characters", {"model.byte_fallback": False}), ("characters", {"model.byte_fallback": False, "model.fuse_unk": False}),
            ("characters", {"model.byte_fallback": False, "model.unk_token": None})]
    for behavior in ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            rows.append(("bytes", {"pre_tokenizer": sequence(split(r"\s|the", behavior, invert), marked)}))
        rows.append(("bytes", {"pre_tokenizer": sequence(split("e", behavior, False, True), marked)}))
    for form in FORMS:
        rows.append(("bytes", {"normalizer": {"type": form}}))
    rows.append(("bytes", {"normalizer": {"type": "Lowercase"}}))
    rows.append(("bytes", {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False}}))
    rows.append(("bytes", {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}))
    rows.append(("bytes", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_\u00e9"}]}}))
    rows.append(("bytes", {"normalizer": {"type": "Replace", "pattern": {"String": "mill"}, "content": ""}}))
    rows.append(("bytes", {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "x\u00e9"}]}}))
    for scheme in ("always", "first", "never"):
        for pieces in (True, False):
            rows.append(("characters", {"normalizer": None, "pre_tokenizer": metaspace(scheme, pieces), "decoder": metaspace(scheme, pieces)}))
    rows.append(("characters", {"decoder": None}))
    return rows


def patched(base, patch):
    spec = json.loads(json.dumps(base))
    for key, value in patch.items():
        if key.startswith("model."):
            spec["model"][key[6:]] = value
        else:
            spec[key] = value
    return spec


def encode(tokenizer, text):
    made = tokenizer.encode(text, add_special_tokens=False)
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return made.ids, [[at[a], at[b]] for a, b in made.offsets]


def main():
    path, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    made = bases()
    texts = TEXTS + random_texts(random.Random(seed), count)
    out = {"bases": made, "texts": texts, "variants": []}
    for base, patch in variants():
        tokenizer = Tokenizer.from_str(json.dumps(patched(made[base], patch)))
        rows = []
        for text in texts:
            ids, offsets = encode(tokenizer, text)
            row = {"ids": ids, "offsets": offsets}
            if patch.get("model.unk_token", "") is None or "Regex" in json.dumps(patch.get("pre_tokenizer")):
                del row["offsets"]  # tokenizers counts on without the characters that it drops; and one pattern is like another
            if patch.get("normalizer") and patch["normalizer"].get("type") in FORMS and unicodedata.normalize(patch["normalizer"]["type"], text) == text:
                row["exact"] = True  # nothing was composed or taken apart
            tokenizer.encode_special_tokens = True
            plain, _ = encode(tokenizer, text)
            tokenizer.encode_special_tokens = False
            if plain != ids:
                row["plain"] = plain
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            if "\ufffd" not in decoded:
                row["decoded"] = True if decoded == text else decoded
            rows.append(row)
        out["variants"].append({"base": base, "patch": patch, "rows": rows})
    with open(path, "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=True, separators=(",", ":"))
        f.write("\n")


main()
