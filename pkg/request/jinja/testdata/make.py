#!/usr/bin/env python3
"""Makes cases.json: what transformers' Jinja environment makes of the templates below.

    pip install transformers==5.23.0 jinja2==3.1.6 && python3 make.py

Each case is a template with the text that it makes, or null for an error. All see
the variables in VARIABLES.
"""
import json
import pathlib

from transformers.utils.chat_template_utils import _compile_jinja_template

VARIABLES = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Grüße 🙂 <b>&</b> 'x' \"y\"\n"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHallo!", "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1, "a": [1.5, None, True]}}}]},
        {"role": "tool", "content": "{\"t\": 1}", "name": "f"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": "Does\nit.", "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": ["integer", "null"], "minimum": 0.5}}, "required": ["z"]}}}],
    "empty": "", "zero": 0, "one": 1, "neg": -7, "half": 0.5, "big": 1e16, "tiny": 1e-05, "third": 1 / 3, "none_value": None, "yes": True, "no": False,
    "s": "Hello, World", "ws": " \t a b\u00a0\n ", "uni": "äöü ß 日本 é", "quote": "it's \"q\"\\n", "csv": "a,b,,c", "lines": "l1\nl2\r\nl3\n",
    "l": [3, 1, 2, 1], "ls": ["b", "A", "c", "a"], "ll": [[1, 2], [3, 4]], "el": [], "ed": {}, "d": {"k": "v", "n": 2, "items": "shadow", "nested": {"x": [1, {"y": "deep"}]}},
    "people": [{"n": "bob", "a": 3}, {"n": "ann", "a": 5}, {"n": "cid", "a": 3}],
}

CASES = r"""
{# whitespace control #}
====
a
{% if true %}
b
{% endif %}
c
====
  {% if true %}  
 x
  {%- endif -%}  
 y
====
a {{- 'x' -}} b
====
a  {%+ if true %} b {% endif +%} c
====
	{% if true +%}
x
{% endif %}
====
{{ 'x' }}
{{ 'y' }}

====
x  {# c #}
  {# d #}
  {#- e -#}
 y
====
{{ 'a' }}   {% if true %}z{% endif %}   {{ 'b' }}
====
{% raw %}
 {{ x }} {% if %}
{% endraw %}
z
====
a {%- raw -%}  {{ b }}  {%- endraw -%}  c
====
 {% for i in [1,2] %}
   {{ i }}
 {% endfor %}
 end
====
{%- for i in [1,2] -%}
   {{ i }}
{%- endfor -%}
 end
====
{% set x = 1 %}

{{ x }}
====
{{ '{{ x }}' }}{{ "%}" }}{{ '}}' }}
====
{{ {'a': {'b': 1}} }}
====
{{ {'a': {'b': 1}}['a']['b'] }}
====
a{% if true -%} 

 b{% endif %}
====
{{+ 1 }}{{- 1 }}
====
{# a #}{# b #}
x
{# {{ y }} {% if %} #}
====
{% if true %}{% if true %}
 n
{% endif %}
{% endif %}
====
{# literals and escapes #}
====
{{ 'a\nb\t\\ \' \" \x41 \u00e9 \U0001F600 \101 \q' }}
====
{{ "a" 'b' "c" }}
====
{{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1e400 }} {{ 12345678901234567 * 10.0 }}
====
{{ true }}{{ True }}{{ false }}{{ none }}{{ None }}
====
{{ [1, 'a', "it's", 'q"', none, true, 1.0, [2], {'k': (1,)}] }}
====
{{ (1, 2) }} {{ (1,) }} {{ () }} {{ 1, 2 }}
====
{{ {} }} {{ [] }} {{ {'a': 1, 'b': 'x\n'} }}
====
{{ ['é', '\u200b', '\x00', '\x7f', '🙂', '\\', '\u00a0'] }}
====
{{ {1: 'a', 1.0: 'b', true: 'c'} }}
====
{# output of values #}
====
{{ half }} {{ big }} {{ tiny }} {{ third }} {{ 1e15 }} {{ 100.0 }} {{ -0.0 }} {{ 123456789.123 }}
====
{{ messages }}
====
{{ d }}{{ l }}{{ none_value }}{{ yes }}
====
[{{ undefined_thing }}]
====
{{ undefined_thing.x }}
====
{{ undefined_thing['x'] }}
====
{{ messages[0].nope }}|{{ messages[0]['nope'] }}|{{ messages[99] }}|{{ messages[-1].role }}
====
{{ messages[99].role }}
====
{{ none_value.x }}
====
{{ none_value.x.y }}
====
{# arithmetic #}
====
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
====
{{ 1 / 0 }}
====
{{ 1 % 0 }}
====
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 'a' ~ 1 ~ none ~ 1.5 }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ [1] * 2 }} {{ (1,) + (2,) }} {{ true + 1 }}
====
{{ 'a' + 1 }}
====
{{ 'a' + undefined_thing }}
====
{{ 'a' ~ undefined_thing ~ 'b' }}
====
{{ 1 + none }}
====
{{ -l }}
====
{{ - 3 | abs }} {{ -3 | abs }} {{ +3 }} {{ (-3) | abs }}
====
{{ '%s is %d and %05.2f%%' % ('a', 3, 1.5) }} {{ '%s' % 'x' }} {{ '%r' % 'x' }}
====
{# comparison and logic #}
====
{{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ 'a' < 'b' }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1.0} }} {{ none == none }} {{ none == 0 }} {{ (1,) == [1] }}
====
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }} {{ [1, 2] < [1, 3] }}
====
{{ 'a' < 1 }}
====
{{ 'a' in 'cat' }} {{ 'a' not in 'cat' }} {{ 1 in l }} {{ 9 in l }} {{ 'k' in d }} {{ 'v' in d }} {{ 2 in (1, 2) }} {{ '' in 'x' }} {{ 'x' in undefined_thing }}
====
{{ 1 in 'a1' }}
====
{{ 'a' in 3 }}
====
{{ 'a' and 'b' }} {{ '' and 'b' }} {{ '' or 'b' }} {{ 'a' or 'b' }} {{ not 'a' }} {{ not '' }} {{ none or [] or 'z' }} {{ not 1 == 2 }}
====
{{ 'y' if l else 'n' }} {{ 'y' if el else 'n' }} {{ 'y' if ed else 'n' }}{{ 'y' if zero }} {{ 'a' if no else 'b' if yes else 'c' }} {{ ('y' if no) is defined }}
====
{{ undefined_thing == undefined_other }} {{ undefined_thing == '' }} {{ undefined_thing == none }} {{ not undefined_thing }}
====
{{ undefined_thing < 1 }}
====
{# subscripts and slices #}
====
{{ s[0] }}{{ s[-1] }}{{ s[1:4] }}{{ s[::-1] }}{{ s[:-3] }}{{ s[7:] }}{{ s[::2] }}{{ s[100:] }}{{ s[99] }}
====
{{ uni[1:4] }} {{ uni[::-1] }} {{ uni | length }} {{ uni[-1] }}
====
{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[-2:] }} {{ l[5:1] }} {{ l[::2] }} {{ l[3:0:-1] }} {{ l[-100:100] }}
====
{{ (1, 2, 3)[1:] }} {{ l[none:2] }}
====
{{ l[::0] }}
====
{{ d['k'] }}{{ d.k }}{{ d.nested.x[1].y }}{{ d['nested']['x'][0] }}{{ l.0 }}{{ ll[1][0] }}
====
{{ d['items'] }} {{ d.items() | list }} {{ d.keys() | list }} {{ d.values() | list }}
====
{{ d.get('k') }} {{ d.get('no') }} {{ d.get('no', 'dflt') }} {{ d.get('no', none) is none }}
====
{{ d.items() }} {{ d.keys() }} {{ d.values() }}
====
{% for k, v in tools[0].function.parameters.properties.items() %}{{ k }}={{ v }};{{ v.type is string }}{% endfor %}
====
{{ d.update({'z': 1}) }}
====
{{ l.append(1) }}
====
{{ s.__class__ }}
====
{{ s.__class__.__mro__ }}
====
{{ ''.__class__ is defined }}
====
{{ d._private }}|{{ l.nope }}|{{ s.nope is defined }}
====
{{ s.nope() }}
====
{# strings' methods #}
====
[{{ ws.strip() }}][{{ ws.lstrip() }}][{{ ws.rstrip() }}][{{ 'xxaxx'.strip('x') }}][{{ 'abcba'.strip('ab') }}][{{ 'xxaxx'.lstrip('x') }}][{{ 'xxaxx'.rstrip('x') }}][{{ 'a'.strip(none) }}]
====
{{ csv.split(',') }} {{ ws.split() }} {{ csv.split(',', 1) }} {{ csv.split(',', maxsplit=2) }} {{ csv.rsplit(',', 1) }} {{ ''.split(',') }} {{ ''.split() }} {{ ' a  b c '.split(none, 1) }} {{ ' a  b c '.rsplit(none, 1) }} {{ 'abc'.split('abc') }}
====
{{ 'a'.split('') }}
====
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 1) }} {{ s.replace('', '-') }} {{ s.replace('zz', 'y') }} {{ 'aaa'.replace('aa', 'b') }}
====
{{ s.startswith('Hell') }} {{ s.endswith('d') }} {{ s.startswith(('x', 'H')) }} {{ s.startswith('e', 1) }} {{ s.startswith('') }}
====
{{ s.upper() }} {{ s.lower() }} {{ 'hello wORLD it\'s'.title() }} {{ 'hELLO'.capitalize() }} {{ 'straße'.upper() }}
====
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('z') }} {{ s.index('o') }} {{ s.count('l') }} {{ uni.find('日') }} {{ s.find('o', 5) }}
====
{{ s.index('z') }}
====
{{ ', '.join(ls) }} {{ ''.join(['a']) }} {{ '-'.join('abc') }} {{ ','.join([]) }}
====
{{ ','.join([1]) }}
====
{{ lines.splitlines() }} {{ lines.splitlines(true) }}
====
{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ ''.isdigit() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }} {{ '1.5'.isnumeric() }} {{ '1'.isdecimal() }}
====
{{ 'a{}b{}'.format(1, 'x') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{n}'.format(n=3) }} {{ '{{}}'.format() }}
====
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'ab'.partition('x') }} {{ 'ab'.rpartition('x') }}
====
[{{ 'a'.center(5) }}][{{ 'a'.ljust(3, '.') }}][{{ 'a'.rjust(3) }}][{{ '5'.zfill(3) }}][{{ '-5'.zfill(4) }}]
====
{# filters #}
====
[{{ ws | trim }}][{{ 'xax' | trim('x') }}]{{ s | upper }}{{ s | lower }}{{ 'foo bar-baz' | title }}{{ 'fOO' | capitalize }}
====
{{ l | length }} {{ s | count }} {{ d | length }} {{ undefined_thing | length }} {{ '' | length }}
====
{{ 3 | length }}
====
{{ l | first }} {{ l | last }} {{ s | first }} {{ s | last }} [{{ el | first }}] {{ el | first is defined }}
====
{{ ls | join(', ') }} {{ l | join }} {{ people | join('-', attribute='n') }} {{ 'abc' | join('.') }} {{ [1, none, true] | join(' ') }} {{ [] | join(',') }}
====
{{ undefined_thing | default('x') }} {{ '' | default('x') }}| {{ '' | default('x', true) }} {{ none_value | default('x') }} {{ none_value | d('y', boolean=true) }} {{ messages[0].zzz | default([]) }} {{ undefined_thing | default }}
====
{{ l | sort }} {{ ls | sort }} {{ ls | sort(case_sensitive=true) }} {{ l | sort(reverse=true) }} {{ people | sort(attribute='a') | map(attribute='n') | list }} {{ people | sort(attribute='a,n') | map(attribute='n') | join(',') }}
====
{{ l | reverse | list }} {{ s | reverse }} {{ l | unique | list }} {{ ls | unique | list }} {{ l | sum }} {{ people | sum(attribute='a') }} {{ l | min }} {{ l | max }} {{ ls | min }} {{ people | max(attribute='a') }}
====
{{ people | map(attribute='n') | list }} {{ ls | map('upper') | list }} {{ ls | map('replace', 'a', 'z') | join }} {{ messages | map(attribute='name', default='-') | list }} {{ people | map('length') | list }}
====
{{ people | selectattr('a', 'equalto', 3) | list | length }} {{ people | selectattr('a', '>', 3) | map(attribute='n') | list }} {{ messages | selectattr('tool_calls', 'defined') | list | length }} {{ messages | rejectattr('role', 'eq', 'user') | map(attribute='role') | list }} {{ messages | selectattr('name') | list | length }} {{ people | selectattr('n', 'in', ['bob']) | list }}
====
{{ l | select('odd') | list }} {{ l | reject('odd') | list }} {{ [0, 1, '', 'a', none] | select | list }} {{ [0, 1] | reject | list }} {{ l | select('greaterthan', 1) | list }} {{ [1, 'a'] | select('string') | list }}
====
{{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }} {{ 5 | replace(5, 6) }}
====
{{ '3' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.7' | int }} {{ '0x1f' | int(base=16) }} {{ '1.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ 3 | string }} {{ none | string }} {{ [1] | string }}
====
{{ 3.14159 | round(2) }} {{ 2.5 | round }} {{ 3.5 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }} {{ 7 | round }} {{ -3 | abs }} {{ 1.25 | round(1) }}
====
{{ 'abc' | list }} {{ d | list }} {{ (1, 2) | list }} {{ d.items() | list | length }}
====
{{ d | items | list }} {{ {'b': 1, 'a': 2, 'C': 3} | dictsort }} {{ {'b': 1, 'a': 2} | dictsort(by='value') }} {{ {'b': 1, 'a': 2} | dictsort(reverse=true) }} {{ {'b': 1, 'a': 2, 'C': 3} | dictsort(true) }}
====
{{ undefined_thing | items | list }}
====
{{ '<a href="x">&\'' | escape }} {{ '<' | e }} {{ '<' | safe }}
====
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb\n\nc' | indent(2, true) }}|{{ 'a\n\nb' | indent(2, blank=true) }}|{{ 'a\nb' | indent('> ') }}|{{ 'a\nb' | indent(width=3, first=true) }}
====
{{ s | nofilter }}
====
{{ s is notest }}
====
{% if false %}{{ s | nofilter }}{% endif %}x
====
{# tojson #}
====
{{ messages | tojson }}
====
{{ tools | tojson(indent=2) }}
====
{{ tools[0] | tojson(indent=4) }}
====
{{ d | tojson(sort_keys=true) }} {{ d | tojson(separators=(',', ':')) }} {{ uni | tojson(ensure_ascii=true) }} {{ uni | tojson }} {{ '🙂' | tojson(true) }} {{ l | tojson(indent='\t') }} {{ l | tojson(false, 1) }}
====
{{ "\x00\x1f\x7f\u2028\b\f\n\r\t\"\\/<>&'" | tojson }} {{ none | tojson }} {{ 1.0 | tojson }} {{ 1e16 | tojson }} {{ true | tojson }} {{ (1, 'a') | tojson }} {{ {} | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ [[], {}] | tojson(indent=1) }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}
====
{{ undefined_thing | tojson }}
====
{{ {'a': undefined_thing} | tojson }}
====
{{ l | map('string') | tojson }}
====
{{ d.items() | tojson }}
====
{# tests #}
====
{{ s is defined }} {{ undefined_thing is defined }} {{ undefined_thing is undefined }} {{ none_value is none }} {{ none_value is defined }} {{ undefined_thing is none }} {{ s is not none }} {{ d.nope is defined }} {{ d.nested.nope is not defined }}
====
{{ s is string }} {{ 1 is string }} {{ d is mapping }} {{ l is mapping }} {{ l is iterable }} {{ s is iterable }} {{ 1 is iterable }} {{ d is iterable }} {{ l is sequence }} {{ d is sequence }} {{ s is sequence }} {{ 1 is sequence }} {{ none is iterable }} {{ undefined_thing is iterable }} {{ undefined_thing is sequence }} {{ undefined_thing is mapping }} {{ undefined_thing is string }}
====
{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ '1' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ 1 is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }}
====
{{ 1 is odd }} {{ 2 is even }} {{ 9 is divisibleby(3) }} {{ 9 is divisibleby 3 }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is ge(2) }} {{ 'a' is in 'abc' }} {{ 1 is not in l }} {{ 3 is sameas 3 }} {{ range is callable }} {{ s is callable }} {{ 'upper' is filter }} {{ 'defined' is test }}
====
{{ not s is string }} {{ s is string and 1 is number }} {{ s is string == true }} {{ s is defined and s }} {{ (s is string) | string }}
====
{# scopes #}
====
{% set x = 0 %}{% for i in range(3) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
====
{% set ns = namespace(x=0, y='a') %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z is defined }}
====
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}
====
{% set d.k = 1 %}
====
{% set ns = namespace() %}{% set ns._x = 1 %}
====
{% if true %}{% set x = 1 %}{% endif %}{{ x }}
====
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (a, b) = (b, a) %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}
====
{% set a, b = [1, 2, 3] %}
====
{% set x %}a{{ 1 }}b
{% endset %}[{{ x }}]{% set y | upper %}abc{% endset %}{{ y }}{% set z | trim | replace('a', 'b') %} a {% endset %}[{{ z }}]
====
{% set x = 1 %}{% set y %}{% set x = 2 %}{{ x }}{% endset %}{{ x }}{{ y }}
====
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}
====
{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
====
{% for i in [1] %}{% set q = 1 %}{% endfor %}{{ q is defined }}{{ i is defined }}{{ loop is defined }}
====
{% set messages = messages[1:] %}{{ messages | length }}{% set loop_messages = messages %}{% for m in loop_messages %}{{ m.role }}{% endfor %}
====
{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set sys = '' %}{% endif %}{{ sys }}{{ rest | length }}
====
{# loops #}
====
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
====
{% for i in l %}{{ loop.previtem is defined }}{{ loop.previtem }}-{{ loop.nextitem }}-{{ loop.nextitem is defined }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i) }};{% endfor %}
====
{% for i in [] %}x{% else %}none{% endfor %}{% for i in l if i > 5 %}x{% else %}none{% endfor %}{% for i in l %}x{% else %}none{% endfor %}
====
{% for i in l if i > 1 %}{{ loop.index }}{{ i }}{{ loop.last }}{% endfor %}
====
{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% endfor %}
====
{% for row in ll %}{% for x in row %}{{ loop.index }}{{ x }}{% if loop.last %}!{% endif %}{% endfor %}{{ loop.index }}{% endfor %}
====
{% for row in ll %}{% set outer = loop %}{% for x in row %}{{ outer.index }}{{ loop.index }}{{ outer.last }};{% endfor %}{% endfor %}
====
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for a, b in ll %}{{ a }}{{ b }}{% endfor %}{% for (a, b) in ll %}{{ a + b }}{% endfor %}
====
{% for a, b in [1, 2] %}{% endfor %}
====
{% for c in 'añb' %}{{ c }},{% endfor %}{% for x in undefined_thing %}x{% else %}e{% endfor %}
====
{% for x in none_value %}x{% endfor %}
====
{% for x in 3 %}x{% endfor %}
====
{% for i in range(3) %}{{ i }}{% endfor %}{{ range(2, 5) | list }}{{ range(5, 0, -2) | list }}{{ range(3) }}{{ range(3)[1] }}{{ range(3) | length }}{{ 2 in range(3) }}
====
{% for i in range(1000000) %}x{% endfor %}
====
{% for m in messages | reverse %}{{ m.role }}{% endfor %}{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}
====
{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}
====
{% for m in messages if m.role != 'system' %}{% if loop.index0 % 2 == 0 %}{{ m.role }}{% endif %}{% endfor %}
====
{% for i in range(3) %}{% for j in range(3) if j > i %}{{ i }}{{ j }} {% endfor %}{% endfor %}
====
{{ loop.index }}
====
{% break %}
====
{# macros #}
====
{% macro m(a, b='x', c=[]) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(a=1, c=3) }}{{ m(1, c='z', b='y') }}{{ m() }}
====
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
====
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, z=2) }}
====
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}
====
{% macro down(n) %}{{ n }}{% if n > 0 %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(5) }}
====
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{{ x }}{% endmacro %}{% set x = 3 %}{{ a() }}
====
{% set x = 1 %}{% macro m() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}
====
{% macro m() %}{{ i is defined }}{% endmacro %}{% for i in [1] %}{{ m() }}{% endfor %}
====
{% macro m() %}  x
{% endmacro %}[{{ m() }}][{{ m() | trim }}][{{ m() ~ 'y' }}]{{ m().strip() == 'x' }}{{ m() is string }}
====
{% macro m(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call m('b') %}in {{ s }}{% endcall %}
====
{% macro m() %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(x) m() %}[{{ x }}]{% endcall %}
====
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}
====
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | trim %} a {% endfilter %}
====
{% macro render(o, depth=0) %}{% if o is mapping %}{% for k, v in o.items() %}{{ ' ' * depth }}{{ k }}:
{{ render(v, depth + 2) }}{% endfor %}{% elif o is iterable and o is not string %}{% for x in o %}{{ render(x, depth + 2) }}{% endfor %}{% else %}{{ ' ' * depth }}{{ o }}
{% endif %}{% endmacro %}{{ render(tools) }}
====
{{ m() }}{% macro m() %}x{% endmacro %}
====
{# globals and statements of transformers #}
====
{{ raise_exception('no') }}
====
{% generation %}a{{ 1 }}
b{% endgeneration %}
c
====
{% for m in messages %}{% generation %}{{ m.role }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}{% endfor %}
====
{{ dict(a=1, b=2) }}{{ dict(d, z=1) | length }}{{ dict([('a', 1)]) }}
====
{{ strftime_now is defined }}{{ strftime_now('%%') }}{{ raise_exception is defined }}{{ bos_token is defined }}
====
{% do l %}
====
{% include 'x' %}
====
{% import 'x' as y %}
====
{% extends 'x' %}
====
{% unknown %}
====
{% if true %}
====
{% endif %}
====
{{ 1 + }}
====
{{ (1 }}
====
{{ 'a }}
====
{% for x in %}{% endfor %}
====
{# never closed
====
{{ x y }}
====
{{ x. }}
====
{% set 1 = 2 %}
====
{% set true = 2 %}
====
{{ f(a=1, 2) }}
====
{% if s == 'x' %}1{% elif s == 'Hello, World' %}2{% else %}3{% endif %}
====
{% if (messages | selectattr('role', 'equalto', 'system') | list | length) > 0 and not tools is none %}yes{% endif %}
====
{% print 1, 'a' %}
====
{{ (messages | last)['content'] }} {{ (messages | first).role.upper() }} {{ messages[0]['content'].split('.')[0][-5:] | upper }}
====
{{ messages[2].content.split('</think>')[-1].lstrip('\n') }}{{ messages[2].content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}
====
{{ messages[2].tool_calls[0].function.arguments | tojson }}{% set tc = messages[2].tool_calls[0] %}{% if tc.function %}{% set tc = tc.function %}{% endif %}{{ tc.name }}{{ tc.arguments is string }}{{ tc.arguments is mapping }}
====
{% for key in tc_args | default({}) %}x{% endfor %}{% for a in messages[2].tool_calls[0].function.arguments %}{{ a }}{% endfor %}
====
{{ "{\"name\": \"" + s + "\"}" }}{{ '' if none_value is none else 'x' }}{{ [s, 'b'] | join('\n') }}
====
{{ {'role': 'system', 'content': 'x'} | tojson }}{% set m = [{'role': 'x'}] + messages %}{{ m | length }}{{ m[0]['role'] }}
====
{{- s -}}
  {%- set _ = 1 -%}
  {{- _ }}
====
{{ 'x' if 'a' in s and 'b' not in s or yes }}{{ ['a', 'b'].index('b') }}{{ l.count(1) }}{{ (1, 2).index(2) }}
====
{{ messages[1:] is sequence }}{{ messages | map(attribute='role') | unique | sort | join('|') }}{{ messages | map(attribute='content') | map('trim') | map('length') | sum }}
====
{{ messages[0]|tojson|length }}{{ s|length > 5 }}{{ l|length + 1 }}{{ l|first + 1 }}
====
{{ d.nested.x | length if d.nested is defined and d.nested.x is defined else 0 }}
====
{{ d is mapping and 'k' in d and d['k'] is string }}{{ 'a' 'b' ~ 'c' }}
====
{% set content %}{{ s }}{% if true %} more
{% endif %}{% endset %}{{ content | trim }}|{{ content.endswith('\n') }}
====
{%- macro q(x) -%}
  {%- if x is string -%}
    {{- '"' + x + '"' -}}
  {%- else -%}
    {{- x -}}
  {%- endif -%}
{%- endmacro -%}
{{- q('a') }},{{ q(1) -}}
====
{{ 10 // 3 * 3 + 10 % 3 == 10 }}{{ 2 ** 3 ** 2 }}
====
{{ 9223372036854775807 + 0 }}{{ 9007199254740993 }}
====
{{ d['k' ] [0] }}{{ d . k }}{{ s [ 0 ] }}
====
{{ 'a' if true }}{{ ('a', 'b')[0] }}{{ ['x'][0][0] }}{{ {'a': [1]}.a[0] }}{{ 'abc'[1] }}{{ "%s" | format(s) }}
====
{% for tool in tools %}{{ '\n' if not loop.first }}{{ tool.function.parameters.properties | length }}{{ tool['function']['name'] }}{{ tool.function.parameters.properties.z.type }}{{ tool.function.parameters.required[0] }}{% endfor %}
====
{{ [1, 2, 3] | map('string') | join(', ') }}{{ [[1, 2], [3]] | sum(start=[]) }}
====
{{ x | default({'a': 1}) | tojson }}{{ none | default('a') }}{{ x is defined or y is defined }}
====
{{ ' '.join(messages | map(attribute='role')) }}{{ messages | length - 1 }}
====
{{ (l | length) }}{{ l | map('int') | max }}{{ '%.3f' | format(1.5) }}{{ 1.0 == 1 }}{{ 3 // 1.0 }}
====
{{ "a" is in ["a"] }}{{ "a" in {"a": 1} }}{{ l is not string and l is iterable }}{{ loop is not defined }}
====
{{ none | map('upper') | list }}{{ zero | select | list }}{{ tools | min | length }}{{ 8.0 is divisibleby(2) }}{{ "straße ß it's (a) x-y" | title }}{{ "it's (a) x-y".title() }}
====
{{ lines | indent }}|{{ lines | indent(2, true, true) }}|{{ '' | indent(2, true) }}|{{ 'a' | indent }}|{{ '\n\na\r\n\r\nb' | indent(2, blank=true) }}{{ 'a\n' | indent }}{{ '\n' | indent(1, true) }}{{ no | round }}{{ half is odd }}{{ -3 is odd }}{{ half is even }}{{ 4.0 is even }}
====
{{ one[1:] }}
====
{% if not undefined_thing[0:1] %}{% endif %}
"""


def render(source):
    try:
        return _compile_jinja_template(source).render(**json.loads(json.dumps(VARIABLES)))
    except Exception:
        return None


def main():
    sources = [c for c in CASES.strip("\n").split("\n====\n") if not (c.startswith("{# ") and c.endswith(" #}") and "\n" not in c)]
    cases = [{"source": s, "want": render(s)} for s in sources]
    text = json.dumps({"variables": VARIABLES, "cases": cases}, ensure_ascii=False, indent=1)
    (pathlib.Path(__file__).parent / "cases.json").write_text(text + "\n")
    print(len(cases), "cases,", sum(c["want"] is None for c in cases), "errors")


if __name__ == "__main__":
    main()
