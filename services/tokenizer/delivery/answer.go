package delivery

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/request/calls"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// answer turns the records of one request into its chunks. It is a pure
// function of the records in their order; nothing else decides what a chunk
// contains.
type answer struct {
	request string
	accept  *pb.Accept
	detok   Detokenizer
	stops   *tokenizer.StopMatcher
	parser  *calls.Reader // nil: all is text

	tokens   int32    // taken in
	reasoned int32    // of these, thoughts
	cost     *pb.Cost // of the newest token that has come; nil: none has said any
	degraded *pb.Degraded
	cached   int32 // of the prompt's tokens
	filled   int   // of the prompt whose places tokens fill: what has been shown
	last     *pb.Chunk
	stopped  bool // by a stop string: what follows is not shown
	finished bool
	cut      bool // its producer's stream ended early: a chunk was too large
}

// Detokenizer is tokenizer.Detokenizer's part that is needed; a model without
// a tokenizer has none.
type Detokenizer interface {
	Push(id uint32) string
	Flush() string
	// Piece is the bytes of one id, whatever is before it; nil: it has none.
	Piece(id uint32) []byte
}

// NoText is the Detokenizer of a model without a tokenizer.
type NoText struct{}

// Push makes no text of a token.
func (NoText) Push(uint32) string { return "" }

// Flush has none left.
func (NoText) Flush() string { return "" }

// Piece is of no id.
func (NoText) Piece(uint32) []byte { return nil }

func newAnswer(request string, accept *pb.Accept, d Detokenizer) *answer {
	return &answer{request: request, accept: accept, detok: d, stops: tokenizer.NewStopMatcher(accept.Stop)}
}

// push takes the next record in and returns the chunk that it completes, or nil.
func (a *answer) push(r *pb.Record) *pb.Chunk {
	if a.finished {
		return nil
	}
	switch k := r.Kind.(type) {
	case *pb.Record_Score:
		return a.score(k.Score)
	case *pb.Record_Token:
		return a.token(k.Token)
	case *pb.Record_Terminal:
		a.finished = true
		return a.end(k.Terminal)
	}
	return nil
}

func (a *answer) chunk(index int32) *pb.Chunk {
	return &pb.Chunk{RequestId: a.request, Index: index, Seed: a.accept.Seed}
}

// score chunks come before token 0: position p of a prompt of n tokens has the
// index p-n, so that every chunk has an index of its own.
func (a *answer) score(s *pb.Score) *pb.Chunk {
	c := a.chunk(s.Position - a.accept.PromptTokens)
	c.Score = s
	if len(s.Top) > 0 {
		c.Score = &pb.Score{Position: s.Position, Logprob: s.Logprob, Logits: s.Logits, Hidden: s.Hidden, Top: a.named(s.Top...)}
	}
	return c
}

// named are candidates with the bytes that they stand for. The log's own stay as they are.
func (a *answer) named(all ...*pb.TokenLogprob) []*pb.TokenLogprob {
	out := make([]*pb.TokenLogprob, len(all))
	for i, t := range all {
		out[i] = &pb.TokenLogprob{Id: t.GetId(), Logprob: t.GetLogprob(), Token: a.detok.Piece(t.GetId())}
	}
	return out
}

func (a *answer) token(t *pb.Token) *pb.Chunk {
	a.cost, a.degraded = cmp.Or(t.Cost, a.cost), cmp.Or(t.Degraded, a.degraded)
	if a.stopped || t.Index != a.tokens {
		return nil
	}
	a.tokens++
	a.cached += t.Cached // only token 0 has some
	c := a.chunk(t.Index)
	c.TokenIds = []uint32{t.Id}
	if t.Logprobs != nil {
		c.Logprobs = []*pb.TokenLogprobs{{Index: t.Logprobs.Index, Chosen: a.named(t.Logprobs.Chosen)[0], Top: a.named(t.Logprobs.Top...)}}
	}
	if !t.Stop {
		a.say(c, t)
	}
	// The last token's chunk is the last chunk: it waits for the terminal
	// record, so that its index never carries two different contents.
	if t.Stop || a.stopped || a.tokens == a.accept.MaxTokens {
		a.last = c
		return nil
	}
	return c
}

// show is what of a text can be shown, and whether a stop string ends the answer. One that the
// first min_tokens tokens complete is text.
func (a *answer) show(text string) (shown string, stopped bool) {
	if a.tokens <= a.accept.MinTokens {
		return a.stops.Pass(text), false
	}
	return a.stops.Push(text)
}

// text is what a token adds: its own text, behind that of the prompt before the
// place that it fills.
func (a *answer) text(t *pb.Token) string {
	if len(a.accept.Fill) == 0 {
		return a.detok.Push(t.Id)
	}
	place := int(a.accept.Fill[t.Index])
	text := a.upTo(place) + a.detok.Push(t.Id)
	a.filled = place + 1
	return text
}

// upTo is the text of a filled prompt from what has been shown to a place.
func (a *answer) upTo(place int) (text string) {
	for ; a.filled < place; a.filled++ {
		text += a.detok.Push(a.accept.FilledIds[a.filled])
	}
	return text
}

// rest is what is left to show at the end.
func (a *answer) rest(t *pb.Terminal) (text string) {
	if t.FinishReason == "stop" || t.FinishReason == "length" {
		text = a.upTo(len(a.accept.FilledIds))
	}
	return text + a.detok.Flush()
}

// end makes the last chunk. A request that ended early has no token for it; it
// then has the index after the last one, or that of a refusal where it is not known which
// chunks its producer has got.
func (a *answer) end(t *pb.Terminal) *pb.Chunk {
	c := a.last
	if c == nil {
		c = a.chunk(a.tokens)
	}
	if a.accept.Lost {
		c.Index = -1
	}
	c.FinishReason, c.Error, c.Timings = t.FinishReason, t.Error, t.Timings
	if a.stopped {
		c.FinishReason, c.Error = "stop", nil
		a.finish(c, "")
	} else {
		a.finish(c, a.rest(t))
	}
	if a.accept.MixedClasses {
		c.MixedClasses = proto.Bool(true)
	}
	c.Usage = a.usage(t)
	if c.Timings == nil {
		c.Timings = &pb.Timings{}
	}
	return c
}

// usage is what the request took. A request that was stopped by its text has had rows
// computed behind that, too.
func (a *answer) usage(t *pb.Terminal) *pb.Usage {
	u := &pb.Usage{PromptTokens: a.accept.PromptTokens, CompletionTokens: a.tokens}
	if c := cmp.Or(t.Cost, a.cost); c != nil {
		u.ExpertGbS, u.ColdStarts = &c.ExpertGbS, &c.ColdStarts
	}
	if a.cached > 0 {
		u.CachedTokens = new(min(a.cached, a.accept.PromptTokens))
	}
	if a.parser != nil {
		u.ReasoningTokens = new(a.reasoned)
	}
	if d := cmp.Or(t.Degraded, a.degraded); d != nil {
		lowest := float64(d.LowestMillionths) / brownout.One
		u.DegradedRows, u.DegradedTokens, u.LowestThreshold, u.UnitedWay = &d.Rows, &d.Tokens, &lowest, &d.Way
	}
	return u
}

// parseAs has thoughts and calls told apart from the text, if the request asked for that. Stop
// strings are looked for in what is left as text.
func (a *answer) parseAs(s *calls.Syntax) {
	p := a.accept.Parse
	if p == nil || s == nil {
		return
	}
	show := a.showContent
	if p.Forced {
		show = func(string, bool) (string, bool) { return "", false } // of a call that was cut
	}
	a.parser = s.Read(calls.Options{Request: a.request, Tools: p.Tools, Single: p.Single, Begun: p.Begun, Show: show})
}

// showContent is show for a piece of content; no stop string goes on behind the last one.
func (a *answer) showContent(text string, last bool) (shown string, stopped bool) {
	if shown, stopped = a.show(text); last {
		shown += a.stops.Flush()
	}
	return shown, stopped
}

// say adds what a token says to its chunk.
func (a *answer) say(c *pb.Chunk, t *pb.Token) {
	if a.parser == nil {
		c.Text, a.stopped = a.show(a.text(t))
		return
	}
	if a.parser.Thinking() {
		a.reasoned++
	}
	if mark := a.parser.MarkOf(t.Id); mark == "" {
		a.parser.Text(a.text(t))
	} else {
		a.parser.Text(a.detok.Flush())
		a.parser.Mark(mark)
	}
	a.stopped = a.parser.Over()
	a.tell(c)
}

// tell adds what was parsed to a chunk.
func (a *answer) tell(c *pb.Chunk) {
	said := a.parser.Take()
	c.Text += said.Content
	if said.Reasoning == "" && len(said.Calls) == 0 {
		return
	}
	if c.Parsed == nil {
		c.Parsed = &pb.Parsed{}
	}
	p := c.Parsed
	p.ReasoningContent += said.Reasoning
	for _, call := range said.Calls {
		if n := len(p.ToolCalls); n > 0 && p.ToolCalls[n-1].Index == int32(call.Index) {
			p.ToolCalls[n-1].Arguments += call.Arguments
			continue
		}
		p.ToolCalls = append(p.ToolCalls, &pb.ToolCall{Index: int32(call.Index), Id: call.ID, Name: call.Name, Arguments: call.Arguments})
	}
}

// finish adds the rest of the text to the last chunk.
func (a *answer) finish(c *pb.Chunk, rest string) {
	if a.parser == nil {
		shown, _ := a.show(rest)
		c.Text += shown + a.stops.Flush()
		return
	}
	a.parser.Text(rest)
	a.parser.End(c.FinishReason != "stop")
	a.tell(c)
}
