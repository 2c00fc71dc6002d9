// Package rerun computes a logged request again, alone and by direct calls, and compares the tokens.
//
// A log has what the request asked for (the acceptance's sequence), what was answered, and what
// became of each row × layer × slot of it, where a brownout changed any: which slots a united expert
// computed, of which bundle, and which nobody did. So an answer can be told from one that was spoilt
// on its way, whatever it travelled with and whoever was killed meanwhile.
//
//	log ──▶ Read: prompt, sampling, tokens, fates ──▶ Run: a runner that redirects ──▶ Verdict
//
// The model must have the hash that the log names, and the same numeric class and wire type must be
// used; united experts must be those of the bundles that the fates name.
package rerun
