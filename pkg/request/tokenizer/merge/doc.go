// Package merge is byte pair encoding: a word is taken apart into symbols, and
// the adjacent pair of lowest rank is joined until none is left, of equal ranks
// the leftmost first.
//
// Source: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words
// with Subword Units", section 3.2. Ranks and ids are those of the tokenizer's
// file; time is linear in the length of a word.
package merge
