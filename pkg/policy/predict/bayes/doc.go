// Package bayes foretells which experts a token's row will choose, by counts of what rows of the
// past chose (BO/ODS, section III-B): how many rows each expert of each layer will have is known
// before the first of them is computed.
//
//	recording ─▶ Builder ─▶ Table ─┐
//	                      text ────┴▶ Predictor ─▶ rows of each expert
//
// A row has three features at a layer: its token, its position, and its key, which is the token
// that counted most in the attention before the gate. A Table has, for each of them and each
// expert, how many rows chose it. Of a token that has not been computed only the first two are
// known: the posterior (equation 1) sums over the others, weighed with how often each key's token
// is in a text, P'(f3). The uniform P'(f2) of the print cancels, and so does P*(f1).
//
// Methods differ in what they take for known. Equation 2 gives a row to the expert with the
// largest posterior, or to the k best. A token that no row of the past had is given the layer's
// prior.
package bayes
