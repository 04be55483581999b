/* Expressions: names, attributes, operators, slices, calls; with Python's rules for each pair of types. */
#include "data/jinja_impl.h"

#include <math.h>
#include <stdlib.h>

typedef jinja_value (*eval_fn)(jinja_machine *m, const jinja_node *n);

static void refuse_undefined(jinja_machine *m, jinja_value v)
{
    if (v.type == JINJA_UNDEFINED) jinja_fail(m, QLFT_EFORMAT, "%s", v.as.text->data);
}

/* ---- names, attributes, items ---- */
static jinja_value eval_name(jinja_machine *m, const jinja_node *n)
{
    for (const jinja_scope *s = m->scope; s; s = s->parent) {
        for (size_t i = s->count; i-- > 0;) {
            if (s->names[i] == n->name) return s->values[i];
        }
    }
    const jinja_value *variable = jinja_dict_find(m, m->variables, jinja_string(n->name));
    if (variable) return *variable;
    const jinja_function *global = jinja_find_global(n->name);
    if (global) return (jinja_value){.type = JINJA_FUNCTION, .as = {.function = global}};
    return jinja_undefined(m, "'%s' is undefined", n->name->data);
}

jinja_value jinja_attribute(jinja_machine *m, jinja_value object, const jinja_text *name)
{
    jinja_value found;
    bool is_found = false;
    refuse_undefined(m, object);
    if (object.type == JINJA_NAMESPACE) {
        const jinja_value *value = jinja_dict_find(m, object.as.dict, jinja_string(name));
        if (value) return *value;
    }
    if (object.type == JINJA_LOOP) {
        found = jinja_loop_attribute(m, object.as.loop, name, &is_found);
        if (is_found) return found;
    }
    if (jinja_find_method(m, object, name, &found)) return found;
    if (object.type == JINJA_DICT) {
        const jinja_value *value = jinja_dict_find(m, object.as.dict, jinja_string(name));
        if (value) return *value;
    }
    if (object.type == JINJA_MACRO || object.type == JINJA_METHOD || object.type == JINJA_FUNCTION) {
        jinja_unsupported(m, "attributes of a %s", jinja_type_name(object));
    }
    return jinja_undefined(m, "'%s' has no attribute %s", jinja_object_name(m, object), jinja_repr(m, jinja_string(name)));
}

static bool as_index(jinja_value v, int64_t *out)
{
    if (v.type != JINJA_INT && v.type != JINJA_BOOL) return false;
    *out = v.type == JINJA_INT ? v.as.integer : v.as.truth;
    return true;
}

jinja_value jinja_item(jinja_machine *m, jinja_value object, jinja_value key)
{
    int64_t index;
    jinja_value found;
    refuse_undefined(m, object);
    if (object.type == JINJA_DICT) {
        bool hashable = key.type != JINJA_LIST && key.type != JINJA_DICT;
        const jinja_value *value = hashable ? jinja_dict_find(m, object.as.dict, key) : NULL;
        if (value) return *value;
    } else if (object.type == JINJA_STRING && as_index(key, &index)) {
        const jinja_text *t = object.as.text;
        int64_t count = (int64_t)jinja_code_count(t);
        jinja_spend(m, t->bytes / 16);
        if (index < 0) index += count;
        if (index >= 0 && index < count) {
            size_t from = jinja_code_offset(t, (size_t)index), to;
            jinja_code_at(t, from, &to);
            return jinja_string(jinja_part(m, t, from, to));
        }
    } else if ((object.type == JINJA_LIST || object.type == JINJA_TUPLE || object.type == JINJA_RANGE) && as_index(key, &index)) {
        const jinja_list *l = object.as.list;
        if (index < 0) index += (int64_t)l->count;
        if (index >= 0 && index < (int64_t)l->count) return l->items[index];
    }
    if (key.type == JINJA_STRING) {
        bool is_found = false;
        if (object.type == JINJA_NAMESPACE || object.type == JINJA_LOOP) {
            found = jinja_attribute(m, object, key.as.text);
            if (found.type != JINJA_UNDEFINED) return found;
            is_found = false;
        }
        if (!is_found && jinja_find_method(m, object, key.as.text, &found)) return found;
        return jinja_undefined(m, "'%s' has no attribute %s", jinja_object_name(m, object), jinja_repr(m, key));
    }
    return jinja_undefined(m, "%s has no element %s", jinja_object_name(m, object), jinja_repr(m, key));
}

/* Where a slice's bound lies in a sequence of count items, as Python's PySlice_AdjustIndices. */
static int64_t slice_bound(jinja_machine *m, jinja_value bound, int64_t count, int64_t step, bool is_end)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? count - 1 : count, at;
    if (bound.type == JINJA_NONE || bound.type == JINJA_ABSENT) return (step < 0) == is_end ? low : high;
    if (!as_index(bound, &at)) jinja_fail(m, QLFT_EFORMAT, "slice indices must be integers or None or have an __index__ method");
    if (at < 0) {
        at = at < -count ? low : at + count;
    }
    return at < low ? low : at > high ? high : at;
}

jinja_value jinja_slice(jinja_machine *m, jinja_value object, jinja_value from, jinja_value to, jinja_value step)
{
    int64_t stride = 1;
    refuse_undefined(m, object);
    bool is_text = object.type == JINJA_STRING;
    if (!is_text && object.type != JINJA_LIST && object.type != JINJA_TUPLE && object.type != JINJA_RANGE) {
        jinja_fail(m, QLFT_EFORMAT, "'%s' object is not subscriptable by a slice", jinja_type_name(object));
    }
    if (step.type != JINJA_NONE && step.type != JINJA_ABSENT && !as_index(step, &stride)) {
        jinja_fail(m, QLFT_EFORMAT, "slice indices must be integers or None or have an __index__ method");
    }
    if (stride == 0) jinja_fail(m, QLFT_EFORMAT, "slice step cannot be zero");
    if (is_text && object.as.text->safe) jinja_unsupported(m, "slices of a string marked safe");
    int64_t count = is_text ? (int64_t)jinja_code_count(object.as.text) : (int64_t)object.as.list->count;
    if (stride > count + 1 || stride < -count - 1) stride = stride < 0 ? -count - 1 : count + 1;
    int64_t begin = slice_bound(m, from, count, stride, false), end = slice_bound(m, to, count, stride, true);
    jinja_spend(m, is_text ? object.as.text->bytes / 16 : 1);
    if (is_text && stride == 1) {
        const jinja_text *t = object.as.text;
        size_t at = jinja_code_offset(t, (size_t)begin);
        return jinja_string(jinja_part(m, t, at, end > begin ? jinja_code_offset(t, (size_t)end) : at));
    }
    jinja_value out = jinja_list_new(m, object.type == JINJA_TUPLE ? JINJA_TUPLE : JINJA_LIST, NULL);
    if (object.type == JINJA_RANGE) jinja_unsupported(m, "slices of a range");
    const jinja_list *items = jinja_walk(m, object); /* of a string: its characters */
    for (int64_t i = begin; stride < 0 ? i > end : i < end; i += stride) jinja_list_add(m, out, items->items[i]);
    if (!is_text) return out;
    jinja_writer w = {.m = m};
    for (size_t i = 0; i < out.as.list->count; i++) jinja_put_str(&w, out.as.list->items[i]);
    return jinja_written_value(&w);
}

/* ---- arithmetic ---- */
static void refuse_operands(jinja_machine *m, const char *operation, jinja_value a, jinja_value b) __attribute__((noreturn));
static void refuse_operands(jinja_machine *m, const char *operation, jinja_value a, jinja_value b)
{
    refuse_undefined(m, a);
    refuse_undefined(m, b);
    jinja_fail(m, QLFT_EFORMAT, "unsupported operand type(s) for %s: '%s' and '%s'", operation, jinja_type_name(a), jinja_type_name(b));
}

static jinja_value whole_power(jinja_machine *m, int64_t base, int64_t exponent, bool *too_large)
{
    (void)m;
    int64_t result = 1;
    while (exponent > 0 && !*too_large) {
        if (exponent & 1) *too_large |= __builtin_mul_overflow(result, base, &result);
        exponent >>= 1;
        if (exponent) *too_large |= __builtin_mul_overflow(base, base, &base);
    }
    return jinja_int(result);
}

static jinja_value whole_arithmetic(jinja_machine *m, int operation, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool too_large = false;
    if ((operation == JINJA_TWO('/', '/') || operation == '%') && b == 0) jinja_fail(m, QLFT_EFORMAT, "integer division or modulo by zero");
    switch (operation) {
    case '+': too_large = __builtin_add_overflow(a, b, &result); break;
    case '-': too_large = __builtin_sub_overflow(a, b, &result); break;
    case '*': too_large = __builtin_mul_overflow(a, b, &result); break;
    case '%': result = b == -1 ? 0 : a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0); break;
    case JINJA_TWO('/', '/'):
        too_large = a == INT64_MIN && b == -1;
        if (!too_large) result = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    default: result = whole_power(m, a, b, &too_large).as.integer; break;
    }
    if (too_large) jinja_unsupported(m, "integers beyond 64 bits");
    return jinja_int(result);
}

/* Python's float_divmod: the remainder has the divisor's sign. */
static double float_remainder(double a, double b, double *quotient)
{
    double rest = fmod(a, b), div = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) {
        rest += b;
        div -= 1;
    } else if (rest == 0) {
        rest = copysign(0, b);
    }
    double floored = floor(div);
    if (div - floored > 0.5) floored += 1;
    *quotient = div != 0 ? floored : copysign(0, a / b);
    return rest;
}

static jinja_value arithmetic(jinja_machine *m, int operation, jinja_value a, jinja_value b)
{
    bool whole = a.type != JINJA_FLOAT && b.type != JINJA_FLOAT;
    double x = jinja_number(a), y = jinja_number(b), quotient;
    if (operation == '/') {
        if (y == 0) jinja_fail(m, QLFT_EFORMAT, "division by zero");
        return jinja_float(x / y);
    }
    int64_t i = a.type == JINJA_BOOL ? a.as.truth : a.as.integer, j = b.type == JINJA_BOOL ? b.as.truth : b.as.integer;
    bool power = operation == JINJA_TWO('*', '*');
    if (whole && !(power && j < 0)) return whole_arithmetic(m, operation, i, j);
    if ((operation == JINJA_TWO('/', '/') || operation == '%') && y == 0) jinja_fail(m, QLFT_EFORMAT, "float division by zero");
    switch (operation) {
    case '+': return jinja_float(x + y);
    case '-': return jinja_float(x - y);
    case '*': return jinja_float(x * y);
    case '%': return jinja_float(float_remainder(x, y, &quotient));
    case JINJA_TWO('/', '/'): float_remainder(x, y, &quotient); return jinja_float(quotient);
    default: break;
    }
    if (x == 0 && y < 0) jinja_fail(m, QLFT_EFORMAT, "0.0 cannot be raised to a negative power");
    double result = pow(x, y);
    if (isnan(result) && !isnan(x) && !isnan(y)) jinja_unsupported(m, "complex numbers");
    if (isinf(result) && isfinite(x) && isfinite(y)) jinja_fail(m, QLFT_EFORMAT, "the result of ** is too large");
    return jinja_float(result);
}

static jinja_value join_lists(jinja_machine *m, jinja_value a, jinja_value b)
{
    jinja_value out = jinja_list_new(m, a.type, NULL);
    jinja_spend(m, (a.as.list->count + b.as.list->count) / 16);
    for (size_t i = 0; i < a.as.list->count; i++) jinja_list_add(m, out, a.as.list->items[i]);
    for (size_t i = 0; i < b.as.list->count; i++) jinja_list_add(m, out, b.as.list->items[i]);
    return out;
}

static jinja_value repeated(jinja_machine *m, jinja_value what, int64_t times)
{
    if (what.type == JINJA_STRING) {
        jinja_writer w = {.m = m};
        if (what.as.text->safe) jinja_unsupported(m, "repeating a string marked safe");
        for (int64_t i = 0; i < times && what.as.text->bytes; i++) jinja_put_str(&w, what);
        return jinja_written_value(&w);
    }
    jinja_value out = jinja_list_new(m, what.type, NULL);
    for (int64_t i = 0; i < times && what.as.list->count; i++) {
        jinja_spend(m, what.as.list->count);
        for (size_t k = 0; k < what.as.list->count; k++) jinja_list_add(m, out, what.as.list->items[k]);
    }
    return out;
}

static bool is_repeatable(jinja_value v)
{
    return v.type == JINJA_STRING || v.type == JINJA_LIST || v.type == JINJA_TUPLE;
}

jinja_value jinja_binary(jinja_machine *m, int operation, jinja_value a, jinja_value b)
{
    char name[3] = {(char)(operation & 0xff), (char)(operation >> 8), 0};
    int64_t times;
    if (jinja_is_number(a) && jinja_is_number(b)) return arithmetic(m, operation, a, b);
    if (operation == '+' && a.type == JINJA_STRING && b.type == JINJA_STRING) return jinja_string(jinja_concat(m, a.as.text, b.as.text));
    if (operation == '+' && a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE)) return join_lists(m, a, b);
    if (operation == '*' && is_repeatable(a) && as_index(b, &times)) return repeated(m, a, times);
    if (operation == '*' && is_repeatable(b) && as_index(a, &times)) return repeated(m, b, times);
    if (operation == '%' && a.type == JINJA_STRING) {
        if (b.type == JINJA_TUPLE) return jinja_printf(m, a.as.text, b.as.list->items, b.as.list->count);
        bool may_stay = b.type == JINJA_DICT || b.type == JINJA_LIST || b.type == JINJA_RANGE || b.type == JINJA_UNDEFINED; /* Python lets these go unused */
        return jinja_printf(m, a.as.text, &b, may_stay && !memchr(a.as.text->data, '%', a.as.text->bytes) ? 0 : 1);
    }
    if (operation == '+' && a.type == JINJA_STRING && b.type != JINJA_UNDEFINED) {
        jinja_fail(m, QLFT_EFORMAT, "can only concatenate str (not \"%s\") to str", jinja_type_name(b));
    }
    refuse_operands(m, name, a, b);
}

static jinja_value eval_concat(jinja_machine *m, const jinja_node *n)
{
    jinja_value a = jinja_eval(m, n->first), b = jinja_eval(m, n->second);
    jinja_writer w = {.m = m};
    jinja_put_str(&w, a);
    jinja_put_str(&w, b);
    return jinja_written_value(&w);
}

static jinja_value eval_binary(jinja_machine *m, const jinja_node *n)
{
    if (n->operation == '~') return eval_concat(m, n);
    jinja_value a = jinja_eval(m, n->first);
    return jinja_binary(m, n->operation, a, jinja_eval(m, n->second));
}

static jinja_value eval_sign(jinja_machine *m, const jinja_node *n)
{
    jinja_value v = jinja_eval(m, n->first);
    refuse_undefined(m, v);
    if (!jinja_is_number(v)) jinja_fail(m, QLFT_EFORMAT, "bad operand type for unary %c: '%s'", n->kind == NODE_NEGATIVE ? '-' : '+', jinja_type_name(v));
    if (v.type == JINJA_FLOAT) return jinja_float(n->kind == NODE_NEGATIVE ? -v.as.number : v.as.number);
    return whole_arithmetic(m, n->kind == NODE_NEGATIVE ? '-' : '+', 0, v.type == JINJA_BOOL ? v.as.truth : v.as.integer);
}

/* ---- comparisons and logic ---- */
bool jinja_compare(jinja_machine *m, int operation, jinja_value a, jinja_value b)
{
    char name[3] = {(char)(operation & 0xff), (char)(operation >> 8), 0};
    if (operation == JINJA_IN) return jinja_contains(m, b, a);
    if (operation == JINJA_NOT_IN) return !jinja_contains(m, b, a);
    if (operation == JINJA_TWO('=', '=')) return jinja_equal(m, a, b);
    if (operation == JINJA_TWO('!', '=')) return !jinja_equal(m, a, b);
    int order = jinja_order(m, a, b, name);
    if (order == 2) return false;
    if (operation == '<') return order < 0;
    if (operation == '>') return order > 0;
    return operation == JINJA_TWO('<', '=') ? order <= 0 : order >= 0;
}

static jinja_value eval_compare(jinja_machine *m, const jinja_node *n)
{
    jinja_value left = jinja_eval(m, n->first);
    for (const jinja_node *operand = n->second; operand; operand = operand->next) {
        jinja_value right = jinja_eval(m, operand->first);
        if (!jinja_compare(m, operand->operation, left, right)) return jinja_bool(false);
        left = right;
    }
    return jinja_bool(true);
}

static jinja_value eval_logic(jinja_machine *m, const jinja_node *n)
{
    jinja_value left = jinja_eval(m, n->first);
    return jinja_truth(m, left) == (n->kind == NODE_OR) ? left : jinja_eval(m, n->second);
}

static jinja_value eval_not(jinja_machine *m, const jinja_node *n)
{
    return jinja_bool(!jinja_truth(m, jinja_eval(m, n->first)));
}

static jinja_value eval_condition(jinja_machine *m, const jinja_node *n)
{
    if (jinja_truth(m, jinja_eval(m, n->first))) return jinja_eval(m, n->second);
    if (n->third) return jinja_eval(m, n->third);
    return jinja_undefined(m, "the inline if-expression on line %d evaluated to false and no else section was defined.", n->line);
}

/* ---- the rest ---- */
static jinja_value eval_constant(jinja_machine *m, const jinja_node *n)
{
    (void)m;
    return n->constant;
}

static jinja_value eval_list(jinja_machine *m, const jinja_node *n)
{
    jinja_value list = jinja_list_new(m, n->kind == NODE_LIST ? JINJA_LIST : JINJA_TUPLE, NULL);
    for (const jinja_node *item = n->first; item; item = item->next) jinja_list_add(m, list, jinja_eval(m, item));
    return list;
}

static jinja_value eval_dict(jinja_machine *m, const jinja_node *n)
{
    jinja_value dict = jinja_dict_new(m);
    for (const jinja_node *item = n->first; item; item = item->next->next) {
        jinja_value key = jinja_eval(m, item);
        jinja_dict_set(m, dict.as.dict, key, jinja_eval(m, item->next));
    }
    return dict;
}

static jinja_value eval_attribute(jinja_machine *m, const jinja_node *n)
{
    return jinja_attribute(m, jinja_eval(m, n->first), n->name);
}

static jinja_value eval_item(jinja_machine *m, const jinja_node *n)
{
    jinja_value object = jinja_eval(m, n->first);
    return jinja_item(m, object, jinja_eval(m, n->second));
}

static jinja_value eval_slice(jinja_machine *m, const jinja_node *n)
{
    jinja_value object = jinja_eval(m, n->first), bounds[3];
    const jinja_node *nodes[3] = {n->second, n->third, n->fourth};
    for (int i = 0; i < 3; i++) bounds[i] = nodes[i] ? jinja_eval(m, nodes[i]) : jinja_none();
    return jinja_slice(m, object, bounds[0], bounds[1], bounds[2]);
}

jinja_arguments jinja_eval_arguments(jinja_machine *m, const jinja_node *list)
{
    jinja_arguments args = {NULL, 0, NULL, NULL, 0};
    size_t count = 0;
    for (const jinja_node *n = list; n; n = n->next) count++;
    if (!count) return args;
    jinja_value *given = jinja_take(m, count * sizeof *given), *named = jinja_take(m, count * sizeof *named);
    const jinja_text **names = jinja_take(m, count * sizeof *names);
    for (const jinja_node *n = list; n; n = n->next) {
        if (n->kind == NODE_KEYWORD) {
            names[args.named_count] = n->name;
            named[args.named_count++] = jinja_eval(m, n->first);
        } else {
            given[args.count++] = jinja_eval(m, n);
        }
    }
    args.given = given;
    args.names = names;
    args.named = named;
    return args;
}

static jinja_value eval_call(jinja_machine *m, const jinja_node *n)
{
    jinja_value callee = jinja_eval(m, n->first);
    jinja_arguments args = jinja_eval_arguments(m, n->second);
    return jinja_call(m, callee, &args);
}

static jinja_value eval_filter(jinja_machine *m, const jinja_node *n)
{
    jinja_value subject = jinja_eval(m, n->first);
    jinja_arguments args = jinja_eval_arguments(m, n->second);
    return jinja_filter(m, subject, n->name, &args);
}

static jinja_value eval_test(jinja_machine *m, const jinja_node *n)
{
    jinja_value subject = jinja_eval(m, n->first);
    jinja_arguments args = jinja_eval_arguments(m, n->second);
    return jinja_bool(jinja_test(m, subject, n->name, &args));
}

static const eval_fn evaluators[NODE_KINDS] = {
    [NODE_CONSTANT] = eval_constant,   [NODE_NAME] = eval_name, [NODE_LIST] = eval_list,       [NODE_TUPLE] = eval_list,          [NODE_DICT] = eval_dict,
    [NODE_ATTRIBUTE] = eval_attribute, [NODE_ITEM] = eval_item, [NODE_SLICE] = eval_slice,     [NODE_CALL] = eval_call,           [NODE_FILTER] = eval_filter,
    [NODE_TEST] = eval_test,           [NODE_NOT] = eval_not,   [NODE_NEGATIVE] = eval_sign,   [NODE_POSITIVE] = eval_sign,       [NODE_BINARY] = eval_binary,
    [NODE_AND] = eval_logic,           [NODE_OR] = eval_logic,  [NODE_COMPARE] = eval_compare, [NODE_CONDITION] = eval_condition,
};

jinja_value jinja_eval(jinja_machine *m, const jinja_node *n)
{
    int line = m->line;
    jinja_spend(m, 1);
    jinja_enter(m);
    m->line = n->line;
    jinja_value v = evaluators[n->kind](m, n);
    jinja_leave(m);
    m->line = line;
    return v;
}
