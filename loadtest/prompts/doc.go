// Package prompts makes prompts of the past of texts or recordings, builds stores of them
// (pkg/policy/predict/sps), and measures how well ways to foretell a prompt's experts do on texts whose
// routing is a model's own.
//
//	texts ─Sets─▶ pieces of past and test ─Reader.See─▶ vector, activation ─Evaluate─▶ divergence by method
//	recording ─Reader.Recorded──────────────────┘
//
// A prompt's vector is made of the model's embeddings of its tokens, its activation counts what gates
// chose for its rows in prefill.
package prompts
