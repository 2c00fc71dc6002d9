// Package gateway is OpenAI's and Anthropic's HTTP APIs in front of the models. It has no state and
// no files of models: it reads requests (packages openai, responses, anthropic), asks for them over
// NATS (upstream), and writes what comes as JSON or server-sent events (the same packages). Several
// gateways serve the same models, and what one has begun in the background, each can tell on.
//
//	request ─ limits, key ─▶ route ─ openai ─▶ Ask ─ upstream ─▶ chunks ─ openai ─▶ JSON or events
//
// A chat lives as long as its client: when that leaves, its answer is cancelled.
package gateway
