/* Tests: `x is defined`, ... */
#include "data/jinja_impl.h"

#define TEST(name) static jinja_value name(jinja_machine *m, jinja_value self, const jinja_value *given, const jinja_arguments *raw)
#define UNUSED (void)m, (void)given, (void)raw

/* A test of the type alone. */
#define TYPE_TEST(name, condition)                                                                                                                             \
    TEST(name)                                                                                                                                                 \
    {                                                                                                                                                          \
        UNUSED;                                                                                                                                                \
        return jinja_bool((condition));                                                                                                                        \
    }

TYPE_TEST(test_defined, self.type != JINJA_UNDEFINED)
TYPE_TEST(test_undefined, self.type == JINJA_UNDEFINED)
TYPE_TEST(test_none, self.type == JINJA_NONE)
TYPE_TEST(test_boolean, self.type == JINJA_BOOL)
TYPE_TEST(test_true, self.type == JINJA_BOOL && self.as.truth)
TYPE_TEST(test_false, self.type == JINJA_BOOL && !self.as.truth)
TYPE_TEST(test_integer, self.type == JINJA_INT)
TYPE_TEST(test_float, self.type == JINJA_FLOAT)
TYPE_TEST(test_number, jinja_is_number(self))
TYPE_TEST(test_string, self.type == JINJA_STRING)
TYPE_TEST(test_mapping, self.type == JINJA_DICT)
TYPE_TEST(test_iterable, jinja_is_list(self) || self.type == JINJA_STRING || self.type == JINJA_DICT || self.type == JINJA_UNDEFINED || self.type == JINJA_LOOP)
TYPE_TEST(test_sequence, self.type == JINJA_STRING || self.type == JINJA_LIST || self.type == JINJA_TUPLE || self.type == JINJA_RANGE ||
                             self.type == JINJA_DICT || self.type == JINJA_UNDEFINED)
/* jinja2's Undefined has __call__, which Python's callable() sees */
TYPE_TEST(test_callable,
          self.type == JINJA_MACRO || self.type == JINJA_METHOD || self.type == JINJA_FUNCTION || self.type == JINJA_UNDEFINED || self.type == JINJA_LOOP)

/* A test that compares with its argument. */
#define COMPARE_TEST(name, operation)                                                                                                                          \
    TEST(name)                                                                                                                                                 \
    {                                                                                                                                                          \
        (void)raw;                                                                                                                                             \
        return jinja_bool(jinja_compare(m, operation, self, given[0]));                                                                                        \
    }

COMPARE_TEST(test_eq, JINJA_TWO('=', '='))
COMPARE_TEST(test_ne, JINJA_TWO('!', '='))
COMPARE_TEST(test_lt, '<')
COMPARE_TEST(test_le, JINJA_TWO('<', '='))
COMPARE_TEST(test_gt, '>')
COMPARE_TEST(test_ge, JINJA_TWO('>', '='))
COMPARE_TEST(test_in, JINJA_IN)

TEST(test_sameas)
{
    (void)raw;
    if (self.type == JINJA_STRING && given[0].type == JINJA_STRING) jinja_unsupported(m, "the test 'sameas' of two strings");
    if (self.type != given[0].type) return jinja_bool(false);
    if (self.type <= JINJA_FLOAT) return jinja_bool(jinja_equal(m, self, given[0]));
    return jinja_bool(self.as.list == given[0].as.list);
}

static bool divides(jinja_machine *m, jinja_value number, jinja_value by, int64_t rest)
{
    return jinja_equal(m, jinja_binary(m, '%', number, by), jinja_int(rest));
}

TEST(test_odd)
{
    UNUSED;
    return jinja_bool(divides(m, self, jinja_int(2), 1));
}

TEST(test_even)
{
    UNUSED;
    return jinja_bool(divides(m, self, jinja_int(2), 0));
}

TEST(test_divisibleby)
{
    (void)raw;
    return jinja_bool(divides(m, self, given[0], 0));
}

static bool is_cased_as(jinja_machine *m, jinja_value v, jinja_case as)
{
    const jinja_text *t = jinja_str(m, v);
    const jinja_text *upper = jinja_cased(m, t, CASE_UPPER), *lower = jinja_cased(m, t, CASE_LOWER);
    return !jinja_text_equal(upper, lower) && jinja_text_equal(t, as == CASE_UPPER ? upper : lower);
}

TEST(test_upper)
{
    UNUSED;
    return jinja_bool(is_cased_as(m, self, CASE_UPPER));
}

TEST(test_lower)
{
    UNUSED;
    return jinja_bool(is_cased_as(m, self, CASE_LOWER));
}

TEST(test_filter)
{
    UNUSED;
    if (self.type != JINJA_STRING) return jinja_bool(false);
    return jinja_bool(jinja_find_filter(self.as.text) != NULL);
}

TEST(test_test)
{
    UNUSED;
    if (self.type != JINJA_STRING) return jinja_bool(false);
    return jinja_bool(jinja_find_test(self.as.text) != NULL);
}

const jinja_function jinja_tests[] = {
    {"defined", test_defined, "", 0},
    {"undefined", test_undefined, "", 0},
    {"none", test_none, "", 0},
    {"boolean", test_boolean, "", 0},
    {"true", test_true, "", 0},
    {"false", test_false, "", 0},
    {"integer", test_integer, "", 0},
    {"float", test_float, "", 0},
    {"number", test_number, "", 0},
    {"string", test_string, "", 0},
    {"mapping", test_mapping, "", 0},
    {"iterable", test_iterable, "", 0},
    {"sequence", test_sequence, "", 0},
    {"callable", test_callable, "", 0},
    {"eq", test_eq, "other", 1},
    {"equalto", test_eq, "other", 1},
    {"==", test_eq, "other", 1},
    {"ne", test_ne, "other", 1},
    {"!=", test_ne, "other", 1},
    {"lt", test_lt, "other", 1},
    {"lessthan", test_lt, "other", 1},
    {"<", test_lt, "other", 1},
    {"le", test_le, "other", 1},
    {"<=", test_le, "other", 1},
    {"gt", test_gt, "other", 1},
    {"greaterthan", test_gt, "other", 1},
    {">", test_gt, "other", 1},
    {"ge", test_ge, "other", 1},
    {">=", test_ge, "other", 1},
    {"in", test_in, "seq", 1},
    {"sameas", test_sameas, "other", 1},
    {"odd", test_odd, "", 0},
    {"even", test_even, "", 0},
    {"divisibleby", test_divisibleby, "num", 1},
    {"upper", test_upper, "", 0},
    {"lower", test_lower, "", 0},
    {"filter", test_filter, "", 0},
    {"test", test_test, "", 0},
    {NULL, NULL, NULL, 0},
};

const jinja_function *jinja_find_test(const jinja_text *name)
{
    return jinja_row(jinja_tests, name);
}

bool jinja_test(jinja_machine *m, jinja_value self, const jinja_text *name, const jinja_arguments *args)
{
    const jinja_function *row = jinja_find_test(name);
    jinja_spend(m, 1);
    if (!row && jinja_text_is(name, "escaped")) jinja_unsupported(m, "the test 'escaped'");
    if (!row) jinja_fail(m, QLFT_EFORMAT, "No test named '%s'.", name->data);
    return jinja_invoke(m, row, self, args).as.truth;
}
