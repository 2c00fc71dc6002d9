// Package bo learns a table of chosen experts from what plans that are made by it cost (BO/ODS,
// section IV-B): Bayesian optimization whose variables are Q keys of the table with their values.
//
//	   ┌───────────── acquire: keys and values ◀─ surrogate ◀─┐
//	   ▼                                                     │
//	table ─▶ foretold rows ─▶ plan ─▶ cost by real rows ─▶ history
//
// A round sets the variables, foretells rows, plans, and bills the plan by what the learning batches
// really chose. The first μQ variables give new values to keys of tokens of mispredicted batches
// (the paper's L); the others revalue or create keys of any token (P). For each of them the acquisition
// takes the value of the candidate with the best posterior mean with probability 1 - ε_q, and draws one
// from its range otherwise. ε decays from round to round; that of the first μQ decays less the worse
// the round's plan fitted: functions with too little memory, payloads exceeded, rows mispredicted.
//
// The surrogate is a Gaussian process. Costs see a table only through the rows that it foretells, so
// its kernel is on these; Errors compares it with one on the variables themselves.
//
// All is drawn from a seed, and a State that was written between rounds goes on with the same draws.
package bo
