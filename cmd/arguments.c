#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"

/* Is this word an option? "-" alone is standard input, and negative numbers are values. */
static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

/* Sets the option words[*at], "--name" or "--name=value", with the words behind it that are its values. */
static qlft_status take_option(call *c, int count, char **words, int *at)
{
    char name[64];
    const char *word = words[*at];
    if (!strcmp(word, "-h")) word = "--help";
    if (word[1] != '-') return say_error(QLFT_EARG, "%s: options have two dashes and a long name; see `qlft help`", word);
    size_t length = strcspn(word + 2, "=");
    if (length >= sizeof name) return say_error(QLFT_EARG, "%s: there is no such option; see `qlft help`", word);
    memcpy(name, word + 2, length);
    name[length] = 0;
    const qlft_option_info *option = qlft_config_option(c->config, name);
    if (!option) return qlft_config_set(c->config, name, ""); /* for its message */
    if (word[2 + length] == '=') return qlft_config_set(c->config, name, word + 2 + length + 1);
    if (option->kind == QLFT_OPTION_FLAG) return qlft_config_set(c->config, name, "on");
    const char *next = *at + 1 < count ? words[*at + 1] : NULL;
    if (option->kind == QLFT_OPTION_SWITCH) {
        /* No command that has a switch takes a word of its own: what stands there is meant as the switch's value, if a wrong one. */
        return qlft_config_set(c->config, name, next && !is_option(next) ? words[++*at] : "on");
    }
    bool free_text = option->kind == QLFT_OPTION_TEXT && next && strncmp(next, "--", 2) != 0;
    if (!next || (is_option(next) && !free_text))
        return say_error(QLFT_EARG, "--%s needs a value: --%s %s%s", name, name, option->value,
                         next ? " (a value that begins with a dash is given as --name=value)" : "");
    qlft_status status = qlft_config_set(c->config, name, words[++*at]);
    bool list = option->kind == QLFT_OPTION_PATHS || option->kind == QLFT_OPTION_NAMES;
    while (status == QLFT_OK && list && *at + 1 < count && !is_option(words[*at + 1])) status = qlft_config_set(c->config, name, words[++*at]);
    return status;
}

qlft_status arguments_read(call *c, const command *which, int count, char **words)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(words[i], "--")) return say_error(QLFT_EARG, "--: what follows has no name; use --data PATH, --base PATH, ...");
        if (is_option(words[i])) {
            qlft_status status = take_option(c, count, words, &i);
            if (status != QLFT_OK) return status;
        } else if (which->operand && !c->operand) {
            c->operand = words[i];
        } else {
            return say_error(QLFT_EARG, "%s: this word belongs to no option (as in --data %s); see `qlft %s --help`", words[i], words[i], which->name);
        }
    }
    return QLFT_OK;
}
