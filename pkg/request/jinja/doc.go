// Package jinja runs chat templates: the part of Jinja that they use, with the
// settings and additions of Hugging Face transformers (trim_blocks and
// lstrip_blocks; break and continue; the tags generation and endgeneration;
// tojson, raise_exception and strftime_now). What it makes of a template is what
// jinja2 3.1 makes of it; testdata/make.py says of which ones that is checked.
//
// A template can reach nothing but the variables that it is given, and cannot
// change them. Each run has a budget of steps and of bytes (limits.go), so every
// template ends soon, in a text or in an *Error with its name and line.
//
// Every string knows which of its bytes came from outside the template (Text).
// That survives concatenation, trimming, splitting, JSON and the rest, so an
// encoder of the result can take special tokens in it for what they are: the
// template's own, or a producer's text that looks like them.
package jinja
