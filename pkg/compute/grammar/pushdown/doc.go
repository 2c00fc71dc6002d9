// Package pushdown follows grammars whose rules call each other, byte by byte, and says
// which tokens of a vocabulary may come next.
//
// A grammar's Rules are networks of terminals (automata over bytes, and strings that count) and
// of calls. A rule may count, too: Guards say which counts a way needs. A State is all that a
// text may be in the middle of: places in terminals, each with the calls that it returns to.
// Calls are shared, and states that are equal are one, so their masks and what follows each byte
// are computed once. A state is a function of the bytes before it alone.
//
// A mask is computed in two parts. Which tokens end within a terminal depends on the place
// in it, and not on the calls; that part is kept for each place. The few tokens that go
// beyond a terminal's end are followed through what comes behind it. Counts that no token can
// tell apart have one mask.
package pushdown
