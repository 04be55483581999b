/* Tokens to the syntax tree: jinja2's grammar. What jinja2 knows and this engine does not is refused by name. */
#include "data/jinja_impl.h"

#include <stdio.h>

enum { PARSE_DEPTH = 120 };

typedef struct parser {
    jinja_machine *m;
    jinja_tokens tokens;
    size_t at;
    int depth, loops;
    const jinja_text **names; /* interned */
    size_t name_count, name_capacity;
} parser;

static jinja_node *parse_expression(parser *p);
static jinja_node *parse_binary(parser *p, int level);
static jinja_node *parse_unary(parser *p, bool with_filters);
static jinja_node *parse_body(parser *p, const char *const *ends);

/* ---- tokens ---- */
static const jinja_token *current(parser *p)
{
    const jinja_token *t = &p->tokens.items[p->at];
    p->m->line = t->line;
    return t;
}

static const jinja_token *take(parser *p)
{
    const jinja_token *t = current(p);
    if (t->kind != TOKEN_END) p->at++;
    return t;
}

static bool is_operator(parser *p, int operation)
{
    const jinja_token *t = current(p);
    return t->kind == TOKEN_OPERATOR && t->operation == operation;
}

static bool is_word(parser *p, const char *word)
{
    const jinja_token *t = current(p);
    return t->kind == TOKEN_NAME && jinja_text_is(t->text, word);
}

static bool skip_operator(parser *p, int operation)
{
    bool found = is_operator(p, operation);
    p->at += found;
    return found;
}

static bool skip_word(parser *p, const char *word)
{
    bool found = is_word(p, word);
    p->at += found;
    return found;
}

static const char *token_text(const jinja_token *t, char buffer[80])
{
    static const char *const kinds[] = {"text", "{%", "%}", "{{", "}}", "", "a string", "a number", "a number", "", "the end of the template"};
    if (t->kind == TOKEN_NAME) {
        snprintf(buffer, 80, "%s", t->text->data);
    } else if (t->kind == TOKEN_OPERATOR) {
        snprintf(buffer, 80, "%c%c", t->operation & 0xff, t->operation >> 8);
    } else {
        snprintf(buffer, 80, "%s", kinds[t->kind]);
    }
    return buffer;
}

static void fail_expected(parser *p, const char *expected) __attribute__((noreturn));
static void fail_expected(parser *p, const char *expected)
{
    char buffer[80];
    jinja_fail(p->m, QLFT_EFORMAT, "expected %s, got %s", expected, token_text(current(p), buffer));
}

static void expect_operator(parser *p, int operation)
{
    char text[4] = {(char)(operation & 0xff), (char)(operation >> 8), 0};
    if (!skip_operator(p, operation)) fail_expected(p, text);
}

static void expect_end(parser *p, jinja_token_kind kind)
{
    if (current(p)->kind != kind) fail_expected(p, kind == TOKEN_BLOCK_END ? "%}" : "}}");
    p->at++;
}

static const jinja_text *intern(parser *p, const jinja_text *text)
{
    for (size_t i = 0; i < p->name_count; i++) {
        if (jinja_text_equal(p->names[i], text)) return p->names[i];
    }
    if (p->name_count == p->name_capacity) {
        size_t capacity = p->name_capacity ? 2 * p->name_capacity : 32;
        const jinja_text **names = jinja_take(p->m, capacity * sizeof *names);
        if (p->name_count) memcpy(names, p->names, p->name_count * sizeof *names);
        p->names = names;
        p->name_capacity = capacity;
    }
    if (jinja_text_is(text, "loop")) p->m->loop_name = text;
    return p->names[p->name_count++] = text;
}

static const jinja_text *take_name(parser *p)
{
    if (current(p)->kind != TOKEN_NAME) fail_expected(p, "a name");
    return intern(p, take(p)->text);
}

/* ---- nodes ---- */
static jinja_node *node(parser *p, jinja_kind kind, jinja_node *first, jinja_node *second)
{
    jinja_node *n = jinja_take(p->m, sizeof *n);
    n->kind = kind;
    n->line = p->m->line;
    n->first = first;
    n->second = second;
    return n;
}

static jinja_node *constant(parser *p, jinja_value value)
{
    jinja_node *n = node(p, NODE_CONSTANT, NULL, NULL);
    n->constant = value;
    return n;
}

static void deeper(parser *p)
{
    if (++p->depth > PARSE_DEPTH) jinja_fail(p->m, QLFT_EFORMAT, "nested more than %d deep", PARSE_DEPTH);
}

/* ---- expressions ---- */
/* Items up to a closing bracket, which is taken. */
static jinja_node *parse_items(parser *p, int close, bool *had_comma)
{
    jinja_node *first = NULL, **end = &first;
    while (!is_operator(p, close)) {
        if (first) {
            expect_operator(p, ',');
            if (had_comma) *had_comma = true;
        }
        if (is_operator(p, close)) break;
        *end = parse_expression(p);
        end = &(*end)->next;
    }
    expect_operator(p, close);
    return first;
}

/* An expression, or a tuple without parentheses if a comma follows. without_condition: no `a if b` inside, for the heads of for and if. */
static jinja_node *parse_tuple(parser *p, bool without_condition)
{
    jinja_node *first = without_condition ? parse_binary(p, 0) : parse_expression(p);
    if (!is_operator(p, ',')) return first;
    jinja_node *last = first;
    while (skip_operator(p, ',')) {
        jinja_token_kind kind = current(p)->kind;
        if (kind == TOKEN_BLOCK_END || kind == TOKEN_OUTPUT_END || is_word(p, "in")) break;
        last->next = without_condition ? parse_binary(p, 0) : parse_expression(p);
        last = last->next;
    }
    return node(p, NODE_TUPLE, first, NULL);
}

static jinja_node *parse_dict(parser *p)
{
    jinja_node *first = NULL, **end = &first;
    while (!is_operator(p, '}')) {
        if (first) expect_operator(p, ',');
        if (is_operator(p, '}')) break;
        *end = parse_expression(p);
        end = &(*end)->next;
        expect_operator(p, ':');
        *end = parse_expression(p);
        end = &(*end)->next;
    }
    expect_operator(p, '}');
    return node(p, NODE_DICT, first, NULL);
}

static jinja_node *parse_word(parser *p, const jinja_token *t)
{
    static const char *const names[] = {"true", "True", "false", "False", "none", "None"};
    for (int i = 0; i < 6; i++) {
        if (jinja_text_is(t->text, names[i])) return constant(p, i < 4 ? jinja_bool(i < 2) : jinja_none());
    }
    static const char *const special[] = {"self", "super", "caller", "varargs", "kwargs"};
    for (int i = 0; i < 5; i++) {
        if (jinja_text_is(t->text, special[i])) jinja_unsupported(p->m, "'%s'", special[i]);
    }
    jinja_node *n = node(p, NODE_NAME, NULL, NULL);
    n->name = intern(p, t->text);
    return n;
}

static jinja_node *parse_primary(parser *p)
{
    const jinja_token *t = current(p);
    jinja_node *items;
    bool comma = false;
    switch (t->kind) {
    case TOKEN_NAME: return parse_word(p, take(p));
    case TOKEN_INT: return constant(p, jinja_int(take(p)->integer));
    case TOKEN_FLOAT: return constant(p, jinja_float(take(p)->number));
    case TOKEN_STRING: {
        const jinja_text *text = take(p)->text;
        while (current(p)->kind == TOKEN_STRING) text = jinja_concat(p->m, text, take(p)->text);
        return constant(p, jinja_string(text));
    }
    default: break;
    }
    if (skip_operator(p, '(')) {
        items = parse_items(p, ')', &comma);
        return items && !items->next && !comma ? items : node(p, NODE_TUPLE, items, NULL);
    }
    if (skip_operator(p, '[')) return node(p, NODE_LIST, parse_items(p, ']', NULL), NULL);
    if (skip_operator(p, '{')) return parse_dict(p);
    fail_expected(p, "an expression");
}

static jinja_node *parse_subscript(parser *p, jinja_node *object)
{
    jinja_node *parts[3] = {NULL, NULL, NULL};
    int colons = 0;
    while (!is_operator(p, ']')) {
        if (skip_operator(p, ':')) {
            if (++colons > 2) fail_expected(p, "]");
        } else if (is_operator(p, ',')) {
            jinja_unsupported(p->m, "several subscripts");
        } else {
            if (parts[colons]) fail_expected(p, "]");
            parts[colons] = parse_expression(p);
        }
    }
    expect_operator(p, ']');
    if (colons == 0 && !parts[0]) fail_expected(p, "an expression");
    jinja_node *n = node(p, colons ? NODE_SLICE : NODE_ITEM, object, parts[0]);
    n->third = parts[1];
    n->fourth = parts[2];
    return n;
}

/* The arguments of a call; the opening parenthesis was taken. */
static jinja_node *parse_arguments(parser *p)
{
    jinja_node *first = NULL, **end = &first;
    bool keywords = false;
    while (!is_operator(p, ')')) {
        if (first) {
            expect_operator(p, ',');
            if (is_operator(p, ')')) break;
        }
        if (is_operator(p, '*') || is_operator(p, JINJA_TWO('*', '*'))) jinja_unsupported(p->m, "* and ** in the arguments of a call");
        const jinja_token *next = &p->tokens.items[p->at + 1];
        if (current(p)->kind == TOKEN_NAME && next->kind == TOKEN_OPERATOR && next->operation == '=') {
            const jinja_text *name = take_name(p);
            p->at++;
            *end = node(p, NODE_KEYWORD, parse_expression(p), NULL);
            (*end)->name = name;
            keywords = true;
        } else {
            if (keywords) jinja_fail(p->m, QLFT_EFORMAT, "an argument without a name behind one with a name");
            *end = parse_expression(p);
        }
        end = &(*end)->next;
    }
    expect_operator(p, ')');
    return first;
}

static jinja_node *parse_postfix(parser *p, jinja_node *n)
{
    for (;;) {
        if (skip_operator(p, '.')) {
            const jinja_token *t = current(p);
            if (t->kind == TOKEN_INT) {
                n = node(p, NODE_ITEM, n, constant(p, jinja_int(take(p)->integer)));
            } else {
                n = node(p, NODE_ATTRIBUTE, n, NULL);
                n->name = take_name(p);
            }
        } else if (skip_operator(p, '[')) {
            n = parse_subscript(p, n);
        } else if (skip_operator(p, '(')) {
            n = node(p, NODE_CALL, n, parse_arguments(p));
        } else {
            return n;
        }
    }
}

static const jinja_text *take_dotted(parser *p)
{
    const jinja_text *name = take_name(p);
    if (is_operator(p, '.')) jinja_unsupported(p->m, "a filter or test with a dot in its name");
    return name;
}

static jinja_node *parse_filter(parser *p, jinja_node *subject)
{
    jinja_node *n = node(p, NODE_FILTER, subject, NULL);
    n->name = take_dotted(p);
    if (skip_operator(p, '(')) n->second = parse_arguments(p);
    return n;
}

static jinja_node *parse_test(parser *p, jinja_node *subject)
{
    bool negated = skip_word(p, "not");
    jinja_node *n = node(p, NODE_TEST, subject, NULL);
    n->name = take_dotted(p);
    jinja_token_kind kind = current(p)->kind;
    bool opens = is_operator(p, '[') || is_operator(p, '{');
    if (skip_operator(p, '(')) {
        n->second = parse_arguments(p);
    } else if (opens || kind == TOKEN_STRING || kind == TOKEN_INT || kind == TOKEN_FLOAT ||
               (kind == TOKEN_NAME && !is_word(p, "else") && !is_word(p, "or") && !is_word(p, "and"))) {
        if (is_word(p, "is")) jinja_fail(p->m, QLFT_EFORMAT, "You cannot chain multiple tests with is");
        /* jinja2 takes `x is defined if ...` and `x is odd not in ...` for an argument too */
        n->second = parse_postfix(p, parse_primary(p));
    }
    return negated ? node(p, NODE_NOT, n, NULL) : n;
}

static jinja_node *parse_filters(parser *p, jinja_node *n)
{
    for (;;) {
        if (skip_operator(p, '|')) {
            n = parse_filter(p, n);
        } else if (skip_word(p, "is")) {
            n = parse_test(p, n);
        } else if (skip_operator(p, '(')) {
            n = node(p, NODE_CALL, n, parse_arguments(p));
        } else {
            return n;
        }
    }
}

static jinja_node *parse_unary(parser *p, bool with_filters)
{
    jinja_node *n;
    deeper(p);
    if (is_operator(p, '-') || is_operator(p, '+')) {
        jinja_kind kind = take(p)->operation == '-' ? NODE_NEGATIVE : NODE_POSITIVE;
        n = node(p, kind, parse_unary(p, false), NULL);
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    if (with_filters) n = parse_filters(p, n);
    p->depth--;
    return n;
}

/* The binary operators from the loosest; `not` stands between and and comparisons. All group from the left, ** too. */
enum { LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_FIRST_BINARY, LEVEL_UNARY = LEVEL_FIRST_BINARY + 4 };
static const int binary_operators[4][5] = {{'+', '-'}, {'~'}, {'*', '/', JINJA_TWO('/', '/'), '%'}, {JINJA_TWO('*', '*')}};

static int take_binary(parser *p, int level)
{
    const int *operations = binary_operators[level - LEVEL_FIRST_BINARY];
    for (int i = 0; operations[i]; i++) {
        if (skip_operator(p, operations[i])) return operations[i];
    }
    return 0;
}

static int take_comparison(parser *p)
{
    static const int operations[] = {JINJA_TWO('=', '='), JINJA_TWO('!', '='), JINJA_TWO('<', '='), JINJA_TWO('>', '='), '<', '>'};
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (skip_operator(p, operations[i])) return operations[i];
    }
    if (skip_word(p, "in")) return JINJA_IN;
    const jinja_token *next = &p->tokens.items[p->at + (current(p)->kind != TOKEN_END)];
    if (is_word(p, "not") && next->kind == TOKEN_NAME && jinja_text_is(next->text, "in")) {
        p->at += 2;
        return JINJA_NOT_IN;
    }
    return 0;
}

static jinja_node *parse_compare(parser *p)
{
    jinja_node *n = parse_binary(p, LEVEL_FIRST_BINARY), *operands = NULL, **end = &operands;
    for (int operation; (operation = take_comparison(p));) {
        *end = node(p, NODE_OPERAND, parse_binary(p, LEVEL_FIRST_BINARY), NULL);
        (*end)->operation = operation;
        end = &(*end)->next;
    }
    return operands ? node(p, NODE_COMPARE, n, operands) : n;
}

static jinja_node *parse_binary(parser *p, int level)
{
    if (level == LEVEL_UNARY) return parse_unary(p, true);
    if (level == LEVEL_COMPARE) return parse_compare(p);
    if (level == LEVEL_NOT) {
        if (!skip_word(p, "not")) return parse_binary(p, LEVEL_COMPARE);
        deeper(p);
        jinja_node *n = node(p, NODE_NOT, parse_binary(p, LEVEL_NOT), NULL);
        p->depth--;
        return n;
    }
    jinja_node *n = parse_binary(p, level + 1);
    if (level == LEVEL_OR || level == LEVEL_AND) {
        while (skip_word(p, level == LEVEL_OR ? "or" : "and")) n = node(p, level == LEVEL_OR ? NODE_OR : NODE_AND, n, parse_binary(p, level + 1));
        return n;
    }
    for (int operation; (operation = take_binary(p, level));) {
        n = node(p, NODE_BINARY, n, parse_binary(p, level + 1));
        n->operation = operation;
    }
    return n;
}

static jinja_node *parse_expression(parser *p)
{
    deeper(p);
    jinja_node *n = parse_binary(p, 0);
    while (skip_word(p, "if")) {
        jinja_node *condition = node(p, NODE_CONDITION, parse_binary(p, 0), n);
        if (skip_word(p, "else")) condition->third = parse_expression(p);
        n = condition;
    }
    p->depth--;
    return n;
}

/* ---- statements ---- */
static void check_target(parser *p, const jinja_node *n, bool in_tuple)
{
    if (n->kind == NODE_TUPLE && n->first) {
        for (const jinja_node *item = n->first; item; item = item->next) check_target(p, item, true);
    } else if (n->kind == NODE_ATTRIBUTE && n->first->kind == NODE_NAME && !in_tuple) {
        return;
    } else if (n->kind != NODE_NAME) {
        jinja_fail(p->m, QLFT_EFORMAT, "cannot assign to this");
    }
}

/* What set and for assign to. */
static jinja_node *parse_target(parser *p, bool with_attribute)
{
    jinja_node *first = NULL, **end = &first;
    bool comma = false;
    do {
        if (first && (is_word(p, "in") || is_operator(p, '='))) break;
        *end = parse_postfix(p, parse_primary(p));
        end = &(*end)->next;
    } while (skip_operator(p, ',') && (comma = true));
    jinja_node *target = comma ? node(p, NODE_TUPLE, first, NULL) : first;
    check_target(p, target, !with_attribute);
    return target;
}

static jinja_node *block_body(parser *p, const char *const *ends)
{
    skip_operator(p, ':');
    expect_end(p, TOKEN_BLOCK_END);
    return parse_body(p, ends);
}

static jinja_node *parse_for(parser *p)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const end[] = {"endfor", NULL};
    jinja_node *target = parse_target(p, false);
    if (!skip_word(p, "in")) fail_expected(p, "in");
    jinja_node *n = node(p, NODE_FOR, target, parse_tuple(p, true));
    if (skip_word(p, "if")) n->third = parse_expression(p);
    if (is_word(p, "recursive")) jinja_unsupported(p->m, "recursive loops");
    p->loops++;
    n->body = block_body(p, ends);
    p->loops--;
    if (skip_word(p, "else")) n->fourth = block_body(p, end);
    p->at++;
    expect_end(p, TOKEN_BLOCK_END);
    return n;
}

static jinja_node *parse_if(parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const end[] = {"endif", NULL};
    jinja_node *head = NULL, *last = NULL;
    do {
        jinja_node *n = node(p, NODE_IF, parse_tuple(p, true), NULL);
        n->second = block_body(p, ends);
        if (last) {
            last->third = n;
            last->flag = true;
        } else {
            head = n;
        }
        last = n;
    } while (skip_word(p, "elif"));
    if (skip_word(p, "else")) last->third = block_body(p, end);
    p->at++;
    expect_end(p, TOKEN_BLOCK_END);
    return head;
}

/* Bodies that become functions in jinja2: break and continue do not reach out of them. */
static jinja_node *parse_inner(parser *p, const char *end_word)
{
    const char *const ends[] = {end_word, NULL};
    int loops = p->loops;
    p->loops = 0;
    jinja_node *body = block_body(p, ends);
    p->loops = loops;
    p->at++;
    expect_end(p, TOKEN_BLOCK_END);
    return body;
}

static jinja_node *parse_set(parser *p)
{
    jinja_node *target = parse_target(p, true);
    if (skip_operator(p, '=')) {
        jinja_node *n = node(p, NODE_SET, target, parse_tuple(p, false));
        expect_end(p, TOKEN_BLOCK_END);
        return n;
    }
    jinja_node *n = node(p, NODE_SET_BLOCK, target, NULL);
    while (skip_operator(p, '|')) n->second = parse_filter(p, n->second);
    n->body = parse_inner(p, "endset");
    return n;
}

static jinja_node *parse_macro(parser *p)
{
    jinja_node *n = node(p, NODE_MACRO, NULL, NULL), **end = &n->first;
    n->name = take_name(p);
    expect_operator(p, '(');
    while (!is_operator(p, ')')) {
        if (n->first) expect_operator(p, ',');
        *end = node(p, NODE_KEYWORD, NULL, NULL);
        (*end)->name = take_name(p);
        if (skip_operator(p, '=')) {
            (*end)->first = parse_expression(p);
        } else if (n->flag) {
            jinja_fail(p->m, QLFT_EFORMAT, "non-default argument follows default argument");
        }
        n->flag = (*end)->first != NULL;
        end = &(*end)->next;
    }
    expect_operator(p, ')');
    n->body = parse_inner(p, "endmacro");
    return n;
}

static jinja_node *parse_jump(parser *p, jinja_kind kind)
{
    if (!p->loops) jinja_fail(p->m, QLFT_EFORMAT, "'%s' outside of a loop", kind == NODE_BREAK ? "break" : "continue");
    jinja_node *n = node(p, kind, NULL, NULL);
    expect_end(p, TOKEN_BLOCK_END);
    return n;
}

static jinja_node *parse_statement(parser *p)
{
    static const char *const others[] = {"block", "extends", "print", "include", "from", "import", "with", "autoescape", "call", "filter", NULL};
    const jinja_text *name = take_name(p);
    if (jinja_text_is(name, "for")) return parse_for(p);
    if (jinja_text_is(name, "if")) return parse_if(p);
    if (jinja_text_is(name, "set")) return parse_set(p);
    if (jinja_text_is(name, "macro")) return parse_macro(p);
    if (jinja_text_is(name, "break")) return parse_jump(p, NODE_BREAK);
    if (jinja_text_is(name, "continue")) return parse_jump(p, NODE_CONTINUE);
    if (jinja_text_is(name, "generation")) {
        jinja_node *n = node(p, NODE_SCOPE, NULL, NULL);
        n->body = parse_inner(p, "endgeneration");
        return n;
    }
    for (int i = 0; others[i]; i++) {
        if (jinja_text_is(name, others[i])) jinja_unsupported(p->m, "{%% %s %%}", others[i]);
    }
    jinja_fail(p->m, QLFT_EFORMAT, "unknown tag '%s'", name->data);
}

static bool at_end_word(parser *p, const char *const *ends)
{
    for (int i = 0; ends && ends[i]; i++) {
        if (is_word(p, ends[i])) return true;
    }
    return false;
}

/* Statements up to one of the tags `ends`, which is the next token then; without ends, up to the end of the template. */
static jinja_node *parse_body(parser *p, const char *const *ends)
{
    jinja_node *first = NULL, **end = &first;
    deeper(p);
    for (;;) {
        const jinja_token *t = take(p);
        if (t->kind == TOKEN_END) {
            while (ends && ends[1]) ends++; /* the last one closes the block */
            if (ends) fail_expected(p, ends[0]);
            break;
        }
        if (t->kind == TOKEN_DATA) {
            *end = node(p, NODE_TEXT, NULL, NULL);
            (*end)->constant = jinja_string(t->text);
        } else if (t->kind == TOKEN_OUTPUT_BEGIN) {
            *end = node(p, NODE_OUTPUT, parse_tuple(p, false), NULL);
            expect_end(p, TOKEN_OUTPUT_END);
        } else {
            if (at_end_word(p, ends)) break;
            *end = parse_statement(p);
        }
        end = &(*end)->next;
    }
    p->depth--;
    return first;
}

jinja_node *jinja_parse(jinja_machine *m)
{
    parser p = {.m = m, .tokens = jinja_lex(m)};
    return parse_body(&p, NULL);
}
