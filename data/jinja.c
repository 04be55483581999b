/* Templates compiled and rendered: statements, scopes, macros. Expressions are in jinja_eval.c. */
#include "data/jinja_impl.h"

#include <stdlib.h>
#include <utf8proc.h>

enum { DEFAULT_DEPTH = 100, NESTING_PER_CALL = 16, MAX_TEMPLATE_BYTES = 4 << 20 };
enum { DEFAULT_OUTPUT_BYTES = 64 << 20, DEFAULT_STEPS = 10000000 };

typedef enum flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE } flow;

struct jinja_loop {
    const jinja_node *node;
    const jinja_list *source; /* what is walked, and how far */
    size_t source_at;
    jinja_value items; /* those that passed the loop's `if` */
    size_t index;
    int64_t depth;
    jinja_scope *scope; /* around the loop */
};

struct jinja_macro {
    const jinja_node *node;
    jinja_scope *scope; /* where it was defined */
};

static flow run_list(jinja_machine *m, const jinja_node *n);

/* ---- compiling ---- */
/* One kind of line end, and no last one: as jinja2 reads a template. */
static char *normalised(jinja_machine *m, const char *source, size_t bytes, size_t *out_bytes)
{
    char *copy = jinja_take(m, bytes + 1);
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        copy[used++] = source[i] == '\r' ? '\n' : source[i];
        if (source[i] == '\r' && i + 1 < bytes && source[i + 1] == '\n') i++;
    }
    if (used && copy[used - 1] == '\n') used--;
    copy[used] = 0;
    *out_bytes = used;
    return copy;
}

static void check_utf8(jinja_machine *m, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(bytes - at), &code);
        if (step < 1) jinja_fail(m, QLFT_EFORMAT, "the template is not UTF-8 at byte %zu", at);
        at += (size_t)step;
    }
}

static qlft_status compile(jinja_template *t, const char *source, size_t bytes, const char *what)
{
    jinja_machine *m = &t->machine;
    if (setjmp(m->leave)) return m->status;
    m->what = jinja_text_of(m, what, strlen(what), 0)->data;
    if (bytes > MAX_TEMPLATE_BYTES) jinja_fail(m, QLFT_EFORMAT, "a template of %zu bytes is too large", bytes);
    size_t kept;
    char *text = normalised(m, source, bytes, &kept);
    m->source = text;
    m->source_bytes = kept;
    check_utf8(m, text, kept);
    t->root = jinja_parse(m);
    return QLFT_OK;
}

qlft_status jinja_compile(jinja_template **out, const char *source, size_t bytes, const char *what)
{
    *out = NULL;
    jinja_template *t = calloc(1, sizeof *t);
    if (!t) return status_fail(QLFT_ENOMEM, "%s: no memory for a template", what);
    t->machine.taken_limit = (size_t)256 << 20;
    t->machine.step_limit = SIZE_MAX;
    t->machine.output_limit = MAX_TEMPLATE_BYTES;
    t->machine.nest_limit = DEFAULT_DEPTH * NESTING_PER_CALL;
    t->machine.what = "template";
    t->machine.source = "";
    t->machine.line = 1;
    qlft_status status = compile(t, source, bytes, what);
    if (status != QLFT_OK) {
        jinja_free(t);
        return status;
    }
    *out = t;
    return QLFT_OK;
}

void jinja_free(jinja_template *t)
{
    if (!t) return;
    jinja_release(&t->machine);
    free(t);
}

/* ---- scopes ---- */
static jinja_scope *push_scope(jinja_machine *m, jinja_scope *parent)
{
    jinja_scope *s = jinja_take(m, sizeof *s);
    s->parent = parent;
    return s;
}

static void set_name(jinja_machine *m, const jinja_text *name, jinja_value value)
{
    jinja_scope *s = m->scope;
    for (size_t i = 0; i < s->count; i++) {
        if (s->names[i] == name) {
            s->values[i] = value;
            return;
        }
    }
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? 2 * s->capacity : 4;
        const jinja_text **names = jinja_take(m, capacity * sizeof *names);
        jinja_value *values = jinja_take(m, capacity * sizeof *values);
        if (s->count) {
            memcpy(names, s->names, s->count * sizeof *names);
            memcpy(values, s->values, s->count * sizeof *values);
        }
        s->names = names;
        s->values = values;
        s->capacity = capacity;
    }
    s->names[s->count] = name;
    s->values[s->count++] = value;
}

static void assign(jinja_machine *m, const jinja_node *target, jinja_value value)
{
    if (target->kind == NODE_NAME) {
        set_name(m, target->name, value);
    } else if (target->kind == NODE_ATTRIBUTE) {
        jinja_value space = jinja_eval(m, target->first);
        if (space.type != JINJA_NAMESPACE) jinja_fail(m, QLFT_EFORMAT, "cannot assign attribute on non-namespace object");
        jinja_dict_set(m, space.as.dict, jinja_string(target->name), value);
    } else {
        const jinja_list *items = jinja_walk(m, value);
        size_t wanted = 0;
        for (const jinja_node *n = target->first; n; n = n->next) wanted++;
        if (items->count < wanted) jinja_fail(m, QLFT_EFORMAT, "not enough values to unpack (expected %zu, got %zu)", wanted, items->count);
        if (items->count > wanted) jinja_fail(m, QLFT_EFORMAT, "too many values to unpack (expected %zu)", wanted);
        size_t i = 0;
        for (const jinja_node *n = target->first; n; n = n->next) assign(m, n, items->items[i++]);
    }
}

/* ---- loops ---- */
/* Makes sure that `count` items are known, as far as there are so many. The loop's `if` is asked no earlier than jinja2 asks it. */
static bool pull(jinja_machine *m, jinja_loop *l, size_t count)
{
    while (l->items.as.list->count < count && l->source_at < l->source->count) {
        jinja_value item = l->source->items[l->source_at++];
        bool wanted = true;
        jinja_spend(m, 1);
        if (l->node->third) {
            jinja_scope *around = m->scope;
            m->scope = push_scope(m, l->scope);
            assign(m, l->node->first, item);
            wanted = jinja_truth(m, jinja_eval(m, l->node->third));
            m->scope = around;
        }
        if (wanted) jinja_list_add(m, l->items, item);
    }
    return l->items.as.list->count >= count;
}

jinja_value jinja_loop_attribute(jinja_machine *m, jinja_loop *l, const jinja_text *name, bool *found)
{
    const jinja_list *items = l->items.as.list;
    int64_t index = (int64_t)l->index;
    *found = true;
    if (jinja_text_is(name, "index")) return jinja_int(index + 1);
    if (jinja_text_is(name, "index0")) return jinja_int(index);
    if (jinja_text_is(name, "first")) return jinja_bool(index == 0);
    if (jinja_text_is(name, "last")) return jinja_bool(!pull(m, l, l->index + 2));
    if (jinja_text_is(name, "depth")) return jinja_int(l->depth);
    if (jinja_text_is(name, "depth0")) return jinja_int(l->depth - 1);
    if (jinja_text_is(name, "previtem")) return index ? items->items[index - 1] : jinja_undefined(m, "there is no previous item");
    if (jinja_text_is(name, "nextitem")) return pull(m, l, l->index + 2) ? items->items[index + 1] : jinja_undefined(m, "there is no next item");
    bool backwards = jinja_text_is(name, "revindex"), from_zero = jinja_text_is(name, "revindex0");
    *found = backwards || from_zero || jinja_text_is(name, "length");
    if (!*found) return jinja_none();
    pull(m, l, SIZE_MAX);
    int64_t length = (int64_t)items->count;
    return jinja_int(backwards ? length - index : from_zero ? length - index - 1 : length);
}

static flow run_for(jinja_machine *m, const jinja_node *n)
{
    jinja_scope *around = m->scope;
    jinja_value source = jinja_eval(m, n->second);
    jinja_loop *l = jinja_take(m, sizeof *l);
    l->node = n;
    l->source = jinja_walk(m, source);
    l->items = jinja_list_new(m, JINJA_LIST, NULL);
    l->depth = 1; /* of recursive loops, which are refused */
    l->scope = around;
    jinja_value self = {.type = JINJA_LOOP, .as = {.loop = l}};
    for (; pull(m, l, l->index + 1); l->index++) {
        m->scope = push_scope(m, around);
        if (m->loop_name) set_name(m, m->loop_name, self);
        assign(m, n->first, l->items.as.list->items[l->index]);
        if (run_list(m, n->body) == FLOW_BREAK) break;
        m->scope = around;
    }
    bool none = l->items.as.list->count == 0;
    m->scope = around;
    flow result = FLOW_NEXT;
    if (none && n->fourth) {
        m->scope = push_scope(m, around);
        result = run_list(m, n->fourth);
        m->scope = around;
    }
    return result;
}

/* ---- macros ---- */
const jinja_text *jinja_macro_name(const jinja_macro *macro)
{
    return macro->node->name;
}

static const jinja_value *find_named(const jinja_arguments *args, const jinja_text *name, size_t *used)
{
    for (size_t i = 0; i < args->named_count; i++) {
        if (!jinja_text_equal(args->names[i], name)) continue;
        ++*used;
        return &args->named[i];
    }
    return NULL;
}

static void bind_parameters(jinja_machine *m, const jinja_macro *macro, const jinja_arguments *args)
{
    size_t index = 0, used = 0;
    const char *name = macro->node->name->data;
    for (const jinja_node *p = macro->node->first; p; p = p->next, index++) {
        const jinja_value *named = find_named(args, p->name, &used);
        if (index < args->count) {
            if (named) jinja_fail(m, QLFT_EFORMAT, "macro '%s' got multiple values for argument '%s'", name, p->name->data);
            set_name(m, p->name, args->given[index]);
        } else if (named) {
            set_name(m, p->name, *named);
        } else if (p->first) {
            set_name(m, p->name, jinja_eval(m, p->first));
        } else {
            set_name(m, p->name, jinja_undefined(m, "parameter '%s' was not provided", p->name->data));
        }
    }
    if (used < args->named_count) jinja_fail(m, QLFT_EFORMAT, "macro '%s' takes no keyword argument '%s' or takes it twice", name, args->names[0]->data);
    if (index < args->count) jinja_fail(m, QLFT_EFORMAT, "macro '%s' takes not more than %zu argument(s)", name, index);
}

static jinja_value call_macro(jinja_machine *m, const jinja_macro *macro, const jinja_arguments *args)
{
    if (m->calls >= m->call_limit) jinja_fail(m, QLFT_EFORMAT, "macros call each other more than %d deep", m->call_limit);
    m->calls++;
    jinja_scope *around = m->scope;
    jinja_writer *out = m->out, w = {.m = m};
    m->scope = push_scope(m, macro->scope);
    bind_parameters(m, macro, args);
    m->out = &w;
    run_list(m, macro->node->body);
    m->out = out;
    m->scope = around;
    m->calls--;
    return jinja_written_value(&w);
}

jinja_value jinja_call(jinja_machine *m, jinja_value callee, const jinja_arguments *args)
{
    jinja_spend(m, 1);
    switch (callee.type) {
    case JINJA_MACRO: return call_macro(m, callee.as.macro, args);
    case JINJA_METHOD: return jinja_invoke(m, callee.as.bound->function, callee.as.bound->self, args);
    case JINJA_FUNCTION: return jinja_invoke(m, callee.as.function, jinja_none(), args);
    case JINJA_UNDEFINED: jinja_fail(m, QLFT_EFORMAT, "%s", callee.as.text->data);
    case JINJA_LOOP: jinja_unsupported(m, "recursive loops");
    default: jinja_fail(m, QLFT_EFORMAT, "'%s' object is not callable", jinja_type_name(callee));
    }
}

/* ---- statements ---- */
static jinja_value captured(jinja_machine *m, const jinja_node *body)
{
    jinja_scope *around = m->scope;
    jinja_writer *out = m->out, w = {.m = m};
    m->scope = push_scope(m, around);
    m->out = &w;
    run_list(m, body);
    m->out = out;
    m->scope = around;
    return jinja_written_value(&w);
}

static jinja_value through_filters(jinja_machine *m, const jinja_node *filter, jinja_value value)
{
    if (!filter) return value;
    jinja_enter(m);
    value = through_filters(m, filter->first, value);
    jinja_leave(m);
    jinja_arguments args = jinja_eval_arguments(m, filter->second);
    return jinja_filter(m, value, filter->name, &args);
}

static flow run_if(jinja_machine *m, const jinja_node *n)
{
    for (;; n = n->third) {
        m->line = n->line;
        if (jinja_truth(m, jinja_eval(m, n->first))) return run_list(m, n->second);
        if (!n->flag) return run_list(m, n->third);
    }
}

static flow run_node(jinja_machine *m, const jinja_node *n)
{
    switch (n->kind) {
    case NODE_TEXT: jinja_put_text(m->out, n->constant.as.text, 0, n->constant.as.text->bytes); break;
    case NODE_OUTPUT: jinja_put_str(m->out, jinja_eval(m, n->first)); break;
    case NODE_IF: return run_if(m, n);
    case NODE_FOR: return run_for(m, n);
    case NODE_SET: assign(m, n->first, jinja_eval(m, n->second)); break;
    case NODE_SET_BLOCK: {
        jinja_value text = captured(m, n->body);
        assign(m, n->first, through_filters(m, n->second, text));
        break;
    }
    case NODE_MACRO: {
        jinja_macro *macro = jinja_take(m, sizeof *macro);
        macro->node = n;
        macro->scope = m->scope;
        set_name(m, n->name, (jinja_value){.type = JINJA_MACRO, .as = {.macro = macro}});
        break;
    }
    case NODE_SCOPE: {
        jinja_value text = captured(m, n->body);
        jinja_put_str(m->out, text);
        break;
    }
    case NODE_BREAK: return FLOW_BREAK;
    case NODE_CONTINUE: return FLOW_CONTINUE;
    default: jinja_fail(m, QLFT_EFORMAT, "an expression where a statement belongs");
    }
    return FLOW_NEXT;
}

static flow run_list(jinja_machine *m, const jinja_node *n)
{
    flow result = FLOW_NEXT;
    jinja_enter(m);
    for (; n && result == FLOW_NEXT; n = n->next) {
        m->line = n->line;
        jinja_spend(m, 1);
        result = run_node(m, n);
    }
    jinja_leave(m);
    return result;
}

/* ---- rendering ---- */
static qlft_status finish(jinja_output *out, const jinja_text *text)
{
    out->text = malloc(text->bytes + 1);
    out->origins = calloc(text->bytes + 1, sizeof *out->origins);
    out->empties = calloc(text->run_count + 1, sizeof *out->empties);
    if (!out->text || !out->origins || !out->empties) {
        jinja_output_free(out);
        return status_fail(QLFT_ENOMEM, "no memory for a rendered text of %zu bytes", text->bytes);
    }
    if (text->bytes) memcpy(out->text, text->data, text->bytes);
    out->text[text->bytes] = 0;
    out->bytes = text->bytes;
    size_t at = 0;
    for (size_t i = 0; i < text->run_count; i++) {
        jinja_run run = text->runs[i];
        if (run.end == at && run.mark) {
            out->empties[out->empty_count].at = at;
            out->empties[out->empty_count++].mark = run.mark;
        }
        for (; at < run.end; at++) out->origins[at] = run.mark;
    }
    return QLFT_OK;
}

static qlft_status render(jinja_machine *m, jinja_output *out, const jinja_template *t, const json_t *variables)
{
    if (setjmp(m->leave)) return m->status;
    if (!json_is_object(variables)) jinja_fail(m, QLFT_EARG, "the variables are not an object");
    jinja_writer w = {.m = m};
    m->out = &w;
    m->variables = jinja_from_json(m, variables).as.dict;
    m->scope = push_scope(m, NULL);
    run_list(m, t->root);
    return finish(out, jinja_written(&w));
}

qlft_status jinja_render(jinja_output *out, const jinja_template *t, const json_t *variables, const jinja_origin *origins, size_t origin_count,
                         const jinja_limits *limits, time_t now)
{
    memset(out, 0, sizeof *out);
    jinja_machine *m = calloc(1, sizeof *m); /* on the heap: nothing that changes behind setjmp is a local of this frame */
    if (!m) return status_fail(QLFT_ENOMEM, "no memory for rendering");
    int depth = limits && limits->depth > 0 ? limits->depth : DEFAULT_DEPTH;
    m->output_limit = limits && limits->output_bytes ? limits->output_bytes : DEFAULT_OUTPUT_BYTES;
    m->taken_limit = m->output_limit > SIZE_MAX / 32 ? SIZE_MAX / 2 : 16 * m->output_limit + ((size_t)64 << 20);
    m->step_limit = limits && limits->steps ? limits->steps : DEFAULT_STEPS;
    m->call_limit = depth;
    m->nest_limit = depth < 1000 ? depth * NESTING_PER_CALL : 1000 * NESTING_PER_CALL;
    m->now = now ? now : time(NULL);
    m->what = t->machine.what;
    m->source = t->machine.source;
    m->source_bytes = t->machine.source_bytes;
    m->line = 1;
    m->loop_name = t->machine.loop_name;
    m->origins = origins;
    m->origin_count = origin_count;
    qlft_status status = render(m, out, t, variables);
    jinja_release(m);
    free(m);
    return status;
}

void jinja_output_free(jinja_output *o)
{
    free(o->text);
    free(o->origins);
    free(o->empties);
    memset(o, 0, sizeof *o);
}
