// Package bytewise makes deterministic automata over bytes: of regular expressions, of
// strings as JSON writes them, and of numbers within bounds.
//
// Each state of an automaton can be left for an accepting one, so that no text that
// follows it gets stuck. Expressions are parsed by regexp/syntax, without what looks ahead or
// back; sets of positions become states, at most as many as a Budget allows. An automaton is
// made whole before it is used: what is too large is refused then, and not while a
// request waits for a token.
//
// In quoted automata a character stands as JSON writes it within a string: as it is, or
// escaped. Halves of surrogate pairs are not characters.
package bytewise
