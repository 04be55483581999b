/* Tokenizers: text to ids with byte offsets, and back. Kinds: byte-level BPE (tokenizer.json, GGUF "gpt2"), BPE with byte fallback
 * (tokenizer.json of Llama 2), sentencepiece (tokenizer.model through a C++ shim, GGUF "llama"). */
#ifndef DATA_TOKENIZER_H
#define DATA_TOKENIZER_H

#include "core/file.h"
#include "core/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tokenizer tokenizer;

typedef struct token_span {
    int32_t id;
    uint32_t start, end;
} token_span; /* bytes [start, end) of the text that the token stands for */
typedef struct token_list {
    token_span *items;
    size_t count, capacity;
} token_list;
void token_list_free(token_list *list);

/* PATH: a model folder (tokenizer.json, else tokenizer.model; tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json beside it
 * give bos, eos and template), a tokenizer.json, a tokenizer.model, or a .gguf. Unknown kinds of pre-tokenizer, normalizer or model are refused by name. */
qlft_status tokenizer_open(tokenizer **out, const char *path);
void tokenizer_close(tokenizer *t); /* accepts NULL */

enum {
    TOKENIZE_SPECIAL =
        1, /* text of special tokens is recognised; else it is plain text. Added tokens that are not special are part of the vocabulary and always are */
    TOKENIZE_ADD = 2, /* add what the tokenizer's own post-processor adds (BOS, for some EOS); never a second BOS if the text begins with one */
};
/* Appends to list (which may hold tokens already: offsets are those of this text). Text must be UTF-8 (checked); it may hold NULs.
 * Tokens that were added have start == end. Bytes of one character split over tokens: each token has the range of its own bytes. Thread-safe. */
qlft_status tokenizer_encode(const tokenizer *t, const char *text, size_t bytes, unsigned flags, token_list *list);

/* Bytes of the ids, special tokens left out if asked; NUL-terminated behind *bytes, yours to free(). */
qlft_status tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, bool skip_special, char **out, size_t *bytes);

int32_t tokenizer_size(const tokenizer *t);                  /* largest id + 1 */
int32_t tokenizer_id(const tokenizer *t, const char *token); /* of a vocabulary entry or added token; -1 if none */
const char *tokenizer_token(const tokenizer *t, int32_t id); /* as written in the vocabulary; NULL if none. Borrowed */
bool tokenizer_is_special(const tokenizer *t, int32_t id);   /* an added token marked special (GGUF: control) */
int32_t tokenizer_bos(const tokenizer *t);                   /* -1 if none */
int32_t tokenizer_eos(const tokenizer *t);                   /* of tokenizer_config / GGUF; -1 if none */
bool tokenizer_adds_bos(const tokenizer *t);
/* All ids that end a generation: eos, generation_config's list, GGUF's eot. Returns how many, at most `limit` are written. */
int tokenizer_stops(const tokenizer *t, int32_t *ids, int limit);
/* The model's chat template, or NULL. Borrowed. */
const char *tokenizer_chat_template(const tokenizer *t);
/* SHA-256 of everything that decides ids: for the key of the token cache. Borrowed. */
const char *tokenizer_hash(const tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif
