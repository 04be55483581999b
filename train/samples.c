#include "train/samples.h"

#include <stdlib.h>
#include <string.h>

#include "infer/decode.h"

enum { MAX_STOPS = 64 };

/* A prompt longer than --seq would take memory that the run itself does not: it is not answered. */
static qlft_status leave_out_long(prompt_list *list, int64_t most)
{
    list->longest = 0;
    for (int64_t i = 0; i < list->count; i++) {
        prompt_row *row = &list->rows[i];
        if (row->ids.count > most && !row->error && !(row->error = strdup("longer than --seq"))) return status_fail(QLFT_ENOMEM, "out of memory");
        if (!row->error && row->ids.count > list->longest) list->longest = row->ids.count;
    }
    return QLFT_OK;
}

qlft_status samples_open(samples *s, run *r)
{
    const qlft_config *c = r->config;
    memset(s, 0, sizeof *s);
    if (!c->samples || !c->eval_data_count || c->format == FORMAT_TOKENS || !r->tok || strcmp(c->eval_data[0], "-") == 0) return QLFT_OK;
    QLFT_TRY(prompt_list_read(&s->prompts, r, c->eval_data, c->eval_data_count, c->samples));
    QLFT_TRY(leave_out_long(&s->prompts, c->seq));
    size_t room = (size_t)s->prompts.count + 1;
    s->before = calloc(room, sizeof *s->before);
    s->after = calloc(room, sizeof *s->after);
    if (!s->before || !s->after) return status_fail(QLFT_ENOMEM, "out of memory for sample answers");
    QLFT_TRY(kv_cache_open(&r->cache, r->m));
    r->choice.cache_tokens = s->prompts.longest ? s->prompts.longest + SAMPLE_TOKENS : 0;
    return QLFT_OK;
}

void samples_close(samples *s)
{
    for (int64_t i = 0; i < s->prompts.count; i++) {
        if (s->before) free(s->before[i]);
        if (s->after) free(s->after[i]);
    }
    free(s->before);
    free(s->after);
    prompt_list_free(&s->prompts);
    memset(s, 0, sizeof *s);
}

/* Collects the ids of an answer. */
typedef struct collected {
    id_list ids;
    qlft_status status;
} collected;

static bool collect(void *payload, int32_t id)
{
    collected *c = payload;
    c->status = id_list_add(&c->ids, &id, 1);
    return c->status == QLFT_OK;
}

static qlft_status answer(char **text, run *r, decoder *d, const decode_options *o, const prompt_row *row)
{
    collected got = {{NULL, 0, 0}, QLFT_OK};
    int64_t drawn = 0;
    size_t bytes = 0;
    decode_end end;
    r->cache.length = 0;
    qlft_status status = decoder_feed(d, row->ids.ids, row->ids.count);
    if (status == QLFT_OK) status = decoder_generate(d, o, collect, &got, &drawn, &end);
    if (status == QLFT_OK) status = got.status;
    if (status == QLFT_OK) {
        free(*text);
        *text = NULL;
        status = answer_text(text, &bytes, r->tok, &got.ids, true);
    }
    free(got.ids.ids);
    return status;
}

qlft_status samples_answer(samples *s, run *r, bool after)
{
    int32_t stops[MAX_STOPS];
    decoder d;
    if (!r->choice.cache_tokens) return QLFT_OK;
    int count = tokenizer_stops(r->tok, stops, MAX_STOPS);
    const decode_options o = {{0.0, 1.0, 0, 0}, SAMPLE_TOKENS, stops, count < MAX_STOPS ? count : MAX_STOPS, run_stop_flag(r)};
    QLFT_TRY(decoder_open(&d, r->m, &r->cache));
    qlft_status status = QLFT_OK;
    for (int64_t i = 0; i < s->prompts.count && status == QLFT_OK && !run_stopped(r); i++) {
        run_progress(r, "sample answers", i + 1, s->prompts.count, "rows");
        if (!s->prompts.rows[i].error) status = answer(after ? &s->after[i] : &s->before[i], r, &d, &o, &s->prompts.rows[i]);
    }
    decoder_close(&d);
    return status;
}

json_t *samples_json(const samples *s)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < s->prompts.count; i++) {
        const prompt_row *row = &s->prompts.rows[i];
        if (!s->before[i] || !s->after[i]) continue;
        json_t *one = json_pack("{s:s%, s:s, s:s}", "prompt", row->text + row->asked_start, row->asked_bytes, "before", s->before[i], "after", s->after[i]);
        if (!one || json_array_append_new(list, one) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *samples_before_json(const samples *s)
{
    json_t *list = json_array();
    for (int64_t i = 0; list && i < s->prompts.count; i++) {
        json_t *text = s->before[i] ? json_string(s->before[i]) : NULL;
        json_array_append_new(list, text ? text : json_null());
    }
    return list;
}

qlft_status samples_before_from(samples *s, const json_t *list)
{
    if ((int64_t)json_array_size(list) != s->prompts.count) return QLFT_OK;
    for (int64_t i = 0; i < s->prompts.count; i++) {
        const char *text = json_string_value(json_array_get(list, (size_t)i));
        free(s->before[i]);
        s->before[i] = text ? strdup(text) : NULL;
        if (text && !s->before[i]) return status_fail(QLFT_ENOMEM, "out of memory for sample answers");
    }
    return QLFT_OK;
}
