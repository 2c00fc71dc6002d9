// Package quality measures what a brownout costs answers: it runs a model over texts that were
// held out, by direct calls, with the rows of each layer split as gates would split them, and
// tells how probable the texts' own tokens become.
//
// Tokens are fed as they stand in the text, one of each sequence a step (decode), so many
// sequences at a time: which experts keep their rows depends on the batch. Whole sequences at
// once (prefill) tell which of four continuations is the true one.
//
// Each setting is compared with threshold 1 token by token, on the same texts in the same
// batches, and intervals are of that difference.
package quality
