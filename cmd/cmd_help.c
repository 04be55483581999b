#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

/* ---- for people ---- */

enum { HELP_INDENT = 30, HELP_WIDTH_MAX = 110 };

/* Words of `text` from column `at` on, wrapped behind HELP_INDENT. */
static void wrap(FILE *to, const char *text, int at, int width)
{
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (at > HELP_INDENT && at + 1 + length > width) {
            fprintf(to, "\n%*s", HELP_INDENT, "");
            at = HELP_INDENT;
        } else if (at > HELP_INDENT) {
            fputc(' ', to);
            at++;
        }
        at += fprintf(to, "%.*s", length, text);
        text += length + (text[length] == ' ');
    }
    fputc('\n', to);
}

/* " [needed]", " [16; 1 to 65536]", or "". */
static void option_terms(const qlft_option_info *o, char *out, size_t bytes)
{
    const char *normal = o->required ? "needed" : o->kind == QLFT_OPTION_FLAG ? NULL : o->default_text;
    bool unit = normal && !o->required && o->unit;
    *out = 0;
    if (normal || o->bounds)
        snprintf(out, bytes, " [%s%s%s%s%s]", normal ? normal : "", unit ? " " : "", unit ? o->unit : "", normal && o->bounds ? "; " : "",
                 o->bounds ? o->bounds : "");
}

static void help_option(FILE *to, const qlft_option_info *o, int width)
{
    char text[640], terms[160];
    int at = fprintf(to, "  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    if (at >= HELP_INDENT - 1) {
        fputc('\n', to);
        at = 0;
    }
    at += fprintf(to, "%*s", HELP_INDENT - at, "");
    option_terms(o, terms, sizeof terms);
    snprintf(text, sizeof text, "%s%s", o->help, terms);
    wrap(to, text, at, width);
}

static int help_width(FILE *to)
{
    int width = show_width(fileno(to));
    return width > HELP_WIDTH_MAX ? HELP_WIDTH_MAX : width;
}

void help_command(FILE *to, const command *which)
{
    bool train = !strcmp(which->name, "train");
    const qlft_option_info *o;
    const char *group = "";
    fprintf(to, "qlft %s %s\n  %s\n", train ? "[train]" : which->name, which->usage, which->line);
    if (which->details) fprintf(to, "\n%s\n", which->details);
    for (int i = 0; (o = qlft_option_at(i)); i++) {
        if (!qlft_option_applies(i, which->name)) continue;
        if (strcmp(group, o->group) != 0) fprintf(to, "\n%s\n", o->group);
        group = o->group;
        help_option(to, o, help_width(to));
    }
}

void help_overview(FILE *to)
{
    fprintf(to, "qlft %s: fine-tunes language models with LoRA on a 4-bit base\n\n", QLFT_VERSION);
    fprintf(to, "  qlft --base PATH --data PATH... [options]\n\ncommands\n");
    for (int i = 0; i < commands_count; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].line);
    fprintf(to, "\n`qlft COMMAND --help` lists a command's options; --name VALUE and --name=VALUE are the same.\n"
                "Results go to standard output, progress and messages to standard error.\n"
                "Exit status: 0 done, 2 usage, 3 input, 4 memory, 5 device, 6 numeric, 130 stopped after saving.\n");
}

/* ---- docs/cli.md ---- */

static void markdown_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputs("\\|", stdout);
        else
            putchar(*text);
    }
}

static void markdown_option(const qlft_option_info *o)
{
    printf("| `--%s", o->name);
    if (o->value) putchar(' ');
    markdown_cell(o->value ? o->value : "");
    printf("` | %s | %s%s%s | ",
           o->required       ? "needed"
           : o->default_text ? o->default_text
                             : "",
           o->bounds ? o->bounds : "", o->bounds && o->unit ? " " : "", o->unit ? o->unit : "");
    markdown_cell(o->help);
    printf(" |\n");
}

static void help_markdown(void)
{
    printf(
        "# The command line\n\nMade by `qlft help --markdown` from the option table (train/options.c); change it there.\n\n"
        "Results go to standard output, progress and messages to standard error. Exit status: 0 done, 2 wrong usage or option, 3 unreadable or wrong input,\n"
        "4 does not fit in memory, 5 device, 6 numeric, 130 stopped by a signal after saving.\n\n"
        "`--name VALUE` and `--name=VALUE` are the same. A switch (`on|off`) without a value is on. Lists (`PATH...`) take several values, and may be "
        "repeated.\n"
        "Sizes: B, KB, MB, GB, TB count in 1000s, KiB, MiB, GiB, TiB and K, M, G, T in 1024s.\n"
        "A recipe (`--recipe FILE`) is a YAML file whose keys are the long names; the command line goes before it. The recipe of a run also serves eval, "
        "generate,\n"
        "tokens, probe and export: they take from it what they share with train, but never `data`, `adapter` and `out` of the run (tokens does take "
        "`data`).\n");
    for (int i = 0; i < commands_count; i++) {
        const command *which = &commands[i];
        const qlft_option_info *o;
        printf("\n## qlft %s\n\n    qlft %s %s\n\n%s.\n", which->name, strcmp(which->name, "train") ? which->name : "[train]", which->usage, which->line);
        if (which->details) printf("\n%s\n", which->details);
        printf("\n| option | default | bounds, unit | meaning |\n|---|---|---|---|\n");
        for (int j = 0; (o = qlft_option_at(j)); j++)
            if (qlft_option_applies(j, which->name)) markdown_option(o);
    }
}

/* ---- completion for bash ---- */

/* A choice's words for compgen, those of on|off for switches; nothing for the rest. */
static void completion_values(const char *command_name)
{
    const qlft_option_info *o;
    for (int i = 0; (o = qlft_option_at(i)); i++) {
        const char *words = o->choices ? o->choices : o->kind == QLFT_OPTION_SWITCH ? o->value : NULL;
        if (!qlft_option_applies(i, command_name) || !words) continue;
        printf("        %s--%s) values=\"", command_name, o->name);
        for (const char *p = words; *p; p++) putchar(*p == '|' ? ' ' : *p);
        printf("\" ;;\n");
    }
}

static void help_completion(void)
{
    const qlft_option_info *o;
    printf("# bash completion for qlft; use: source <(qlft help --completion bash)\n_qlft()\n{\n"
           "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" command=train options=\"\" values=\"\"\n"
           "    [[ \"$before\" == \"=\" ]] && before=\"${COMP_WORDS[COMP_CWORD-2]}\"\n    [[ \"$word\" == \"=\" ]] && word=\"\" && "
           "before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n");
    printf("    local commands=\"");
    for (int i = 0; i < commands_count; i++) printf("%s%s", i ? " " : "", commands[i].name);
    printf("\"\n    if [[ $COMP_CWORD -ge 1 && \" $commands \" == *\" ${COMP_WORDS[1]} \"* ]]; then command=\"${COMP_WORDS[1]}\"; fi\n"
           "    if [[ $COMP_CWORD -eq 1 && \"$word\" != -* ]]; then COMPREPLY=($(compgen -W \"$commands\" -- \"$word\")); return; fi\n"
           "    if [[ \"$command\" == help && \"$word\" != -* && $COMP_CWORD -eq 2 ]]; then COMPREPLY=($(compgen -W \"$commands\" -- \"$word\")); return; fi\n"
           "    case \"$command$before\" in\n");
    for (int i = 0; i < commands_count; i++) completion_values(commands[i].name);
    printf("    esac\n    if [[ -n \"$values\" ]]; then COMPREPLY=($(compgen -W \"$values\" -- \"$word\")); return; fi\n    case \"$command\" in\n");
    for (int i = 0; i < commands_count; i++) {
        printf("        %s) options=\"", commands[i].name);
        for (int j = 0; (o = qlft_option_at(j)); j++)
            if (qlft_option_applies(j, commands[i].name)) printf("--%s ", o->name);
        printf("\" ;;\n");
    }
    printf(
        "    esac\n    if [[ \"$word\" == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\n"
        "complete -o filenames -o bashdefault -F _qlft qlft\n");
}

qlft_status cmd_help(call *c)
{
    if (qlft_config_is(c->config, "markdown", "on"))
        help_markdown();
    else if (qlft_config_is(c->config, "completion", "bash"))
        help_completion();
    else if (!c->operand)
        help_overview(stdout);
    else if (!command_find(c->operand))
        return say_error(QLFT_EARG, "there is no command %s; see `qlft help`", c->operand);
    else
        help_command(stdout, command_find(c->operand));
    return QLFT_OK;
}
