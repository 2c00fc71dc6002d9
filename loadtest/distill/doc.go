// Package distill makes united experts: it has small networks learn what groups of a model's
// experts give for the rows of real texts (BrownoutServe, section IV-B).
//
// A student has the shape of one expert of its layer, and stands in for a group: of neighbours, or of
// experts that give much the same for the rows of either.
// Two losses are there. By eq4, the paper's, it is to be as near as possible to every member on
// every row. By routed it learns what serving will ask of it: for the rows that chose a member,
// the squared distance of its output times the sum of their weights from Σ gᵢEᵢ.
//
// It begins as the member with most rows, as the members' mean, or as their mean after the
// neurons of each were matched with those of that member; the best of these on the validation
// rows, unless it is told which. Adam goes against the gradient at a rate that falls along a
// cosine; the pass that is best on the validation rows is kept. Texts are divided 6:1:3 by
// sequence, each domain by itself, for learning, validation and measuring.
//
// Then the students of a way learn together from what the whole model says in brownouts (package whole): how
// far the next token's distribution is from that without one. What each step has does not depend on threads,
// and the best students on the validation rows are kept.
//
// The same recording, settings and model give the same bits, whatever the number of threads.
// Each student is kept as soon as it is done, so that a run that was ended goes on.
package distill
