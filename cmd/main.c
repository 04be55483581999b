#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"

const command commands[] = {
    {"train", cmd_train, "train an adapter (also without a command)", "--base PATH --data PATH... [options]",
     "Trains a LoRA adapter on a base that is held in 4 bits, and writes it with a report under --out.\n"
     "Stopping it (Ctrl-C) saves first; `--resume auto` goes on from there, to the same bytes.",
     NULL, false},
    {"plan", cmd_plan, "the memory that a run will take, and what is done to fit; trains nothing", "--base PATH [--data PATH...] [options]",
     "The same options as train. Every row is a buffer that the run will take; nothing else is allocated.\n"
     "Without --data rows are taken to be --seq tokens long.",
     NULL, false},
    {"eval", cmd_eval, "loss and perplexity on rows", "--base PATH [--adapter DIR] --data PATH... [options]", NULL, NULL, false},
    {"generate", cmd_generate, "answer a prompt, a conversation or rows", "--base PATH [--adapter DIR] --prompt TEXT | --chat | --data PATH",
     "--data writes one JSON object a row: {\"line\", \"prompt\", \"text\"}.", NULL, true},
    {"merge", cmd_later, "(not in this version) write the base with the adapter in it", "--base PATH --adapter DIR --out DIR", NULL, NULL, false},
    {"export", cmd_export, "the adapter for other programs: PEFT or GGUF", "--base PATH --adapter DIR --format peft|gguf --out PATH", NULL, NULL, false},
    {"quantize", cmd_later, "(not in this version) write the base in bitsandbytes' 4-bit layout", "--base PATH --out DIR", NULL, NULL, false},
    {"tokens", cmd_tokens, "what the model will see: text, token ids, which of them are learned", "--base PATH --data PATH... | --text TEXT [options]",
     "Learned tokens are coloured on a terminal and stand between >> and << elsewhere.\n"
     "--json: an object a line, {\"line\", \"ids\", \"labels\", \"text\"}; labels are -100 where none is learned.",
     NULL, true},
    {"probe", cmd_probe, "one forward and backward pass, everything written out", "--base PATH [--adapter DIR] --batch FILE --out FILE", NULL, NULL, false},
    {"inspect", cmd_inspect, "what a model, adapter, GGUF or safetensors file holds", "PATH", NULL, "PATH", true},
    {"help", cmd_help, "this, or the options of a command", "[COMMAND]", NULL, "COMMAND", true},
};
const int commands_count = sizeof commands / sizeof commands[0];

const command *command_find(const char *name)
{
    for (int i = 0; i < commands_count; i++)
        if (!strcmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

/* ---- signals: the first one asks the run to save and end, the second ends it ---- */
static volatile sig_atomic_t stop_asked;
static volatile sig_atomic_t stop_saves; /* the command is one that saves before it ends */

static void on_stop(int number)
{
    static const char saving[] = "\nqlft: stopping behind this step, to save it (once more: end at once, without)\n", plain[] = "\n";
    (void)number;
    const char *note = stop_saves ? saving : plain;
    size_t bytes = stop_saves ? sizeof saving - 1 : sizeof plain - 1;
    stop_asked = 1;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    if (write(STDERR_FILENO, note, bytes) < 0) return; /* there is nobody to tell */
}

static void signals_set(bool stream, bool saves)
{
    stop_saves = saves;
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_stop; /* without SA_RESTART: a read that waits for the next turn ends */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* nohup means that a closed terminal is to be ignored. */
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL);
    /* A run must outlive `2>&1 | head`; a stream of rows should not. A full disk or quota is reported by the write that fails. */
    signal(SIGPIPE, stream ? SIG_DFL : SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- dispatch ---- */

static qlft_status unknown_command(const char *word)
{
    const char *names[32];
    for (int i = 0; i < commands_count; i++) names[i] = commands[i].name;
    const char *near_name = qlft_nearest(word, names, commands_count);
    if (near_name) return say_error(QLFT_EARG, "there is no command %s; did you mean `qlft %s`?", word, near_name);
    if (access(word, F_OK) == 0)
        return say_error(QLFT_EARG, "there is no command %s; to train on it: --data %s; to see what it holds: qlft inspect %s", word, word, word);
    return say_error(QLFT_EARG, "there is no command %s; see `qlft help`", word);
}

static qlft_log_level level_of(const call *c)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    int level = QLFT_LOG_INFO;
    for (int i = 0; i < 4; i++)
        if (qlft_config_is(c->config, "log-level", names[i])) level = i;
    return (qlft_log_level)(c->quiet && level > QLFT_LOG_WARNING ? QLFT_LOG_WARNING : level);
}

static qlft_status run(call *c, const command *which, int count, char **words)
{
    qlft_status status = qlft_config_new(&c->config, which->name);
    if (status == QLFT_OK) status = arguments_read(c, which, count, words);
    if (status != QLFT_OK) return status;
    if (qlft_config_is(c->config, "version", "on")) {
        printf("qlft %s\n", QLFT_VERSION);
        return QLFT_OK;
    }
    if (qlft_config_is(c->config, "help", "on")) {
        help_command(stdout, which);
        return QLFT_OK;
    }
    c->json = qlft_config_is(c->config, "json", "on");
    c->quiet = qlft_config_is(c->config, "quiet", "on");
    c->shown = progress_open(c->quiet);
    if (!c->shown) return say_error(QLFT_ENOMEM, "out of memory");
    progress_watch(c->shown, &c->observer);
    c->observer.stop = &stop_asked;
    qlft_log_to(progress_log, c->shown, level_of(c));
    signals_set(which->stream, which->run == cmd_train);
    return which->run(c);
}

/* Threads that wait for each other sleep. By default libgomp has them spin, which starves this very program as soon as others use the processors (two cores,
 * eight busy processes: 26 tokens/s spinning, 166 to 261 sleeping). libgomp reads the policy when it is loaded, so the program starts itself a second time.
 * Where that cannot be done it goes on as it is. */
static void wait_asleep(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    if (setenv("OMP_WAIT_POLICY", "passive", 1) == 0) execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    wait_asleep(argv);
    call c = {.program = argv[0]};
    const command *which = &commands[0];
    qlft_status status = QLFT_OK;
    int first = 1;
    if (argc < 2) {
        help_overview(stderr);
        return qlft_exit_status(QLFT_EARG);
    }
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        argv[1] = "help";
    }
    if (argv[1][0] != '-') {
        which = command_find(argv[1]);
        first = 2;
        if (!which) status = unknown_command(argv[1]);
    }
    if (status == QLFT_OK) status = run(&c, which, argc - first, argv + first);
    progress_close(c.shown);
    qlft_log_to(NULL, NULL, QLFT_LOG_ERROR);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == QLFT_OK)
        status = say_error(QLFT_EIO, "standard output: %s", errno ? strerror(errno) : "write error");
    if (status != QLFT_OK) {
        const char *message = *said_error() ? said_error() : qlft_last_error();
        if (!*message) message = qlft_status_text(status);
        fputs("qlft: ", stderr);
        show_text(stderr, message, strlen(message), true); /* it may quote what a file says */
        fputc('\n', stderr);
    }
    qlft_config_free(c.config);
    return qlft_exit_status(status);
}
