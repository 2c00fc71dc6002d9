// Package workload says what is asked: requests that follow from a seed, with
// prompts that begin alike, answers of all lengths, and readers that cancel, are
// in a hurry, repeat themselves, or come back later.
package workload

import (
	"math/rand/v2"
	"strings"
	"time"
)

// Prompt is the body of a request in JSON; docs/api.md has the fields.
type Prompt struct {
	RequestID   string  `json:"request_id"`
	ReplyTo     string  `json:"reply_to"`
	Text        string  `json:"text"`
	MaxTokens   int     `json:"max_tokens"`
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	Seed        uint32  `json:"seed"`
	IgnoreEOS   bool    `json:"ignore_eos"`
	Logprobs    int     `json:"logprobs,omitempty"`
	Deadline    string  `json:"deadline,omitempty"`
}

// Act is what a reader does beside reading.
type Act string

// The acts.
const (
	// Read is nothing else.
	Read Act = "read"
	// Cancel ends the request at a token.
	Cancel Act = "cancel"
	// Hurry sets a deadline, which may pass.
	Hurry Act = "hurry"
	// Repeat publishes the prompt again at a token, for another reader.
	Repeat Act = "repeat"
	// Replay has another reader ask for the answer at a token.
	Replay Act = "replay"
)

// Request is one of a variant's.
type Request struct {
	Variant int
	Act     Act
	// At is the token at which the act is done; From is the first one that the
	// other reader of a replay wants.
	At, From int
	// Within is the deadline's distance.
	Within time.Duration
}

// Workload makes requests.
type Workload struct {
	seed     uint64
	variants []Prompt
}

// New makes a workload with so many prompts.
func New(seed uint64, variants int) *Workload {
	w := &Workload{seed: seed}
	rng := rand.New(rand.NewPCG(seed, 0))
	for range variants {
		w.variants = append(w.variants, variant(rng))
	}
	return w
}

// sentences begin the prompts, in this order: prompts of several have a prefix in common.
var sentences = []string{
	"Once upon a time there was a little girl called Lily. ", "She had a small dog and a red ball. ",
	"One day they went to the big park. ", "The sun was warm and the birds sang. ", "Then the ball was gone. ",
	"The dog looked under the tree. ", "Lily asked a big bear for help. ", "The bear was very kind. ",
}

var beginnings = []string{"The next day", "But then", "\"Where is it?\" asked", "Suddenly", "Mom said", "They were all"}

const (
	leastTokens, mostTokens = 8, 160
	// rounds of all sentences at most, so that prompt and answer fit 512 tokens.
	rounds = 2
)

func variant(rng *rand.Rand) Prompt {
	var text strings.Builder
	for i := range rng.IntN(rounds*len(sentences) + 1) {
		text.WriteString(sentences[i%len(sentences)])
	}
	text.WriteString(beginnings[rng.IntN(len(beginnings))])
	p := Prompt{
		Text: text.String(), MaxTokens: leastTokens + rng.IntN(mostTokens-leastTokens+1), IgnoreEOS: true,
		Temperature: 0.6 + 0.1*float64(rng.IntN(6)), TopP: 0.95, Seed: rng.Uint32(),
	}
	if rng.IntN(8) == 0 {
		p.Logprobs = 1 + rng.IntN(3)
	}
	return p
}

// Variants are the prompts, without ids.
func (w *Workload) Variants() []Prompt { return w.variants }

// Of is the n-th request of a worker. It follows from these numbers alone, so it
// does not matter what became of those before it.
func (w *Workload) Of(worker, n int) Request {
	rng := rand.New(rand.NewPCG(w.seed, uint64(worker+1)<<32|uint64(n)))
	r := Request{Variant: rng.IntN(len(w.variants))}
	r.At = rng.IntN(w.variants[r.Variant].MaxTokens)
	r.From = rng.IntN(r.At + 1)
	r.Within = time.Duration(1000+rng.IntN(9000)) * time.Millisecond
	switch c := rng.IntN(100); {
	case c < 12:
		r.Act = Cancel
	case c < 22:
		r.Act = Hurry
	case c < 34:
		r.Act = Repeat
	case c < 46:
		r.Act = Replay
	default:
		r.Act = Read
	}
	return r
}
