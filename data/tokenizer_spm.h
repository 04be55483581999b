/* libsentencepiece for C. Threads may encode with one handle. */
#ifndef DATA_TOKENIZER_SPM_H
#define DATA_TOKENIZER_SPM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spm spm;
/* Called for each piece; bytes [begin, end) of the input. */
typedef void (*spm_piece_fn)(void *payload, int32_t id, uint32_t begin, uint32_t end);

/* NULL on failure; `message` (of message_bytes) then says why. */
spm *spm_open(const void *model, size_t bytes, char *message, size_t message_bytes);
void spm_close(spm *s); /* accepts NULL */
int32_t spm_size(const spm *s);
const char *spm_piece(const spm *s, int32_t id, size_t *bytes); /* borrowed */
bool spm_is_control(const spm *s, int32_t id);
bool spm_is_unknown(const spm *s, int32_t id);
bool spm_is_byte(const spm *s, int32_t id);
int32_t spm_bos(const spm *s);
int32_t spm_eos(const spm *s);
int32_t spm_unknown(const spm *s);
/* False on failure; `message` then says why. */
bool spm_encode(const spm *s, const char *text, size_t bytes, spm_piece_fn each, void *payload, char *message, size_t message_bytes);

#ifdef __cplusplus
}
#endif
#endif
