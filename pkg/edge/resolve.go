package edge

import (
	"crypto/sha256"
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/model"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// DefaultMaxTokens is how many tokens are generated when neither the request
// nor the model says; less when the context ends before.
const DefaultMaxTokens = 128

// Bounds of what a request may ask for.
const (
	maxStops       = 16
	maxStopBytes   = 1024
	maxStopIDs     = 1024
	maxLogprobs    = 20
	maxTemperature = 100
	maxPenalty     = 100
)

// Model is what checking a request needs to know.
type Model struct {
	Vocab int
	// MaxLen bounds prompt and generated tokens together.
	MaxLen     int
	EOS        []uint32
	Generation model.Generation
	// EncodeText and EncodeChat make ids; nil if the model has no tokenizer or no chat template.
	EncodeText func(text string) ([]uint32, error)
	EncodeChat func(messages []*pb.ChatMessage) ([]uint32, error)
}

// Request is a checked and completed prompt.
type Request struct {
	Sequence *pb.Sequence
	Stop     []string
	// Deadline is what remains of the time that the request may take; 0: no limit.
	Deadline time.Duration
}

// Resolve checks a prompt and fills in what it leaves open, but for a missing
// seed, which is seed. Errors are *Error.
func (m Model) Resolve(p *pb.Prompt, now time.Time, seed uint32) (*Request, error) {
	for _, check := range []func(*pb.Prompt) error{checkOneInput, checkSampling, checkStops, m.checkIDs} {
		if err := check(p); err != nil {
			return nil, err
		}
	}
	ids, err := m.encode(p)
	if err != nil {
		return nil, err
	}
	maxTokens, err := m.maxTokens(p, len(ids))
	if err != nil {
		return nil, err
	}
	deadline, err := parseDeadline(p.Deadline, now)
	if err != nil {
		return nil, err
	}
	return &Request{Stop: p.Stop, Deadline: deadline, Sequence: &pb.Sequence{
		RequestId: p.RequestId, PromptIds: ids, Sampling: m.sampling(p, seed), MaxTokens: int32(maxTokens),
		StopTokenIds: m.stopIDs(p), Score: p.Score,
	}}, nil
}

func checkOneInput(p *pb.Prompt) error {
	n := 0
	for _, given := range []bool{p.Text != "", len(p.Messages) > 0, len(p.InputIds) > 0} {
		if given {
			n++
		}
	}
	switch {
	case n == 0:
		return Errorf(BadPrompt, "the prompt is empty: set text, messages or input_ids")
	case n > 1:
		return Errorf(BadRequest, "text, messages and input_ids exclude each other; %d of them are set", n)
	case !utf8.ValidString(p.Text):
		return Errorf(BadPrompt, "text is not UTF-8: byte %d is invalid", invalidAt([]byte(p.Text)))
	}
	return nil
}

// number is a field that has to lie within bounds.
type number struct {
	name     string
	set      bool
	value    float64
	min, max float64
}

func checkSampling(p *pb.Prompt) error {
	for _, n := range []number{
		{"temperature", p.Temperature != nil, p.GetTemperature(), 0, maxTemperature},
		{"top_p", p.TopP != nil, p.GetTopP(), math.SmallestNonzeroFloat32, 1},
		{"top_k", p.TopK != nil, float64(p.GetTopK()), 0, math.MaxInt32},
		{"repetition_penalty", p.RepetitionPenalty != nil, p.GetRepetitionPenalty(), 1.0 / maxPenalty, maxPenalty},
		{"logprobs", p.Logprobs != nil, float64(p.GetLogprobs()), 0, maxLogprobs},
		{"from_index", true, float64(p.FromIndex), 0, math.MaxInt32},
	} {
		// Written so that NaN fails.
		if n.set && !(n.value >= n.min && n.value <= n.max) {
			return Errorf(BadRequest, "%s is %v; it must be a number from %.4g to %.10g", n.name, n.value, n.min, n.max)
		}
	}
	switch p.Score {
	case "", "logprobs", "logits":
		return nil
	}
	return Errorf(BadRequest, `score is %q; it must be "logprobs" or "logits"`, p.Score)
}

func checkStops(p *pb.Prompt) error {
	if len(p.Stop) > maxStops {
		return Errorf(BadRequest, "stop has %d strings; at most %d are allowed", len(p.Stop), maxStops)
	}
	if len(p.StopTokenIds) > maxStopIDs {
		return Errorf(BadRequest, "stop_token_ids has %d ids; at most %d are allowed", len(p.StopTokenIds), maxStopIDs)
	}
	for i, s := range p.Stop {
		if s == "" || len(s) > maxStopBytes {
			return Errorf(BadRequest, "stop[%d] has %d bytes; it must have 1 to %d", i, len(s), maxStopBytes)
		}
	}
	return nil
}

func (m Model) checkIDs(p *pb.Prompt) error {
	for _, list := range []struct {
		name string
		ids  []uint32
	}{{"input_ids", p.InputIds}, {"stop_token_ids", p.StopTokenIds}} {
		for i, id := range list.ids {
			if int64(id) >= int64(m.Vocab) {
				return Errorf(BadRequest, "%s[%d] is %d; the vocabulary has %d tokens", list.name, i, id, m.Vocab)
			}
		}
	}
	return nil
}

func (m Model) encode(p *pb.Prompt) (ids []uint32, err error) {
	switch {
	case len(p.InputIds) > 0:
		return p.InputIds, nil
	case m.EncodeText == nil:
		return nil, Errorf(BadRequest, "the model has no tokenizer; send input_ids")
	case len(p.Messages) == 0:
		ids, err = m.EncodeText(p.Text)
	case m.EncodeChat == nil:
		return nil, Errorf(BadRequest, "the model has no chat template; send text instead of messages")
	default:
		ids, err = m.EncodeChat(p.Messages)
	}
	if err != nil {
		return nil, Errorf(BadPrompt, "the prompt cannot be tokenized: %v", err)
	}
	if len(ids) == 0 {
		return nil, Errorf(BadPrompt, "the prompt has no tokens")
	}
	return ids, nil
}

func (m Model) maxTokens(p *pb.Prompt, prompt int) (int, error) {
	least, room := 1, m.MaxLen-prompt
	if p.Score != "" {
		least = 0
	}
	if room < least {
		return 0, Errorf(BadPrompt, "the prompt has %d tokens; the context holds %d with at least %d to generate", prompt, m.MaxLen, least)
	}
	if p.MaxTokens == nil {
		want := DefaultMaxTokens
		if m.Generation.MaxNewTokens > 0 {
			want = m.Generation.MaxNewTokens
		}
		return min(want, room), nil
	}
	n := int(*p.MaxTokens)
	if n < least || n > room {
		return 0, Errorf(BadRequest, "max_tokens is %d; with a prompt of %d tokens in a context of %d it must be %d to %d",
			n, prompt, m.MaxLen, least, room)
	}
	return n, nil
}

func parseDeadline(text string, now time.Time) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, Errorf(BadRequest, "deadline %q is not RFC 3339, such as 2030-01-02T15:04:05Z", text)
	}
	left := at.Sub(now)
	switch {
	case left <= 0:
		return 0, Errorf(DeadlineExceeded, "the deadline %s has passed: it is %s here", text, now.UTC().Format(time.RFC3339Nano))
	case left > schemas.MaxDeadline:
		return 0, Errorf(BadRequest, "the deadline %s is %v away; at most %v are allowed", text, left.Round(time.Second), schemas.MaxDeadline)
	}
	// It travels in milliseconds, of which none would mean no limit.
	return max(left, time.Millisecond), nil
}

// sampling resolves the request's settings over the model's over greedy.
func (m Model) sampling(p *pb.Prompt, seed uint32) *pb.Sampling {
	g := m.Generation
	s := &pb.Sampling{TopP: float32(g.TopP), TopK: int32(g.TopK), RepetitionPenalty: float32(g.RepetitionPenalty), Logprobs: -1, Seed: seed}
	if g.DoSample {
		s.Temperature = float32(g.Temperature)
	}
	if p.Temperature != nil {
		s.Temperature = float32(*p.Temperature)
	}
	if p.TopP != nil {
		s.TopP = float32(*p.TopP)
	}
	if p.TopK != nil {
		s.TopK = *p.TopK
	}
	if p.RepetitionPenalty != nil {
		s.RepetitionPenalty = float32(*p.RepetitionPenalty)
	}
	if p.Logprobs != nil {
		s.Logprobs = *p.Logprobs
	}
	if p.Seed != nil {
		s.Seed = *p.Seed
	}
	return s
}

func (m Model) stopIDs(p *pb.Prompt) []uint32 {
	ids := append([]uint32(nil), p.StopTokenIds...)
	if !p.IgnoreEos {
		ids = append(ids, m.EOS...)
	}
	return ids
}

// BodyHash is what makes two prompts under one id the same request: everything
// but where and from which index the answer goes.
func BodyHash(p *pb.Prompt) ([]byte, error) {
	c, _ := proto.Clone(p).(*pb.Prompt)
	c.RequestId, c.ReplyTo, c.FromIndex = "", "", 0
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return nil, Errorf(BadRequest, "the prompt cannot be encoded: %v", err)
	}
	sum := sha256.Sum256(body)
	return sum[:], nil
}
