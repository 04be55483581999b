/* Inside the template engine: values, the syntax tree, and the machine that compiling and rendering run on.
 *
 * A failure leaves by longjmp to the entry of its phase (jinja_compile, jinja_render). That is sound because everything made below the entry lives in the
 * machine's arena: there is nothing else to free, and an interpreter in which every operation may fail stays readable. */
#ifndef DATA_JINJA_IMPL_H
#define DATA_JINJA_IMPL_H

#include <setjmp.h>
#include <string.h>

#include "data/jinja.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- text: bytes of UTF-8 with their origins as runs ---- */
/* Bytes up to `end` (from the end of the run before) come from `mark`. A run of no bytes says that a marked string stood here, empty. */
typedef struct jinja_run {
    size_t end;
    uint16_t mark;
} jinja_run;

typedef struct jinja_text {
    const char *data; /* NUL-terminated behind bytes */
    size_t bytes;
    const jinja_run *runs; /* none: all bytes are the template's own */
    size_t run_count;
    bool safe; /* jinja's Markup: what is added to it gets escaped */
} jinja_text;

/* ---- values ---- */
typedef enum jinja_type {
    JINJA_ABSENT, /* an argument that was not given; never a value of the template */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_VIEW,     /* dict.keys(), .values(), .items() */
    JINJA_ITERATOR, /* what map, select, ... give: can be walked once, has no length */
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_METHOD,
    JINJA_FUNCTION,
    JINJA_TYPES
} jinja_type;

typedef struct jinja_list jinja_list;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_loop jinja_loop;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_bound jinja_bound;
typedef struct jinja_function jinja_function;

typedef struct jinja_value {
    jinja_type type;
    union {
        bool truth;
        int64_t integer;
        double number;
        const jinja_text *text; /* of UNDEFINED: why it is undefined */
        jinja_list *list;
        jinja_dict *dict; /* DICT and NAMESPACE */
        jinja_loop *loop;
        const jinja_macro *macro;
        const jinja_bound *bound;
        const jinja_function *function;
    } as;
} jinja_value;

struct jinja_list {
    jinja_value *items;
    size_t count, capacity;
    const char *name;                    /* of a view or iterator, as Python names its type */
    int64_t from, to, step;              /* of a range */
    const struct jinja_pending *pending; /* of an iterator that was not walked yet: how to get its items */
    bool spent;                          /* an iterator that was walked */
};

struct jinja_dict {
    jinja_value *keys, *values;
    size_t count, capacity;
};

/* ---- the syntax tree ---- */
typedef enum jinja_kind {
    NODE_CONSTANT,
    NODE_NAME,      /* name */
    NODE_LIST,      /* first: list of items */
    NODE_TUPLE,     /* first: list of items */
    NODE_DICT,      /* first: key, value, key, value, ... */
    NODE_ATTRIBUTE, /* first . name */
    NODE_ITEM,      /* first [ second ] */
    NODE_SLICE,     /* first [ second : third : fourth ], any of which may be NULL */
    NODE_CALL,      /* first ( second: list of arguments ) */
    NODE_FILTER,    /* first | name ( second ); first is NULL for the filter of a block set */
    NODE_TEST,      /* first is name ( second ) */
    NODE_NOT,
    NODE_NEGATIVE,
    NODE_POSITIVE,
    NODE_BINARY, /* first operation second */
    NODE_AND,
    NODE_OR,
    NODE_COMPARE,   /* first, then second: list of OPERAND nodes */
    NODE_OPERAND,   /* operation, first */
    NODE_CONDITION, /* second if first else third */
    NODE_KEYWORD,   /* name = first, among arguments */
    NODE_TEXT,      /* constant */
    NODE_OUTPUT,    /* first */
    NODE_IF,        /* if first: second; else third (flag: third is one IF node, an elif) */
    NODE_FOR,       /* for first in second (if third): body, or else fourth */
    NODE_SET,       /* first = second */
    NODE_SET_BLOCK, /* first = body, through the filters second */
    NODE_MACRO,     /* name, first: parameters (KEYWORD nodes with first NULL or the default), body */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_SCOPE, /* body with a scope of its own (generation) */
    NODE_KINDS
} jinja_kind;

typedef struct jinja_node {
    jinja_kind kind;
    int line;
    int operation;
    bool flag;
    const jinja_text *name; /* interned: equal names are one pointer */
    jinja_value constant;
    struct jinja_node *first, *second, *third, *fourth, *body;
    struct jinja_node *next; /* in a list */
} jinja_node;

/* Operators are their characters: '+', '/' | '/' << 8, ...; "in" and "not in" have codes of their own. */
#define JINJA_TWO(a, b) ((a) | ((b) << 8))
enum { JINJA_IN = 1, JINJA_NOT_IN = 2 };

/* ---- the machine ---- */
typedef struct jinja_scope {
    struct jinja_scope *parent;
    const jinja_text **names;
    jinja_value *values;
    size_t count, capacity;
} jinja_scope;

typedef struct jinja_writer jinja_writer;

typedef struct jinja_machine {
    jmp_buf leave;
    qlft_status status;
    struct jinja_chunk *chunks;
    size_t taken, taken_limit; /* bytes of the arena */
    const char *what, *source;
    size_t source_bytes;
    int line; /* being compiled or rendered */
    size_t steps, step_limit, output_limit;
    int nested, nest_limit, calls, call_limit;
    time_t now;
    jinja_scope *scope;
    jinja_dict *variables;
    const jinja_text *loop_name; /* the interned "loop", if the template uses it */
    jinja_writer *out;
    const jinja_origin *origins;
    size_t origin_count;
} jinja_machine;

struct jinja_template {
    jinja_machine machine; /* its arena holds the tree */
    jinja_node *root;
};

void *jinja_take(jinja_machine *m, size_t bytes); /* zero-filled; never NULL */
void jinja_release(jinja_machine *m);             /* frees the arena */
void jinja_fail(jinja_machine *m, qlft_status code, const char *format, ...) CORE_PRINTF(3, 4) __attribute__((noreturn));
void jinja_unsupported(jinja_machine *m, const char *format, ...) CORE_PRINTF(2, 3) __attribute__((noreturn));
/* Counts `work` steps (about one for an operation, one for 64 bytes). */
void jinja_spend(jinja_machine *m, size_t work);
void jinja_enter(jinja_machine *m); /* one level of recursion deeper; refuses too many */
void jinja_leave(jinja_machine *m);

/* ---- jinja_lex.c, jinja_parse.c ---- */
typedef enum jinja_token_kind {
    TOKEN_DATA,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_OUTPUT_BEGIN,
    TOKEN_OUTPUT_END,
    TOKEN_NAME,
    TOKEN_STRING,
    TOKEN_INT,
    TOKEN_FLOAT,
    TOKEN_OPERATOR,
    TOKEN_END
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int line, operation;
    const jinja_text *text;
    int64_t integer;
    double number;
} jinja_token;

typedef struct jinja_tokens {
    jinja_token *items;
    size_t count, capacity;
} jinja_tokens;

/* The source must have its line ends normalised and its last one dropped. */
jinja_tokens jinja_lex(jinja_machine *m);
jinja_node *jinja_parse(jinja_machine *m);

/* ---- jinja_value.c ---- */
const jinja_text *jinja_text_of(jinja_machine *m, const char *data, size_t bytes, uint16_t mark); /* copies */
bool jinja_text_is(const jinja_text *t, const char *word);
bool jinja_text_equal(const jinja_text *a, const jinja_text *b);
int jinja_text_compare(const jinja_text *a, const jinja_text *b);
uint16_t jinja_mark_at(const jinja_text *t, size_t byte);

jinja_value jinja_undefined(jinja_machine *m, const char *format, ...) CORE_PRINTF(2, 3);
jinja_value jinja_none(void);
jinja_value jinja_bool(bool truth);
jinja_value jinja_int(int64_t integer);
jinja_value jinja_float(double number);
jinja_value jinja_string(const jinja_text *text);
jinja_value jinja_words(jinja_machine *m, const char *text); /* a string of the template's own */
jinja_value jinja_list_new(jinja_machine *m, jinja_type type, const char *name);
void jinja_list_add(jinja_machine *m, jinja_value list, jinja_value item);
jinja_value jinja_dict_new(jinja_machine *m);
void jinja_dict_set(jinja_machine *m, jinja_dict *d, jinja_value key, jinja_value value);
void jinja_dict_add(jinja_machine *m, jinja_dict *d, jinja_value key, jinja_value value); /* a key that is known to be new */
const jinja_value *jinja_dict_find(jinja_machine *m, const jinja_dict *d, jinja_value key);
jinja_value jinja_pair(jinja_machine *m, jinja_value a, jinja_value b);

bool jinja_is_list(jinja_value v);   /* list, tuple, range, view, iterator */
bool jinja_is_number(jinja_value v); /* int, float, bool */
double jinja_number(jinja_value v);
bool jinja_truth(jinja_machine *m, jinja_value v);
bool jinja_equal(jinja_machine *m, jinja_value a, jinja_value b);
int jinja_order(jinja_machine *m, jinja_value a, jinja_value b,
                const char *operation); /* < 0, 0, > 0; refuses what Python cannot order; 2: not comparable (NaN) */
bool jinja_contains(jinja_machine *m, jinja_value container, jinja_value item);
size_t jinja_length(jinja_machine *m, jinja_value v);
/* What a for loop walks: items of a list, keys of a dict, characters of a string. Walking an iterator empties it. */
jinja_list *jinja_walk(jinja_machine *m, jinja_value v);
const char *jinja_type_name(jinja_value v);                     /* as Python's type(v).__name__ */
const char *jinja_object_name(jinja_machine *m, jinja_value v); /* as jinja2 names it in messages: "dict object", "None" */

/* ---- jinja_text.c: writers, and operations on strings ---- */
struct jinja_writer {
    jinja_machine *m;
    char *data;
    size_t bytes, capacity;
    jinja_run *runs;
    size_t run_count, run_capacity;
};
void jinja_put(jinja_writer *w, const char *data, size_t bytes, uint16_t mark);
void jinja_put_words(jinja_writer *w, const char *text);
void jinja_put_text(jinja_writer *w, const jinja_text *t, size_t from, size_t to); /* bytes [from, to) with their origins */
void jinja_put_code(jinja_writer *w, int32_t code, uint16_t mark);
const jinja_text *jinja_written(jinja_writer *w);
jinja_value jinja_written_value(jinja_writer *w);

int32_t jinja_code_at(const jinja_text *t, size_t byte, size_t *next); /* the code point at a byte, and where the next begins */
bool jinja_is_space(int32_t code);                                     /* Python's str.isspace */
size_t jinja_code_count(const jinja_text *t);
size_t jinja_code_offset(const jinja_text *t, size_t code); /* byte of the code-th code point */
const jinja_text *jinja_part(jinja_machine *m, const jinja_text *t, size_t from, size_t to);
enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };
const jinja_text *jinja_strip(jinja_machine *m, const jinja_text *t, const jinja_text *set, int sides); /* set NULL: white space */
const jinja_text *jinja_concat(jinja_machine *m, const jinja_text *a, const jinja_text *b);
const jinja_text *jinja_replace(jinja_machine *m, const jinja_text *t, const jinja_text *from, const jinja_text *to, int64_t limit);
jinja_value jinja_split(jinja_machine *m, const jinja_text *t, const jinja_text *separator, int64_t limit, bool from_right);
jinja_value jinja_lines(jinja_machine *m, const jinja_text *t, bool keep_ends);
typedef enum jinja_case { CASE_UPPER, CASE_LOWER, CASE_TITLE } jinja_case;
void jinja_put_case(jinja_writer *w, const jinja_text *t, size_t from, size_t to, jinja_case to_case);
const jinja_text *jinja_cased(jinja_machine *m, const jinja_text *t, jinja_case to_case);
const jinja_text *jinja_escape(jinja_machine *m, const jinja_text *t);
const char *jinja_search(const jinja_text *t, size_t from, const jinja_text *part);

/* ---- jinja_print.c: str, repr, JSON ---- */
void jinja_put_str(jinja_writer *w, jinja_value v);
void jinja_put_repr(jinja_writer *w, jinja_value v);
const jinja_text *jinja_str(jinja_machine *m, jinja_value v);
const char *jinja_repr(jinja_machine *m, jinja_value v);
void jinja_format_double(char out[40], double number); /* as Python's repr */
jinja_value jinja_to_json(jinja_machine *m, jinja_value v, bool ascii, jinja_value indent, jinja_value separators, bool sort_keys);
jinja_value jinja_from_json(jinja_machine *m, const json_t *j);

/* ---- jinja_call.c, jinja_filters.c, jinja_methods.c ---- */
typedef struct jinja_arguments {
    const jinja_value *given;
    size_t count;
    const jinja_text *const *names; /* of the keyword arguments */
    const jinja_value *named;
    size_t named_count;
} jinja_arguments;

enum { JINJA_PARAMETERS = 6 };
typedef jinja_value (*jinja_call_fn)(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw);
/* given[i] is the argument of the i-th name in `parameters` (ABSENT if not given). parameters NULL: only `raw` is filled. */
struct jinja_function {
    const char *name;
    jinja_call_fn call;
    const char *parameters;
    int required;
    bool lazy; /* see jinja_pending */
};
/* A filter that runs when its result is walked, as Python's generators do: what it raises, it raises then, or never. */
typedef struct jinja_pending {
    const jinja_function *filter;
    jinja_value self;
    jinja_value given[JINJA_PARAMETERS];
    jinja_arguments raw;
} jinja_pending;
struct jinja_bound {
    jinja_value self;
    const jinja_function *function;
};

jinja_value jinja_invoke(jinja_machine *m, const jinja_function *f, jinja_value self, const jinja_arguments *args);
const jinja_function *jinja_row(const jinja_function *table, const jinja_text *name); /* the table ends with a NULL name */
const jinja_function *jinja_find_filter(const jinja_text *name);
const jinja_function *jinja_find_test(const jinja_text *name);
const jinja_function *jinja_find_global(const jinja_text *name);
/* An attribute of Python's own type: true and *out if there is one. Refuses the ones that are not supported. */
bool jinja_find_method(jinja_machine *m, jinja_value self, const jinja_text *name, jinja_value *out);
jinja_value jinja_filter(jinja_machine *m, jinja_value self, const jinja_text *name, const jinja_arguments *args);
bool jinja_test(jinja_machine *m, jinja_value self, const jinja_text *name, const jinja_arguments *args);
jinja_value jinja_printf(jinja_machine *m, const jinja_text *format, const jinja_value *items, size_t count);
extern const jinja_function jinja_list_filters[]; /* those on sequences, in jinja_sequence.c */
extern const jinja_function jinja_tests[];

/* ---- jinja.c, jinja_eval.c ---- */
jinja_value jinja_eval(jinja_machine *m, const jinja_node *n);
jinja_arguments jinja_eval_arguments(jinja_machine *m, const jinja_node *list);
jinja_value jinja_attribute(jinja_machine *m, jinja_value object, const jinja_text *name);
jinja_value jinja_item(jinja_machine *m, jinja_value object, jinja_value key);
jinja_value jinja_slice(jinja_machine *m, jinja_value object, jinja_value from, jinja_value to, jinja_value step);
jinja_value jinja_call(jinja_machine *m, jinja_value callee, const jinja_arguments *args);
jinja_value jinja_binary(jinja_machine *m, int operation, jinja_value a, jinja_value b);
bool jinja_compare(jinja_machine *m, int operation, jinja_value a, jinja_value b);
jinja_value jinja_loop_attribute(jinja_machine *m, jinja_loop *loop, const jinja_text *name, bool *found);
const jinja_text *jinja_macro_name(const jinja_macro *macro);

#ifdef __cplusplus
}
#endif
#endif
