// Package tokenizer turns text into token ids and back as Hugging Face's
// tokenizers, tiktoken and SentencePiece do, and makes text out of a stream of ids.
//
// A tokenizer is read from tokenizer.json, or from the bare files that some models
// have instead. A text goes through the stages of tokenizer.json, whatever file they
// come from: added tokens are cut out, the rest is normalised, split into words, and
// each word is encoded by a model: byte pair encoding or WordPiece. A stage that is
// not known is refused with its name when the tokenizer is opened.
//
// Text need not be valid UTF-8: bytes pass through byte-level models, so decoding
// what was encoded gives the same bytes (unless a normalizer changes them).
package tokenizer
