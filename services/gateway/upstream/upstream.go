// Package upstream is what a gateway asks of the services, over NATS alone: which models are
// served, answers of callers that wait, requests that go on without their caller, their answers
// again, and ids of texts. Interface is all of it, so that tests can have a fake.
package upstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Chunks are an answer: in order, each once, and the last one has a finish_reason. An error ends
// them, which is a *client.Error.
type Chunks = iter.Seq2[*pb.Chunk, error]

// Interface is what a gateway asks of the services.
type Interface interface {
	// Models are those that are served, by name.
	Models() []Model
	// Find is the model of a name, as it was published or in subjects. One that is to be asked and cannot
	// answer now is returned with an error of client.CodeModelNotReady.
	Find(ctx context.Context, name string, toAsk bool) (Model, error)
	// Ask streams the answer of a request that ends when ctx does, or when nobody reads on.
	Ask(ctx context.Context, to To, p *pb.Prompt) Chunks
	// Accept has a request accepted, which goes on without its caller.
	Accept(ctx context.Context, to To, p *pb.Prompt) error
	// Replay streams the answer of an accepted request of a tenant from a token on. That ctx ends
	// changes nothing for the request.
	Replay(ctx context.Context, to To, request string, from int32) Chunks
	// Cancel ends a request of a tenant.
	Cancel(to To, request string) error
	// Forget ends a request of a tenant and has nothing of it kept.
	Forget(ctx context.Context, to To, request string) error
	// Tokens are the ids of a prompt, or the text of its ids.
	Tokens(ctx context.Context, model string, p *pb.Prompt) (*pb.Tokens, error)
	// Count is how many ids a prompt has, which may be more than the context holds.
	Count(ctx context.Context, model string, p *pb.Prompt) (int32, error)
	// Ready says why no model could be asked.
	Ready() error
}

// To is whom a request goes to, and whose it is.
type To struct {
	Model string // in subjects
	Flow  schemas.Flow
	// Shared says that others may wait for the same request: that this one leaves does not
	// cancel it for them.
	Shared bool
	// Allowed is told what the tenant may have a minute, as the services say it; nil: nobody is.
	Allowed func(schemas.Allowance)
}

// Model is what is known of a model.
type Model struct {
	Name    string // in subjects
	Context int    // the most tokens of a prompt and its answer
	// MostBytes is how large a prompt can be that is read; 0: it is not known.
	MostBytes int64
	Vocab     int
	Created   int64 // in seconds since 1970
	// Family, Hash, Class and Wire are what its bits depend on.
	Family, Hash, Class, Wire string
	// Secret is what ids of clients' keys are made of, the same at every gateway.
	Secret string
	// BOS and EOS are the special tokens that begin and end its texts; empty: there are none.
	BOS, EOS string
	// Running and Waiting count its requests, and KVUsed is the share of its pages of keys and
	// values that are used.
	Running, Waiting, KVUsed float64
	// Text and Chat say whether it has a tokenizer and a chat template, Ready whether a token
	// can flow.
	Text, Chat, Ready bool
}

// Fingerprint is equal where answers have equal bits.
func (m Model) Fingerprint() string {
	sum := sha256.Sum256([]byte(m.Hash + "\n" + m.Class + "\n" + m.Wire))
	return "fp_" + hex.EncodeToString(sum[:8])
}
