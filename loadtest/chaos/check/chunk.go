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
// how long it took.
func (c *Chunk) Content() string {
	return fmt.Sprintf("%q %v %q seed %d usage %s logprobs %s", c.Text, c.TokenIDs, c.Finish, c.Seed, c.Usage, c.Logprobs)
}

// Ended says how a request ended by its last chunk: its finish reason, or the
// error's code; "" while it has not.
func (c *Chunk) Ended() string {
	if c.Error != nil {
		return c.Error.Code
	}
	return c.Finish
}
