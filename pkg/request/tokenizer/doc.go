// Package tokenizer turns text into token ids and back as Hugging Face's
// tokenizers library does, and makes text out of a stream of ids.
//
// A text goes through the stages of tokenizer.json: added tokens are cut out,
// the rest is normalised, split into words by regular expressions, and each
// word's bytes are merged by rank. A stage that is not known is refused with
// its name when the tokenizer is opened.
//
// Text need not be valid UTF-8: bytes pass through, so decoding what was
// encoded gives the same bytes (unless a normalizer changes them).
package tokenizer
