/* What the tokenizer_*.c files share: the vocabulary, text with its map to the original, patterns, the steps of a tokenizer. */
#ifndef DATA_TOKENIZER_INTERNAL_H
#define DATA_TOKENIZER_INTERNAL_H

#include "core/json.h"
#include "data/tokenizer.h"
#include "data/tokenizer_spm.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TOKENIZER_ID_LIMIT = 1 << 22,     /* ids at or above are refused: no vocabulary is near, and arrays are as long as the largest id */
    TOKENIZER_FILE_LIMIT = 512 << 20, /* bytes of tokenizer.json */
    TOKENIZER_CONFIG_LIMIT = 64 << 20 /* bytes of the files beside it */
};

/* ---- growing arrays ---- */
/* Room for `count` items behind the `used` ones; doubles. `what` names the array in the message. */
qlft_status tokenizer_grow(void *items, size_t *capacity, size_t used, size_t count, size_t item_bytes);

/* ---- vocabulary (tokenizer_vocab.c) ---- */
typedef struct vocabulary {
    char *pool; /* texts, each NUL-terminated; they may hold NULs too */
    size_t pool_used, pool_capacity;
    uint32_t *at, *bytes; /* of id: place in the pool, length; at[id] == VOCABULARY_NONE: no such id */
    int32_t size;         /* largest id + 1 */
    size_t capacity;
    int32_t *slots; /* open addressing by text; -1: free */
    uint32_t slot_mask;
    int32_t count;
} vocabulary;
#define VOCABULARY_NONE UINT32_MAX

/* Refuses ids out of range, an id with two texts and a text with two ids; messages start with `what`. */
qlft_status vocabulary_add(vocabulary *v, int64_t id, const char *text, size_t bytes, const char *what);
int32_t vocabulary_find(const vocabulary *v, const char *text, size_t bytes); /* -1: none */
const char *vocabulary_text(const vocabulary *v, int32_t id, size_t *bytes);  /* NULL: none */
void vocabulary_free(vocabulary *v);

/* ---- added tokens (tokenizer_added.c) ---- */
typedef struct added_token {
    int32_t id;
    char *text; /* as it is looked for */
    size_t bytes;
    bool special, lstrip, rstrip, single_word, normalized;
} added_token;

typedef struct added_set {
    added_token *items; /* sorted by text once added_set_finish has run */
    size_t count, capacity;
    bool first[256]; /* of text */
} added_set;

typedef struct added_match {
    size_t start, end; /* with the white space that the token takes */
    const added_token *token;
} added_match;

typedef struct added_matches {
    added_match *items;
    size_t count, capacity;
} added_matches;

qlft_status added_set_add(added_set *set, const added_token *token); /* copies the text */
qlft_status added_set_finish(added_set *set);
void added_set_free(added_set *set);
/* Finds what is left of `text` after each other: the longest at the leftmost place (tokenizers), or the longest of the whole text first (llama.cpp).
 * Special tokens only if asked. */
qlft_status added_set_find(const added_set *set, const char *text, size_t bytes, bool special, bool longest_first, added_matches *out);

/* ---- text that remembers where it came from (tokenizer_text.c) ---- */
typedef struct aligned {
    char *text;
    size_t bytes, capacity;
    uint32_t *from, *to; /* of each byte: range in the original; NULL: byte i is [base + i, base + i + 1) */
    uint32_t base;
    bool owned;
} aligned;

void aligned_free(aligned *a);
/* A view of part of `a`; nothing to free, valid as long as `a`. */
aligned aligned_view(const aligned *a, size_t start, size_t end);
/* Makes room in an owned text with a map. */
qlft_status aligned_put(aligned *a, const char *text, size_t bytes, uint32_t from, uint32_t to);
qlft_status aligned_copy(aligned *a, const aligned *source, size_t start, size_t end); /* appends a part with its map */
/* Appends text that is put in front of the character at `at`. In tokenizers it has the range of that character; here of its first byte, so that ranges
 * never step back where the character is split into bytes. */
qlft_status aligned_put_before(aligned *a, const char *text, size_t bytes, const aligned *source, size_t at);
uint32_t aligned_from(const aligned *a, size_t byte);
uint32_t aligned_to(const aligned *a, size_t byte);

/* One code point of valid UTF-8 at text; its length. */
int utf8_read(const char *text, uint32_t *code);
int utf8_read_back(const char *text, size_t end, uint32_t *code); /* the one that ends at `end` */
int utf8_write(uint32_t code, char out[4]);
bool unicode_is_space(uint32_t code); /* White_Space */
bool unicode_is_word(uint32_t code);  /* \w of UTS 18: letters, marks, decimal digits, letter numbers, connectors, joiners */

/* ---- patterns (tokenizer_regex.c) ---- */
typedef struct pattern {
    void *compiled; /* pcre2_code; NULL: a literal */
    char *text;     /* the regular expression as written, or the literal */
    size_t bytes;
} pattern;
typedef struct pattern_scratch { /* of one thread */
    void *data, *context, *stack;
} pattern_scratch;
/* A regular expression as Oniguruma reads it, or a literal. What PCRE2 reads otherwise is translated or refused. */
qlft_status pattern_compile(pattern *out, const char *text, size_t bytes, bool literal, const char *what);
void pattern_free(pattern *p);
/* The next match at or behind `at`; *found false: none. Text is valid UTF-8. */
qlft_status pattern_next(const pattern *p, pattern_scratch *scratch, const char *text, size_t bytes, size_t at, bool *found, size_t *start, size_t *end);
void pattern_scratch_free(pattern_scratch *scratch);

/* ---- normalizers (tokenizer_normalize.c) ---- */
typedef struct normalizer normalizer;
struct normalizer {
    qlft_status (*apply)(const normalizer *n, pattern_scratch *scratch, aligned *text);
    pattern match; /* Replace */
    char *content; /* Replace, Prepend */
    size_t content_bytes;
    int form;         /* NFC ...: options of utf8proc */
    bool left, right; /* Strip */
};
qlft_status normalize_unicode(const normalizer *n, pattern_scratch *scratch, aligned *text);
qlft_status normalize_prepend(const normalizer *n, pattern_scratch *scratch, aligned *text);
qlft_status normalize_replace(const normalizer *n, pattern_scratch *scratch, aligned *text);
qlft_status normalize_strip(const normalizer *n, pattern_scratch *scratch, aligned *text);
qlft_status normalize_lowercase(const normalizer *n, pattern_scratch *scratch, aligned *text);

/* ---- splitters (tokenizer_split.c) ---- */
typedef struct piece {
    size_t start, end;
} piece;
typedef struct pieces {
    aligned text;
    piece *items;
    size_t count, capacity;
} pieces;
typedef enum split_behavior { SPLIT_ISOLATED, SPLIT_REMOVED, SPLIT_MERGED_WITH_PREVIOUS, SPLIT_MERGED_WITH_NEXT, SPLIT_CONTIGUOUS } split_behavior;
typedef enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER } prepend_scheme;
typedef struct splitter splitter;
struct splitter {
    qlft_status (*apply)(const splitter *s, pattern_scratch *scratch, pieces *p);
    pattern match;
    split_behavior behavior;
    bool invert;
    char replacement[8]; /* Metaspace */
    size_t replacement_bytes;
    prepend_scheme prepend;
};
qlft_status split_pattern(const splitter *s, pattern_scratch *scratch, pieces *p);
qlft_status split_prefix_space(const splitter *s, pattern_scratch *scratch, pieces *p); /* ByteLevel's add_prefix_space */
qlft_status split_metaspace(const splitter *s, pattern_scratch *scratch, pieces *p);    /* replaces and prepends; the split is a split_pattern */
extern const char SPLIT_GPT2[];
/* The pre-tokenizers of a GGUF by their name there; NULL at the end of `patterns`. */
typedef struct gguf_pre {
    const char *name;
    const char *const *patterns;
    bool ignore_merges, add_bos;
} gguf_pre;
const gguf_pre *gguf_pre_find(const char *name, size_t bytes);

/* ---- decoders (tokenizer_decode.c) ---- */
typedef struct token_strings token_strings;
typedef struct decoder decoder;
struct decoder {
    qlft_status (*apply)(const decoder *d, pattern_scratch *scratch, token_strings *strings);
    pattern match;
    char *content;
    size_t content_bytes;
    int64_t start, stop;
    bool drop_first; /* Metaspace: the replacement in the first token is dropped, not made a space */
};
qlft_status decode_byte_level(const decoder *d, pattern_scratch *scratch, token_strings *strings);
qlft_status decode_replace(const decoder *d, pattern_scratch *scratch, token_strings *strings);
qlft_status decode_byte_fallback(const decoder *d, pattern_scratch *scratch, token_strings *strings);
qlft_status decode_fuse(const decoder *d, pattern_scratch *scratch, token_strings *strings);
qlft_status decode_strip(const decoder *d, pattern_scratch *scratch, token_strings *strings);
qlft_status decode_metaspace(const decoder *d, pattern_scratch *scratch, token_strings *strings);

/* ---- merging (tokenizer_bpe.c) ---- */
typedef struct merge_slot {
    int32_t left, right, rank, id; /* left -1: free */
} merge_slot;
typedef struct merge_table {
    merge_slot *slots;
    uint32_t mask, count;
} merge_table;
qlft_status merge_table_reserve(merge_table *m, size_t count);
/* keep_first: of equal pairs the first counts (llama.cpp), else the last (tokenizers). */
void merge_table_add(merge_table *m, int32_t left, int32_t right, int32_t rank, int32_t id, bool keep_first);
/* Adds merge number `rank`: left and right as in the vocabulary. Names the merge if a token is unknown. */
qlft_status tokenizer_add_merge(tokenizer *t, const char *left, size_t left_bytes, const char *right, size_t right_bytes, int32_t rank, bool keep_first,
                                const char *what);

typedef struct symbol {
    uint32_t start, end; /* bytes of the piece */
    uint32_t size;       /* grows with each merge, so an old entry of the queue is known by it */
    int32_t id, previous, next;
} symbol;
typedef struct queued {
    uint32_t rank, left, size;
    int32_t id;
} queued;
typedef struct bpe_scratch {
    symbol *symbols;
    size_t count, capacity;
    queued *queue;
    size_t queued_count, queue_capacity;
    char *text; /* byte-level: the piece as the vocabulary writes it */
    size_t text_capacity;
} bpe_scratch;
void bpe_scratch_free(bpe_scratch *b);

/* The character that stands for a byte in a byte-level vocabulary (GPT-2), and back; -1: stands for none. */
uint32_t byte_level_code(unsigned char byte);
int byte_level_byte(uint32_t code);

/* ---- the tokenizer ---- */
typedef struct encode_scratch {
    pattern_scratch patterns;
    bpe_scratch bpe;
    pieces pieces;
} encode_scratch;

/* Appends the tokens of text[start, end); their ranges are bytes of `text`, mapped to the original by the caller. */
typedef qlft_status (*piece_encoder)(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list);
qlft_status encode_bpe_bytes(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list);
qlft_status encode_bpe_characters(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list);
qlft_status encode_scores(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list);
qlft_status encode_library(const tokenizer *t, encode_scratch *scratch, const char *text, size_t start, size_t end, token_list *list);

enum { TOKEN_ADDED = 1, TOKEN_SPECIAL = 2, TOKEN_NORMALIZED = 4 }; /* marks */
enum { TOKENIZER_STOPS = 64, TOKENIZER_AROUND = 16 };

struct tokenizer {
    vocabulary words;
    uint8_t *marks; /* of id */
    added_set raw, normalized;
    bool longest_first;
    normalizer *normalizers;
    size_t normalizer_count, normalizer_capacity;
    splitter *splitters;
    size_t splitter_count, splitter_capacity;
    decoder *decoders;
    size_t decoder_count, decoder_capacity;
    bool join_by_space; /* no decoder: tokens are joined by spaces, as tokenizers does */
    piece_encoder encode_piece;
    /* BPE */
    merge_table merges;
    bool ignore_merges, byte_fallback, fuse_unknown;
    bool unknown_stays; /* llama.cpp: what is not in the vocabulary keeps its neighbours apart and vanishes afterwards */
    int32_t unknown;    /* -1: none */
    int32_t byte_ids[256];
    /* scores */
    uint32_t *order; /* of id: lower is merged first */
    spm *library;
    /* around a text */
    int32_t prefix[TOKENIZER_AROUND], suffix[TOKENIZER_AROUND];
    int prefix_count, suffix_count;
    int32_t bos, eos, stops[TOKENIZER_STOPS];
    int stop_count;
    char *chat_template;
    char hash[SHA256_HEX_BYTES];
};

/* Room for one more step, zeroed. */
qlft_status tokenizer_new_normalizer(tokenizer *t, normalizer **out);
qlft_status tokenizer_new_splitter(tokenizer *t, splitter **out);
qlft_status tokenizer_new_decoder(tokenizer *t, decoder **out);
/* A split (isolated) on a regular expression. */
qlft_status tokenizer_add_split(tokenizer *t, const char *expression, const char *what);
/* Prepend (if asked) and replace " " by U+2581, and the decoder that undoes it: sentencepiece's white space. */
qlft_status tokenizer_add_spm_decoders(tokenizer *t, bool strip_first);
/* Finds byte_ids: byte-level characters, or <0xNN>. */
void tokenizer_find_bytes(tokenizer *t, bool byte_level);
void tokenizer_add_stop(tokenizer *t, int64_t id);
void tokenizer_set_around(tokenizer *t, bool add_bos, bool add_eos);
void tokenizer_hash_ids(const tokenizer *t, file_hash *hash); /* what stands around a text, and what ends a text or a turn: they decide ids and labels */
qlft_status tokenizer_finish(tokenizer *t);                   /* marks and the sorted sets */

qlft_status tokenizer_read_json(tokenizer *t, const char *path);                      /* tokenizer_json.c */
qlft_status tokenizer_read_steps(tokenizer *t, const json_t *root, const char *path); /* tokenizer_steps.c */
qlft_status tokenizer_read_config(tokenizer *t, const char *folder, file_hash *hash); /* tokenizer_config.c */
qlft_status tokenizer_read_gguf(tokenizer *t, const char *path);                      /* tokenizer_gguf.c */
qlft_status tokenizer_read_spm(tokenizer *t, const char *path);                       /* tokenizer_model.c */

#ifdef __cplusplus
}
#endif
#endif
