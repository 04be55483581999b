#!/usr/bin/env python3
"""Golden files of the template engine: snippets written for these tests, rendered by jinja2 itself.

    python make_jinja.py OUT_FOLDER        (jinja2 3.1, any Python 3.11 or later)

The environment is set up as transformers' _compile_jinja_template sets it up: immutable sandbox, trim_blocks, lstrip_blocks,
loop controls, generation blocks, tojson without HTML escapes. Each row: template, variables, and text or error with the name of
the exception.
"""
import copy
import datetime
import json
import os
import random
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2024, 7, 26, 12, 34, 56)
MESSAGES = [
    {"role": "system", "content": "  Be brief.\n"},
    {"role": "user", "content": "Grüße, 世界 😀"},
    {"role": "assistant", "content": "<think>\nhm, \"quoted\" & 'single'\n</think>\n\nfine\\n", "tool_calls": None},
    {"role": "user", "content": "", "n": 3, "x": 1.5, "yes": True, "list": [1, "two", None, {"k": "v"}]},
]
VARIABLES = {"messages": MESSAGES, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", "tools": None, "documents": None,
             "n": 7, "f": 2.5, "word": "Straße", "text": "a,b,,c", "empty": "", "lines": "one\n\n  two\r\nthree\u2028four", "nums": [3, 1, 2, 3],
             "mixed": {"b": 1, "a": [1, 2], "c": {"d": "é"}}, "blank": " \t\u3000x y\u00a0\n", "big": 12345678901234}


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def fail(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = fail
    env.globals["strftime_now"] = NOW.strftime
    return env


# One expression a line, each becomes a template {{ ... }}.
EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 % 2
-7.5 // 2
2 ** 3 ** 2
2 ** -1
-2 ** 2
10 / 5
1 / 3
1e16
1e15
123456789.125
0.1 + 0.2
1e-5
0.0001
5e-324
1.7976931348623157e308
100000000000000000000.0
-0.0
3 == 3.0
true == 1
9007199254740993 == 9007199254740992.0
1_000 + 0x1f + 0b11 + 0o17
1.5e3
true and 0
'' or 'x'
not none
not 1 in [1]
1 in [1, 2]
3 not in [1, 2]
'a' in 'cat'
'x' in undefined_thing
1 < 2 < 3
1 < 3 < 2
'a' < 'b'
[1, 2] < [1, 3]
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x']
'a' + 'b' 'c'
'ab' * 3
3 * [1]
[1] + [2]
(1, 2) + (3,)
(1,)
()
[]
{}
{'a': 1, 2: [3], none: true}
{'a': 1, 'a': 2}
[1, 'a"b', "it's", "both ' and \"", '\n\t\\ \x7f\u200b é']
['\u00a0', '\U0001F600', '\x00', '\xad']
none
true
1.0
undefined_thing
undefined_thing | length
undefined_thing | list
undefined_thing == other_undefined
undefined_thing is defined
undefined_thing is sequence
undefined_thing is iterable
undefined_thing is callable
'x' if false
'x' if false else 'y'
'x' if n > 5 else 'y' if n > 2 else 'z'
('x' if false) is defined
messages[0].role
messages[0]['role']
messages[-1].content
messages[10] is defined
messages[0].missing is defined
messages[0]['missing'] | default('d')
messages[-1].list[-1].k
messages[-1]['list'][1]
messages[1:] | length
messages[::-1][0].role
messages[-2:][0].role
messages[1:3] | map(attribute='role') | join(',')
messages[:-1] | map(attribute='role') | list
messages[0].items() | list | length
messages[0].keys() | list
messages[0].keys()
messages[0].values() | list
messages[0].items()
messages[3].items() | length
messages[3].get('n')
messages[3].get('zz')
messages[3].get('zz', 'none')
messages.0.role
text[1]
text[-1]
text[100] is defined
word[4]
word[::-1]
word[1:4]
word[-3:]
word[5:2]
word[::2]
word[4:0:-1]
word[100:]
word[:-100]
word[-100:2]
word[0:100:3]
nums[::-1]
nums[3:0:-2]
nums[:]
(1, 2, 3)[1:]
word | length
word | upper
word | lower
word | title
word | capitalize
'ﬁne ǆ ŉ' | upper
'ﬁne ǆ ŉ' | title
'ΑΣ ΑΣΑ Σ' | lower
'İstanbul' | lower
'hello-world foo(bar) x_y' | title
'hello-world foo(bar) it\'s' .title()
word.upper() ~ word.lower() ~ word.capitalize()
blank | trim
blank.strip() ~ '|'
blank.lstrip() ~ '|'
blank.rstrip() ~ '|'
'xxabcxx' | trim('x')
'xyabcyx'.strip('xy')
'xyabcyx'.lstrip('yx') ~ 'xyabcyx'.rstrip('yx')
'\x1c\x85a\u2003'.strip()
text.split(',')
text.split(',', 1)
text.rsplit(',', 1)
text.rsplit(',')
'  a  b c '.split()
'  a  b c '.split(none, 1)
'  a  b c '.rsplit(none, 1)
'  a  b c '.rsplit()
'a<sep>b<sep>'.split('<sep>')
''.split(',')
''.split()
lines.splitlines()
lines.splitlines(true)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
'abc'.startswith('ab')
'abc'.startswith(('x', 'a'))
'abc'.endswith('bc')
'abc'.startswith('b', 1)
'abc'.removeprefix('a').removesuffix('c')
'abcabc'.find('c')
'äbc'.find('c')
'abcabc'.rfind('c')
'abc'.find('x')
'abcabc'.count('bc')
'aaaa'.count('aa')
'abc'.count('')
'abcabc'.replace('b', 'X')
'abcabc'.replace('b', 'X', 1)
'abc'.replace('', '-')
'abc'.replace('', '-', 2)
'äb'.replace('', '.')
'abcabc' | replace('b', 'X')
'abcabc' | replace('b', 'X', 1)
'a' | replace('', 'x')
', '.join(['a', 'b'])
', '.join('abc')
'{} and {}'.format('a', 1)
'{0}{1}{0}'.format('a', 'b')
'{x} {{y}}'.format(x=3)
'%s-%s' % ('a', 1)
'%d%%' % 5
'%5.2f|' % 3.14159
'%-5s|%5s|' % ('a', 'é')
'%05d' % -42
'%r' % 'x'
'%x' % 255
'%s' % [1]
'%.1s' % 'éa'
'%+d % d' % (3, 4)
'%s items' | format(3)
'  12 ' | int
'1_000' | int
'3.7' | int
'abc' | int
'abc' | int(5)
'' | int
3.9 | int
-3.9 | int
true | int
none | int
'1e3' | int
'3.5' | float
'x' | float
'x' | float(1.5)
'inf' | float
'nan' | float
3 | float
'-1.5e-3' | float
3.14159 | round(2)
2.5 | round
3.5 | round
2.675 | round(2)
7 | round
2.1 | round(0, 'ceil')
2.9 | round(method='floor')
1.25 | round(1, 'ceil')
-3 | abs
-3.5 | abs
[1, 2, 3] | sum
messages | selectattr('n', 'defined') | sum(attribute='n')
[3, 1, 2] | min
[3, 1, 2] | max
['b', 'A', 'c'] | min
['b', 'A', 'c'] | max
[] | max is defined
nums | sort
nums | sort(reverse=true)
['b', 'A', 'c'] | sort
['b', 'A', 'c'] | sort(case_sensitive=true)
messages | sort(attribute='role') | map(attribute='role') | list
messages | sort(attribute='role', reverse=true) | map(attribute='content') | map('length') | list
nums | unique | list
['a', 'A', 'b'] | unique | list
['a', 'A', 'b'] | unique(case_sensitive=true) | list
nums | reverse | list
'abc' | reverse
nums | first
nums | last
'héllo' | last
[] | first is defined
mixed | first
mixed | list
mixed | dictsort
mixed | dictsort(reverse=true)
{'b': 2, 'a': 3, 'C': 1} | dictsort(false, 'value')
{'b': 2, 'a': 3, 'C': 1} | dictsort(case_sensitive=true)
{'b': 2, 'a': 3} | items | list
mixed | length
mixed | string
mixed
mixed.c.d
nums | join
nums | join('-')
nums | join(none)
messages | join(', ', attribute='role')
messages | selectattr('role', 'equalto', 'user') | list | length
messages | selectattr('role', '==', 'user') | map(attribute='content') | list
messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | list
messages | selectattr('n') | list | length
messages | rejectattr('n', 'defined') | list | length
nums | select('odd') | list
nums | reject('odd') | list
nums | select('gt', 1) | list
nums | select('in', [1, 2]) | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[' a ', 'b '] | map('trim') | list
[' a ', 'b '] | map('replace', ' ', '_') | list
messages | map(attribute='n', default=0) | list
messages | map(attribute='list.1') | list
nums | batch(3) | list
nums | batch(3, 0) | list
'abc' | list
(nums | map('string')) is iterable
(nums | map('string')) is sequence
n | default('x')
empty | default('x')
empty | default('x', true)
none | default('x')
none | default('x', boolean=true)
undefined_thing | default
undefined_thing | d('y')
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, blank=true)
'a\nb' | indent('> ')
'a\nb' | indent('> ', first=True)
'' | indent
'<a href="x">\'&\'</a>' | escape
'<b>' | e | length
'<b>' | safe
('<b>' | safe) + '<i>'
'<i>' + ('<b>' | safe)
'<i>' ~ ('<b>' | safe)
('<b>' | escape) + '&'
'<b>' | escape | safe | escape
mixed | tojson
mixed | tojson(indent=2)
mixed | tojson(indent=0)
mixed | tojson(indent='\t')
mixed | tojson(ensure_ascii=true)
mixed | tojson(sort_keys=true)
mixed | tojson(separators=(',', ':'))
messages | tojson
messages[3] | tojson(indent=4)
'\x00\x1f\x7f\u2028</script>"\\' | tojson
'é😀\x7f' | tojson(ensure_ascii=true)
[[], {}, [[]], 1.0, 1e100, -0.0] | tojson
[[], {}, [[], {}]] | tojson(indent=1)
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
(1, 2) | tojson
'inf' | float | tojson
n is number
n is integer
f is float
true is integer
true is number
true is boolean
true is true
1 is true
0 is false
n is string
word is string
word is sequence
word is iterable
n is iterable
mixed is mapping
mixed is iterable
mixed is sequence
messages is sequence
messages is mapping
none is none
none is not none
undefined_thing is none
n is odd
n is even
n is divisibleby 7
n is divisibleby(3)
n is eq 7
n is equalto(7)
n is ne 8
n is gt 3
n is lessthan 3
n is in [7]
'a' is in 'abc'
'abc' is lower
'ABC' is upper
'Abc' is lower
word is not string
n is sameas n
none is sameas none
namespace is callable
'trim' is filter
'nope' is filter
'odd' is test
not n is odd
n is odd and f is float
n is not odd or true
range(3) | list
range(3)
range(1, 10, 3) | list
range(5, 0, -2) | list
range(3)[1]
range(3) | length
2 in range(3)
dict(a=1, b='x')
dict({'z': 1}, a=2)
namespace(a=1)
strftime_now('%d %b %Y')
strftime_now('%B %d, %Y %H:%M:%S %A %j')
'a' 'b'
"tab\tnew\nquote\"uni\u00e9hex\x41oct\101\q"
'it''s'
(1 if true else 2) + 1
[1, 2][0]
{'a': {'b': [1, 2]}}['a'].b[1]
'abc'.upper().lower()
'abc'['upper']()
messages[0]['items'] is defined
{'items': 5}.items is callable
{'items': 5}['items']
[x for_bad]
'a' if n is defined and n
n|string + 'x'
-n|abs
(-n)|abs
-1 | abs
n ** 2 % 5
1 - -1
- - 1
+1
not not 1
[1,2,]
(1,2,)
{'a':1,}
'ab'.isalpha() ~ 'a1'.isalpha() ~ ''.isalpha()
'12'.isdigit() ~ '1a'.isdigit()
' \t'.isspace()
nums.count(3)
nums.index(2)
nums.append(1)
mixed.update({'x': 1})
mixed.pop('a')
nums.append is defined
messages[0].undefined_thing.x
undefined_thing.x
undefined_thing['x']
undefined_thing[1:]
undefined_thing + 1
1 + undefined_thing
undefined_thing < 1
-undefined_thing
undefined_thing()
none.x
none.x.y
tools[1:]
none + 'x'
'x' + 1
1 + 'x'
[] + ()
1 / 0
1 // 0
1 % 0
1.0 // 0
'a' < 1
none < 1
[1] < ['a']
'x' in 5
1 in 'abc'
5 | length
none | length
5 | list
5 | join
'abc'()
n.x is defined
n.x.y
{'a': 1}.b.c
messages[10].role
messages | nosuchfilter
n is nosuchtest
raise_exception('boom: ' ~ n)
[1,2]['a'] is defined
'abc'['x'] is defined
mixed[[1]] is defined
{[1]: 2}
nums | first | first
nums | last
(nums | map('string')) | last
(nums | map('string')) | length
(nums | map('string'))[0] is defined
nums | map
mixed | map(attribute='x') | list
5 | items
range(200000)
''.join([1])
''.split('')
'%s %s' % 'a'
'%s' % ('a', 'b')
'%d' % 'a'
'{}'.format()
1 2
(1
[1
{'a'}
a.
1 +
'unclosed
a |
a is
a[
a b
]
1 if
f(a=1, 2)
loop.index
x.y.z is defined
big * 1000
big ** 1
4 is divisibleby(2) and 1
1 == 1 == 1
1 != 2 == false
'a' ~ 'b' + 'c'
1 ~ 2 * 3
2 * 3 ~ 1
'x' * 0
'x' * -1
[1, [2, [3]]] == [1, [2, [3]]]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
(1, 2) == [1, 2]
none == false
'' == false
0 == false
"a" == 'a'
namespace(a=1).a
namespace(a=1).b is defined
namespace({'a': 1}, b=2).b
lines | length
lines | upper
'ß' | upper | length
'x\r\ny' | length
mixed | attr('a') is defined
""".strip("\n").split("\n")

TEMPLATES = [
    "plain text\n", "plain\n\n", "\n", "", "a\r\nb\rc\n", "{{ 1 }}\n", "{{ 1 }}\n\nx", "  {{ 1 }}  \n",
    "{% if true %}\nx\n{% endif %}\ny\n", "  {% if true %}  \n  x\n  {% endif %}  \ny", "a  {% if true %} b {% endif %}  c",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\n  c", "a\n  {%+ if true +%}\n  b\n  {%+ endif +%}\n c", "x {#- c -#} y", "x {# c #}\ny", "  {# c #}\ny", "x\n  {#+ c +#}\n y",
    "{# multi\nline #}z", "{#-#}z", "{{- 1 -}} x", "x {{- 1 }}", "{{-1}}", "{{ -1 }}", "{{+1}}", "x{{1-}}  y", "{% raw %}{{ x }} {% if %}{% endraw %}",
    "{% raw -%}  \n {{ x }} {%- endraw %}\ny", "a {%- raw %} b {% endraw -%} c", "  {% raw %}\n x\n  {% endraw %}\ny", "{% raw %}{% endraw", "{# open", "{% if", "{{ 1", "{% if true %}x",
    "{% for x in [1,2,3] %}{{ x }}{% endfor %}", "{% for x in [] %}{{ x }}{% else %}none{% endfor %}", "{% for x in [1] %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in nums if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}", "{% for x in nums if x > 9 %}x{% else %}none{% endfor %}",
    "{% for x in nums %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in nums %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}", "{% for x in nums %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in nums %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for k, v in mixed.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k, v in mixed | items %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in mixed %}{{ k }}{% endfor %}", "{% for c in word %}{{ c }}.{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for a, b in [(1,)] %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% for x in undefined_thing %}x{% else %}e{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% for x in nums %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in nums %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1,2] %}{% for y in [1,2,3] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}", "{% break %}", "{% for x in nums %}{{ loop.nope }}{% endfor %}",
    "{% for x in nums if loop.index %}{% endfor %}", "{% for x in [3] %}{% for x in [1,2] %}{{ x }}{% endfor %}{{ x }}{% endfor %}{{ x }}", "{% for x in nums recursive %}{% endfor %}",
    "{% set x = 1 %}{% for y in [1,2] %}{% set x = x + y %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% if false %}{% set q = 2 %}{% endif %}{{ q is defined }}",
    "{% set ns = namespace(n=0) %}{% for y in nums %}{% set ns.n = ns.n + y %}{% endfor %}{{ ns.n }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b is defined }}{{ ns }}", "{% set x = {} %}{% set x.a = 1 %}",
    "{% set ns = namespace(last=-1) %}{% for x in nums if x != ns.last %}{{ x }}{% set ns.last = 1 %}{% endfor %}", "{% set ns = namespace(last=-1) %}{% for x in nums if x != ns.last %}{{ x }}{{ loop.last }}{% set ns.last = 1 %}{% endfor %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set x %}  block {{ n }} {% set inner = 1 %}\n{% endset %}[{{ x }}]{{ inner is defined }}", "{% set x | upper | trim %} ab {% endset %}[{{ x }}]", "{% set x = 1, 2 %}{{ x }}",
    "{% macro m(a, b='d', c=b) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(a=3, c=4) }}{{ m() }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
    "{% macro m(a) %}x{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}x{% endmacro %}{{ m(b=2) }}", "{% macro m(a) %}x{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a, b=1, c) %}x{% endmacro %}",
    "{% macro f(n) %}{% if n > 1 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro m() %}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}", "{% for x in [1] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% macro m() %}{% set q = 1 %}{% endmacro %}{{ m() }}{{ q is defined }}", "{% macro m(x) %}  {{ x }}\n{% endmacro %}{{ m('a') | trim }}|{{ m('b') }}", "{% macro m() %}{% endmacro %}{{ m }}", "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% macro upper(s) %}{{ s | upper }}{% endmacro %}{{ upper('a') ~ upper('b') }}{{ ['x','y'] | map('upper') | list }}",
    "{% generation %}x{% set g = 1 %}{% endgeneration %}{{ g is defined }}", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}\n{{ m.content }}{{ eos_token }}\n{% endgeneration %}{% endif %}{% endfor %}",
    "{% if n > 100 %}a{% elif n > 5 %}b{% elif true %}c{% else %}d{% endif %}", "{% if false %}a{% else %}d{% endif %}", "{% if false %}a{% endif %}", "{% if undefined_thing %}a{% else %}b{% endif %}", "{% if n, %}a{% endif %}",
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set sys = messages[0]['content'] | trim %}{% endif %}{{ sys }}:{{ loop_messages | length }}",
    "{% unknown %}", "{% endif %}", "{% if true %}{% endfor %}", "{% else %}", "{% for in x %}{% endfor %}", "{% for x y %}{% endfor %}", "{% set 1 = 2 %}", "{% set x %}", "{% set %}", "{% macro %}{% endmacro %}", "{{ }}", "{{ 1 }", "{% if true }", "{{ (1 }}", "{{ 1) }}", "{{ 'a }}", "{{ a ? b }}", "{{ a $ b }}", "{{ 1; 2 }}",
    "{{ {'a': '}}'} }}", "{{ '{% if %}' }}", "{{ '{{' }}", "{{ \"a\n b\" }}", "{{ 'x' }}{{ 'y' }}\n{{ 'z' }}", "}} %} #}", "{ { % }", "{{ {'a':{'b':1}}.a.b }}", "a{{ '' }}b",
    "{%- for m in messages -%}\n  <|{{ m.role }}|>\n  {{ m['content'] | trim }}\n{% endfor %}{{ eos_token }}", "{% for m in messages %}\n    {% if not loop.first %}\n  x\n    {% endif %}\n\n{% endfor %}\n\n",
    "{%if true%}x{%endif%}{%-if true-%} y {%-endif-%}", "{% if true: %}x{% endif %}", "{%set x=1%}{{x}}", "\u00a0{% if true %}x{% endif %}", "a\n\u3000{% if true %}x{% endif %}", "{% if true %}x{% endif %}\r\ny", "{% if true -%}\u3000\n x{% endif %}", "é{{ 'ü' }}😀\n",
    "{{ messages | selectattr('role', 'equalto', 'nope') | list | first | default('none') }}", "{% set m = messages | map(attribute='role') %}{{ m | list }}{{ m | list }}", "{% set m = mixed.items() %}{{ m | list | length }}{{ m | list | length }}",
    "{%- set think = messages[2].content.split('</think>') -%}{{ think[-1].lstrip('\\n') }}|{{ think[0].split('<think>')[-1].strip() }}", "{{ raise_exception('no ' ~ messages[0].role) }}", "{% if true %}\n\n{{ raise_exception('line') }}{% endif %}",
    "{% set x = 'a' %}{% set f %}{{ x }}{% set x = 'b' %}{{ x }}{% endset %}{{ f }}{{ x }}", "{{ n }}{% set n = 8 %}{{ n }}", "{% for n in [n + 1] %}{{ n }}{% endfor %}{{ n }}", "{% for x in [1,2] %}{% if loop.first %}{% set y = 5 %}{% endif %}{{ y }}{% endfor %}",
    "{% for x in range(3) %}{% for y in range(x) %}{{ x }}{{ y }},{% else %}-{% endfor %}{% endfor %}", "{{ loop }}", "{{ self }}", "{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role[0] }}{% endfor %}",
    "{% set tools = tools or [{'type': 'function', 'function': {'name': 'f', 'parameters': {'x': [1, 2]}}}] %}{% for t in tools %}{{ t | tojson(indent=4) }}{% endfor %}",
]


# ---- random templates from a fixed seed ----
RNG = random.Random(20240726)
ATOMS = ["n", "f", "word", "text", "empty", "lines", "nums", "mixed", "blank", "big", "messages", "messages[0]", "messages[2].content", "messages[3]", "none", "true", "false",
         "undefined_thing", "1", "-2", "0", "2.5", "'a'", "'é😀'", "' a b '", "'A-b c'", "[]", "[1,'x',none]", "(1,2)", "{}", "{'a':1,'b':[2]}", "'<b>&'", "1e20", "0.1", "3", "''",
         "'a,b'", "range(4)", "'line\\nb\\n'", "namespace(a=1)", "mixed.items()", "nums|map('string')", "'ǆ ŉ ΑΣ İ'"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or"]
FILTERS = ["trim", "length", "tojson", "join", "join(',')", "default('z')", "default('z',true)", "upper", "lower", "title", "capitalize", "replace('a','bb')", "first", "last", "list",
           "string", "int", "float", "selectattr('role')", "map('upper')", "map(attribute='role')", "items", "sort", "sort(reverse=true)", "reverse", "unique", "indent", "indent(2,true)",
           "abs", "round", "round(1)", "sum", "min", "max", "dictsort", "batch(2)", "tojson(indent=2)", "reject('none')", "select('string')", "e", "safe", "format(1)", "select",
           "sum(start=1)", "count", "d(1)", "attr('x')", "tojson(sort_keys=true)", "round(0,'floor')", "list|last", "list|first", "list|length", "sort|join", "trim('ab ')",
           "replace('', '-')", "map('length')", "map('trim')|join('|')"]
METHODS = [".strip()", ".split()", ".split(',')", ".upper()", ".title()", ".capitalize()", ".splitlines()", ".keys()|list", ".values()|list", ".items()|list", ".get('a')",
           ".get('b',1)", ".startswith('a')", ".endswith(' ')", ".find('b')", ".count('a')", ".replace('a','')", ".x", ".role", ".content", ".lstrip()", ".rsplit(',',1)", "[0]",
           "[-1]", "[1:]", "[::-1]", "[:2]", "[::2]", "['a']", "['role']", "[5]", "[-3:-1]", "[3:0:-1]", ".lower()", ".isdigit()", ".isspace()", ".partition(',')",
           ".rpartition('b')", ".join(['a','b'])", ".format(1)", ".index(1)", ".rfind('a')", ".a", ".c.d", ".removeprefix('a')"]
TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "number", "integer", "boolean", "true", "false", "sequence", "odd", "even", "divisibleby(2)",
         "in [1,2,'a']", "eq 1", "ne 'a'", "callable", "float", "upper", "lower", "gt 1", "sameas none"]
BLANKS = ["", " ", "\n", "  \n", "\n  ", "\t"]


def expression(depth):
    k = RNG.random()
    if depth <= 0 or k < 0.2:
        return RNG.choice(ATOMS)
    if k < 0.4:
        return "(%s %s %s)" % (expression(depth - 1), RNG.choice(OPERATORS), expression(depth - 1))
    if k < 0.65:
        return "(%s)|%s" % (expression(depth - 1), RNG.choice(FILTERS))
    if k < 0.85:
        method = RNG.choice(METHODS)    # slices of variables only: of a constant that has none, jinja2 makes undefined where it folds constants
        return "(%s)%s" % (RNG.choice(["text", "nums", "word", "messages", "lines"]) if ":" in method else expression(depth - 1), method)
    if k < 0.9:
        return "(%s) is %s%s" % (expression(depth - 1), RNG.choice(["", "not "]), RNG.choice(TESTS))
    if k < 0.94:
        return "%s if %s else %s" % (expression(depth - 1), expression(depth - 1), expression(depth - 1))
    if k < 0.97:
        return "[%s, %s]" % (expression(depth - 1), expression(depth - 1))
    return ("not %s" if k < 0.985 else "-(%s)") % expression(depth - 1)


def tag(text, begin="{%", end="%}", signs=("", "-", "", "+")):
    return begin + RNG.choice(signs) + " " + text + " " + RNG.choice(signs) + end


def random_template():
    def blank():
        return RNG.choice(BLANKS)

    def output(text):
        return tag(text, "{{", "}}", ("", "-", ""))

    k = RNG.random()
    if k < 0.6:
        return output(expression(3))
    if k < 0.8:
        name = RNG.choice(["index", "last", "first", "length", "revindex", "previtem"])
        return (blank() + tag("for x in " + expression(1)) + blank() + output("loop." + name) + blank() + output(RNG.choice(["x", expression(1)])) + blank() + tag("endfor") + blank() + "t")
    return (blank() + "a" + blank() + tag("if " + expression(2)) + blank() + "y" + blank() + tag("else") + blank() + output(expression(1)) + blank() + tag("endif") + blank() +
            tag("c", "{#", "#}") + blank() + "z" + blank())


def random_rows(env, count):
    """Rows with a text, or whose error is about an undefined value."""
    rows = []
    while len(rows) < count:
        row = render(env, random_template())
        if row.get("exception", "UndefinedError") != "UndefinedError" or len(row.get("text", "")) > 400:
            continue
        if any(word in row.get("error", "") for word in ("Markup", "reverse", "'not'")) or " at 0x" in row.get("text", ""):
            continue
        rows.append(row)
    return rows


def render(env, source):
    row = {"template": source}
    try:
        row["text"] = env.from_string(source).render(**copy.deepcopy(VARIABLES))
    except Exception as e:
        row["error"] = str(e)
        row["exception"] = type(e).__name__
    return row


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    env = environment()
    files = {"expressions": [render(env, "{{ %s }}" % e) for e in EXPRESSIONS], "templates": [render(env, t) for t in TEMPLATES], "random": random_rows(env, 1500)}
    files = {name: [row for row in rows if " at 0x" not in row.get("text", "")] for name, rows in files.items()}    # addresses of this process
    for name, rows in files.items():
        with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as f:
            json.dump({"now": NOW.isoformat(), "jinja2": jinja2.__version__, "variables": VARIABLES, "rows": rows}, f, ensure_ascii=False, indent=1)
            f.write("\n")
        print(name, len(rows), "rows,", sum("error" in r for r in rows), "errors")


if __name__ == "__main__":
    main()
