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
    {"defined", test_defined, "", 0, false},
    {"undefined", test_undefined, "", 0, false},
    {"none", test_none, "", 0, false},
    {"boolean", test_boolean, "", 0, false},
    {"true", test_true, "", 0, false},
    {"false", test_false, "", 0, false},
    {"integer", test_integer, "", 0, false},
    {"float", test_float, "", 0, false},
    {"number", test_number, "", 0, false},
    {"string", test_string, "", 0, false},
    {"mapping", test_mapping, "", 0, false},
    {"iterable", test_iterable, "", 0, false},
    {"sequence", test_sequence, "", 0, false},
    {"callable", test_callable, "", 0, false},
    {"eq", test_eq, "other", 1, false},
    {"equalto", test_eq, "other", 1, false},
    {"==", test_eq, "other", 1, false},
    {"ne", test_ne, "other", 1, false},
    {"!=", test_ne, "other", 1, false},
    {"lt", test_lt, "other", 1, false},
    {"lessthan", test_lt, "other", 1, false},
    {"<", test_lt, "other", 1, false},
    {"le", test_le, "other", 1, false},
    {"<=", test_le, "other", 1, false},
    {"gt", test_gt, "other", 1, false},
    {"greaterthan", test_gt, "other", 1, false},
    {">", test_gt, "other", 1, false},
    {"ge", test_ge, "other", 1, false},
    {">=", test_ge, "other", 1, false},
    {"in", test_in, "seq", 1, false},
    {"sameas", test_sameas, "other", 1, false},
    {"odd", test_odd, "", 0, false},
    {"even", test_even, "", 0, false},
    {"divisibleby", test_divisibleby, "num", 1, false},
    {"upper", test_upper, "", 0, false},
    {"lower", test_lower, "", 0, false},
    {"filter", test_filter, "", 0, false},
    {"test", test_test, "", 0, false},
    {NULL, NULL, NULL, 0, false},
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
