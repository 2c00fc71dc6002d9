// Package networks makes the weights of load predictors (package predict) from what
// gates saw and chose. It computes and does nothing else: the same examples and
// settings give the same weights.
//
// Every predictor learns the same way, by the cross-entropy of its softmax with
// a target that is partly the gate's choices, each with 1/k, and partly the
// gate's probabilities, which tell how nearly an expert was chosen. Adam goes
// against the gradient of small batches, at a rate that falls to nothing along a
// cosine. The weights of the pass that is best on the validation rows are kept.
package networks
