#define PCRE2_CODE_UNIT_WIDTH 8
#include "lora/targets.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

typedef struct target {
    char *name;
    bool used;
} target;

struct targets {
    bool all;
    target *list;
    int count;
    pcre2_code *pattern;
    int failed; /* code of PCRE2 if a match could not be decided, such as a pattern that goes on for ever */
    char *text;
};

void targets_close(targets *t)
{
    if (!t) return;
    for (int i = 0; i < t->count; i++) free(t->list[i].name);
    free(t->list);
    pcre2_code_free(t->pattern);
    free(t->text);
    free(t);
}

static qlft_status targets_compile(targets *t, const char *text)
{
    int code = 0;
    PCRE2_SIZE at = 0;
    t->pattern = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF, &code, &at, NULL);
    if (t->pattern) return QLFT_OK;
    PCRE2_UCHAR why[160] = {0};
    pcre2_get_error_message(code, why, sizeof why);
    return status_fail(QLFT_EARG, "--targets %s: not a regular expression (%s at character %zu); give names like q_proj,v_proj or all-linear", text,
                       (const char *)why, (size_t)at);
}

static qlft_status targets_split(targets *t)
{
    for (char *rest = t->text, *name; (name = strsep(&rest, ", \t")) != NULL;) {
        if (!*name) continue;
        target *list = realloc(t->list, (size_t)(t->count + 1) * sizeof *list);
        if (!list) return status_fail(QLFT_ENOMEM, "out of memory for --targets");
        t->list = list;
        list[t->count] = (target){strdup(name), false};
        if (!list[t->count].name) return status_fail(QLFT_ENOMEM, "out of memory for --targets");
        t->count++;
    }
    return t->count ? QLFT_OK : status_fail(QLFT_EARG, "--targets is empty; give all-linear, or names like q_proj,v_proj");
}

qlft_status targets_open(targets **out, const char *text)
{
    qlft_status status = QLFT_OK;
    targets *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t || !(t->text = strdup(text))) {
        targets_close(t);
        return status_fail(QLFT_ENOMEM, "out of memory for --targets");
    }
    if (strcmp(text, "all-linear") == 0)
        t->all = true;
    else if (strpbrk(text, "*+?[]()|^$\\{}"))
        status = targets_compile(t, text);
    else
        status = targets_split(t);
    if (status != QLFT_OK) {
        targets_close(t);
        return status;
    }
    *out = t;
    return QLFT_OK;
}

static bool targets_match_pattern(targets *t, const char *module)
{
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(t->pattern, NULL);
    if (!match) {
        t->failed = PCRE2_ERROR_NOMEMORY;
        return false;
    }
    int found = pcre2_match(t->pattern, (PCRE2_SPTR)module, PCRE2_ZERO_TERMINATED, 0, 0, match, NULL);
    pcre2_match_data_free(match);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH) t->failed = found;
    return found >= 0;
}

bool targets_match(targets *t, const char *module)
{
    if (t->all) return true;
    if (t->pattern) return targets_match_pattern(t, module);
    size_t length = strlen(module);
    bool matched = false;
    for (int i = 0; i < t->count; i++) {
        size_t size = strlen(t->list[i].name);
        const char *tail = size <= length ? module + length - size : NULL;
        if (!tail || strcmp(tail, t->list[i].name) != 0 || (tail != module && tail[-1] != '.')) continue;
        t->list[i].used = true;
        matched = true;
    }
    return matched;
}

qlft_status targets_check_used(const targets *t, const char *known)
{
    if (t->failed) return status_fail(QLFT_EARG, "--targets %s: the pattern cannot be matched (PCRE2 code %d); give a simpler one", t->text, t->failed);
    for (int i = 0; i < t->count; i++)
        if (!t->list[i].used) return status_fail(QLFT_EARG, "--targets: no layer of this model is called %s; it has %s", t->list[i].name, known);
    return QLFT_OK;
}
