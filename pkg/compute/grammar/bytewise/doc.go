// Package bytewise makes deterministic automata over bytes: of regular expressions, of
// strings as JSON writes them, and of numbers within bounds.
//
//	expression ─▶ characters: classes of them, states ─┐
//	                                                    ├─▶ Body ─ lengths ─▶ Strings
//	classes ─▶ encoder: the bytes of one character ────┘
//
// Expressions are read as ECMA-262 or Perl has them, without what looks ahead or back. Sets of
// positions become states, at most as many as a Budget allows. Strings have a count beside their
// state: of characters, or of how often a repetition was gone through, so that what a count
// may be makes no more states. DFAs count nothing.
//
// Each state can be left for an accepting one, so that no text that follows it gets stuck. All
// is made whole before it is used: what is too large is refused then, and not while a request
// waits for a token.
//
// In quoted strings a character stands as JSON writes it: as it is, or escaped. Halves of
// surrogate pairs are not characters.
package bytewise
