// Package words cuts text into the words that a tokenizer's model sees one by
// one, as the regular expressions of published tokenizers do, and makes symbols of
// each word (BPE).
//
// The known patterns are matched by hand: two orders of magnitude faster than a
// backtracking engine, and in linear time whatever the text. Patterns that are
// one run of characters are matched without an engine too. All others go to the
// engine, with a limit of time.
//
// A byte that is not UTF-8 is a character of its own, U+FFFD.
package words
