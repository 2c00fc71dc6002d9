// Package ebnf makes rules of a grammar in the notation of llama.cpp's GBNF, as vLLM's
// clients send it:
//
//	root  ::= "[" item ("," item)* "]"
//	item  ::= [0-9]{1,3} | root   # a comment
//
// A rule is a name, "::=" and alternatives, up to the next rule. Within are texts in
// quotation marks, classes of characters as regular expressions have them, ".", other
// rules' names and parentheses, each with ?, *, + or {m,n} behind it. root is where a text
// begins. A rule that begins with itself is refused.
package ebnf
