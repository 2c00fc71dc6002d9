// Package check judges streams of chunks by what the same request brought when
// nothing went wrong. It reads JSON by itself and shares no code with the
// services, the client or the schemas, so that a mistake of theirs is not its own.
package check

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Chunk is a part of an answer; docs/api.md has its fields.
type Chunk struct {
	RequestID string          `json:"request_id"`
	Index     int             `json:"index"`
	Text      string          `json:"text"`
	TokenIDs  []uint32        `json:"token_ids"`
	Finish    string          `json:"finish_reason"`
	Seed      uint32          `json:"seed"`
	Usage     json.RawMessage `json:"usage"`
	Logprobs  json.RawMessage `json:"logprobs"`
	Error     *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Decode reads a chunk.
func Decode(body []byte) (c Chunk, err error) {
	if err := json.Unmarshal(body, &c); err != nil {
		return c, fmt.Errorf("reading a chunk: %w", err)
	}
	if c.RequestID == "" && c.Index >= 0 {
		return c, errors.New("a chunk has no request_id")
	}
	return c, nil
}

// Content is what of a chunk follows from the request alone: neither its id nor
// how long it took, nor what memory it used.
func (c *Chunk) Content() string { return c.content(c.Logprobs) }

// Common is what of that an earlier release tells, too: it names a candidate's id alone.
func (c *Chunk) Common() string {
	type candidate struct {
		ID      uint32      `json:"id"`
		Logprob json.Number `json:"logprob"`
	}
	var common []struct {
		Index  int         `json:"index"`
		Chosen candidate   `json:"chosen"`
		Top    []candidate `json:"top"`
	}
	if json.Unmarshal(c.Logprobs, &common) != nil {
		return c.Content()
	}
	text, err := json.Marshal(common)
	if err != nil {
		return c.Content()
	}
	return c.content(text)
}

func (c *Chunk) content(logprobs []byte) string {
	return fmt.Sprintf("%q %v %q seed %d usage %s logprobs %s", c.Text, c.TokenIDs, c.Finish, c.Seed, c.tokens(), logprobs)
}

// tokens are the usage without what is metered, which another run of the same request, and
// an earlier release, tell otherwise.
func (c *Chunk) tokens() string {
	var usage map[string]json.RawMessage
	if json.Unmarshal(c.Usage, &usage) != nil || usage == nil {
		return string(c.Usage)
	}
	for _, metered := range []string{"expert_gb_s", "cold_starts", "cached_tokens"} {
		delete(usage, metered)
	}
	text, err := json.Marshal(usage)
	if err != nil {
		return string(c.Usage)
	}
	return string(text)
}

// Ended says how a request ended by its last chunk: its finish reason, or the
// error's code; "" while it has not.
func (c *Chunk) Ended() string {
	if c.Error != nil {
		return c.Error.Code
	}
	return c.Finish
}
