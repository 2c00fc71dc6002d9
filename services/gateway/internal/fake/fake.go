// Package fake is services that a test of the gateway plays itself: it says what chunks come of
// a prompt, and where they stop. It keeps what was accepted, so that it can be replayed.
package fake

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/calls"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// Upstream is services of one model, named demo.
type Upstream struct {
	// Answer makes the chunks of a prompt; nil: Words of it.
	Answer func(p *pb.Prompt) []*pb.Chunk
	// Fails, if it is not nil, ends an answer behind its chunks but the last one.
	Fails error
	// Holds, if it is not nil, keeps the last chunk back until it is closed.
	Holds chan struct{}
	// Unready is why no model can be asked.
	Unready error
	// Bare says that the model has no tokenizer.
	Bare bool
	// Pieces are the bytes of ids, where they are not those of words.
	Pieces map[uint32]string
	// Secret is the model's; empty: one of a test.
	Secret string
	// Allowance is what the services say of the tenant's limits.
	Allowance schemas.Allowance
	// Special says that its tokenizer puts <s> before texts.
	Special bool

	mu        sync.Mutex
	prompts   []*pb.Prompt
	tokenized []*pb.Prompt
	tos       []upstream.To
	cancelled []string
	accepted  map[string]kept
	left      int
}

// kept is a request that was asked, and whose it is.
type kept struct {
	prompt *pb.Prompt
	tenant string
}

// keep has a request's answer be told again.
func (u *Upstream) keep(to upstream.To, p *pb.Prompt) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.accepted == nil {
		u.accepted = map[string]kept{}
	}
	u.accepted[p.RequestId] = kept{p, to.Flow.Tenant}
}

// of returns a tenant's request; nil: there is none.
func (u *Upstream) of(to upstream.To, request string) *pb.Prompt {
	u.mu.Lock()
	defer u.mu.Unlock()
	if k := u.accepted[request]; k.tenant == to.Flow.Tenant {
		return k.prompt
	}
	return nil
}

// Model returns the model that there is.
func Model() upstream.Model {
	return upstream.Model{Secret: "secret", Name: "demo", Context: 512, Vocab: 8192, Created: 1, Family: "f", Hash: "h", Class: "c", Wire: "bf16", EOS: "</s>", Text: true, Chat: true, Ready: true}
}

// Words returns the chunks of an answer with these tokens, the last of which ends it.
func Words(p *pb.Prompt, reason string, words ...string) (out []*pb.Chunk) {
	for i, w := range words {
		c := &pb.Chunk{RequestId: p.RequestId, Index: int32(i), Text: w, TokenIds: []uint32{uint32(i + 10)}, Seed: p.GetSeed()}
		if p.Logprobs != nil {
			top := []*pb.TokenLogprob{{Id: uint32(i + 10), Logprob: -0.5, Token: []byte(w)}, {Id: 7, Logprob: -2, Token: []byte{0xe2, 0x82}}}
			c.Logprobs = []*pb.TokenLogprobs{{Index: int32(i), Chosen: top[0], Top: top[:max(0, min(2, *p.Logprobs))]}}
		}
		out = append(out, c)
	}
	last := out[len(out)-1]
	last.FinishReason, last.Usage = reason, &pb.Usage{PromptTokens: 3, CompletionTokens: int32(len(words))}
	return out
}

// bos begins texts.
const bos = "<s>"

// Models returns the one.
func (u *Upstream) Models() []upstream.Model { return []upstream.Model{u.model()} }

func (u *Upstream) model() upstream.Model {
	m := Model()
	m.Text, m.Chat, m.Ready = !u.Bare, !u.Bare, u.Unready == nil
	if u.Special {
		m.BOS = bos
	}
	m.Secret = cmp.Or(u.Secret, m.Secret)
	return m
}

// Find knows demo.
func (u *Upstream) Find(_ context.Context, name string, toAsk bool) (upstream.Model, error) {
	if name != "demo" && name != "org/demo" {
		return upstream.Model{}, &client.Error{Code: client.CodeModelNotFound, Message: "The model does not exist"}
	}
	if toAsk && u.Unready != nil {
		return u.model(), &client.Error{Code: client.CodeModelNotReady, Message: "no token can flow in model demo now; ask again"}
	}
	return u.model(), nil
}

// Ask answers.
func (u *Upstream) Ask(ctx context.Context, to upstream.To, p *pb.Prompt) upstream.Chunks {
	if to.Allowed != nil {
		to.Allowed(u.Allowance)
	}
	u.mu.Lock()
	u.prompts, u.tos = append(u.prompts, proto.CloneOf(p)), append(u.tos, to)
	u.mu.Unlock()
	u.keep(to, p)
	return u.tell(ctx, p, 0)
}

func (u *Upstream) tell(ctx context.Context, p *pb.Prompt, from int32) upstream.Chunks {
	return func(yield func(*pb.Chunk, error) bool) {
		answer := u.Answer
		if answer == nil {
			answer = func(p *pb.Prompt) []*pb.Chunk { return Words(p, "stop", "Hello", " wor", "ld") }
		}
		chunks := answer(p)
		for i, c := range chunks {
			if from > 0 && c.Index < from {
				continue
			}
			if last := i == len(chunks)-1; last && !u.wait(ctx) {
				yield(nil, &client.Error{Code: client.CodeCancelled, Message: "cancelled", Cause: context.Cause(ctx)})
				return
			} else if last && u.Fails != nil {
				yield(nil, u.Fails)
				return
			}
			if !yield(c, nil) {
				u.note(&u.left)
				return
			}
		}
	}
}

// wait reports whether the last chunk may go.
func (u *Upstream) wait(ctx context.Context) bool {
	if u.Holds == nil {
		return ctx.Err() == nil
	}
	select {
	case <-u.Holds:
		return true
	case <-ctx.Done():
		u.note(&u.left)
		return false
	}
}

func (u *Upstream) note(n *int) {
	u.mu.Lock()
	*n++
	u.mu.Unlock()
}

// Accept keeps a prompt.
func (u *Upstream) Accept(_ context.Context, to upstream.To, p *pb.Prompt) error {
	u.keep(to, p)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tos = append(u.tos, to)
	return nil
}

// Replay answers what was accepted.
func (u *Upstream) Replay(ctx context.Context, to upstream.To, request string, from int32) upstream.Chunks {
	p := u.of(to, request)
	if p == nil {
		return func(yield func(*pb.Chunk, error) bool) { yield(nil, errUnknown) }
	}
	return u.tell(ctx, p, from)
}

var errUnknown = &client.Error{Code: client.CodeBadRequest, Message: "request_id is unknown; requests are kept for 2h"}

// Forget keeps a request no longer.
func (u *Upstream) Forget(_ context.Context, to upstream.To, request string) error {
	if u.of(to, request) == nil {
		return errUnknown
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.accepted, request)
	return nil
}

// Cancel notes a cancellation of a tenant's own request.
func (u *Upstream) Cancel(to upstream.To, request string) error {
	if u.of(to, request) == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancelled = append(u.cancelled, request)
	return nil
}

// Tokens makes an id of each word, and a word of each id.
func (u *Upstream) Tokens(_ context.Context, _ string, p *pb.Prompt) (*pb.Tokens, error) {
	if u.Bare {
		return nil, &client.Error{Code: client.CodeBadRequest, Message: "the model has no tokenizer"}
	}
	u.mu.Lock()
	u.tokenized = append(u.tokenized, proto.CloneOf(p))
	u.mu.Unlock()
	out := &pb.Tokens{Ids: p.InputIds}
	if u.Special && p.Text != "" {
		out.Ids, out.Pieces = []uint32{99}, [][]byte{[]byte(bos)}
	}
	for i, w := range strings.SplitAfter(p.Text, " ") {
		if w != "" {
			out.Ids, out.Pieces, out.Text = append(out.Ids, uint32(i+1)), append(out.Pieces, []byte(w)), out.Text+w
		}
	}
	for _, id := range p.InputIds {
		if piece, has := u.Pieces[id]; has {
			out.Pieces, out.Text = append(out.Pieces, []byte(piece)), out.Text+piece
			continue
		}
		out.Pieces, out.Text = append(out.Pieces, []byte("w ")), out.Text+"w "
	}
	for i := range p.Messages {
		out.Ids = append(out.Ids, uint32(i+1))
	}
	return out, nil
}

// Count returns how many ids Tokens has.
func (u *Upstream) Count(ctx context.Context, model string, p *pb.Prompt) (int32, error) {
	t, err := u.Tokens(ctx, model, p)
	return int32(len(t.GetIds())), err
}

// Ready reports whether it is.
func (u *Upstream) Ready() error { return u.Unready }

// Asked returns the prompts that came, and to whom.
func (u *Upstream) Asked() ([]*pb.Prompt, []upstream.To) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*pb.Prompt(nil), u.prompts...), append([]upstream.To(nil), u.tos...)
}

// Tokenized returns the prompts whose ids were asked for.
func (u *Upstream) Tokenized() []*pb.Prompt {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*pb.Prompt(nil), u.tokenized...)
}

// Cancelled returns the requests that were.
func (u *Upstream) Cancelled() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.cancelled...)
}

// Left returns how many readers left before the end.
func (u *Upstream) Left() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left
}

// Said returns the chunks of an answer with these tokens, thoughts and calls told apart as a
// tokenizer does of a prompt that asks for it.
func Said(p *pb.Prompt, reason string, words ...string) []*pb.Chunk {
	chunks := Words(p, reason, words...)
	if !p.Parse {
		return chunks
	}
	syntax := calls.Find(nil, func(string) (uint32, bool) { return 0, false })
	r := syntax.Read(calls.Options{Request: p.RequestId, Tools: p.Tools != ""})
	for i, c := range chunks {
		r.Text(c.Text)
		if i == len(chunks)-1 {
			r.End(reason != "stop")
		}
		said := r.Take()
		c.Text = said.Content
		if said.Reasoning != "" || len(said.Calls) > 0 {
			c.Parsed = &pb.Parsed{ReasoningContent: said.Reasoning}
		}
		for _, call := range said.Calls {
			c.Parsed.ToolCalls = append(c.Parsed.ToolCalls, &pb.ToolCall{Index: int32(call.Index), Id: call.ID, Name: call.Name, Arguments: call.Arguments})
		}
	}
	return chunks
}
