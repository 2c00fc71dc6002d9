package edge

import (
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/calls"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// DefaultMaxTokens is how many tokens are generated behind a text when neither the request
// nor the model says; less when the context ends before.
const DefaultMaxTokens = 128

// Bounds of what a request may ask for.
const (
	maxStops     = 16
	maxStopBytes = 1024
	maxStopIDs   = 1024
)

// Model is what checking a request needs to know.
type Model struct {
	Vocab int
	// MaxLen bounds prompt and generated tokens together.
	MaxLen     int
	EOS        []uint32
	Generation model.Generation
	// Task is what becomes of a prompt. An encoder tells Types segments apart; Mask
	// is the token whose places are filled, Start what a decoder that answers
	// begins with; they are -1 where that is not known.
	Task        model.Task
	Types       int
	Mask, Start int
	// MaxTokenBytes is the most bytes of a prompt's text that one token stands for; 0: unknown.
	MaxTokenBytes int
	// OwnExperts says that no expert stands in for another one in a brownout, where the prompt
	// does not say.
	OwnExperts bool
	// EncodeText and EncodeChat make ids; nil if the model has no tokenizer or no chat template.
	// With special, special tokens in what the producer wrote count; else they are text.
	EncodeText func(text string, special bool) ([]uint32, error)
	EncodeChat func(p *pb.Prompt, now time.Time, special bool) ([]uint32, error)
	// EncodeLong is EncodeChat of chats that no context has to hold; nil: there is none such.
	EncodeLong func(p *pb.Prompt, now time.Time, special bool) ([]uint32, error)
	// DecodeIDs is the text of ids, and Calls how the model writes calls; nil if it has no tokenizer.
	DecodeIDs func(ids []uint32) string
	Calls     *calls.Syntax
	// Grammars remembers which of them can be kept; nil: each is compiled.
	Grammars *grammar.Checked
}

// Request is a checked and completed prompt.
type Request struct {
	Sequence *pb.Sequence
	Stop     []string
	// Parse is how the answer is parsed; nil: all of it is text.
	Parse *pb.Parse
	// Deadline is what remains of the time that the request may take; 0: no limit.
	Deadline time.Duration
}

// Resolve checks a prompt and fills in what it leaves open, but for a missing
// seed, which is seed. Errors are *Error.
func (m Model) Resolve(p *pb.Prompt, now time.Time, seed uint32) (*Request, error) {
	if err := m.Check(p); err != nil {
		return nil, err
	}
	deadline, err := parseDeadline(p.Deadline, now)
	if err != nil {
		return nil, err // before its tokens are made: nobody waits for them
	}
	if err := m.checkGrammar(p); err != nil {
		return nil, err
	}
	asked, err := m.checkCalls(p)
	if err != nil {
		return nil, err
	}
	ids, err := m.encode(p, now)
	if err != nil {
		return nil, err
	}
	seq, err := m.prompt(p, ids)
	if err != nil {
		return nil, err
	}
	maxTokens, err := m.maxTokens(p, seq)
	if err != nil {
		return nil, err
	}
	seq.Grammar, seq.OwnExperts = p.Grammar, m.HasOwnExperts(p)
	seq.RequestId, seq.Sampling, seq.MaxTokens, seq.Score = p.RequestId, m.sampling(p, seed), int32(maxTokens), p.Score
	if m.Task != model.Fill {
		seq.StopTokenIds = m.stopIDs(p)
	}
	if err := m.checkMinTokens(seq); err != nil {
		return nil, err
	}
	parse, err := m.call(p, asked, seq)
	if err != nil {
		return nil, err
	}
	return &Request{Stop: p.Stop, Deadline: deadline, Sequence: seq, Parse: parse}, nil
}

// HasOwnExperts reports whether no other expert may stand in for one of a prompt's in a brownout.
func (m Model) HasOwnExperts(p *pb.Prompt) bool {
	return p.Brownout == never || p.Brownout == "" && m.OwnExperts
}

// Check finds what is wrong with a prompt as far as its tokens need not be
// known. It takes much less time than making them. The error is an *Error.
func (m Model) Check(p *pb.Prompt) error {
	for _, check := range []func(*pb.Prompt) error{checkOneInput, m.checkSize, checkSampling, checkBrownout, m.checkTaskSampling, m.checkStops, m.checkIDs, m.checkBias} {
		if err := check(p); err != nil {
			return err
		}
	}
	return nil
}

// checkSize finds what is too long whatever its tokens are, before any work is
// spent on it.
func (m Model) checkSize(p *pb.Prompt) error {
	switch {
	case len(p.InputIds) > m.MaxLen:
		return Errorf(BadPrompt, "the prompt has %d tokens; the context holds %d", len(p.InputIds), m.MaxLen)
	case len(p.Messages) > m.MaxLen:
		return Errorf(BadPrompt, "the prompt has %d messages; the context holds %d tokens", len(p.Messages), m.MaxLen)
	}
	return m.CheckText(p.Text)
}

// CheckText finds a text that has more bytes than as many tokens as the context
// holds can stand for.
func (m Model) CheckText(text string) error {
	if most := m.MaxLen * m.MaxTokenBytes; m.MaxTokenBytes > 0 && len(text) > most {
		return Errorf(BadPrompt, "the prompt has %d bytes; the context holds %d tokens of at most %d bytes, which is %d bytes", len(text), m.MaxLen, m.MaxTokenBytes, most)
	}
	return nil
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
	case len(p.Messages) == 0 && (p.Tools != "" || p.ChatTemplateKwargs != "" || p.ContinueFinal):
		return Errorf(BadRequest, "tools, chat_template_kwargs and continue_final are for the chat template: they need messages")
	}
	return nil
}

// What a prompt says of brownouts.
const (
	allow = "allow"
	never = "never"
)

func checkBrownout(p *pb.Prompt) error {
	switch p.Brownout {
	case "", allow, never:
		return nil
	}
	return Errorf(BadRequest, `brownout is %.40q; it must be "allow" (other experts may stand in for some) or "never"`, p.Brownout)
}

func (m Model) checkStops(p *pb.Prompt) error {
	if len(p.Stop) > 0 && m.EncodeText == nil {
		return Errorf(BadRequest, "stop is set; the model has no tokenizer, so its answers have no text: send stop_token_ids")
	}
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
	}{{"input_ids", p.InputIds}, {"stop_token_ids", p.StopTokenIds}, {"decoder_input_ids", p.DecoderInputIds}} {
		for i, id := range list.ids {
			if int64(id) >= int64(m.Vocab) {
				return Errorf(BadRequest, "%s[%d] is %d; the vocabulary has %d tokens", list.name, i, id, m.Vocab)
			}
		}
	}
	return nil
}

func (m Model) encode(p *pb.Prompt, now time.Time) (ids []uint32, err error) {
	switch {
	case len(p.InputIds) > 0:
		return p.InputIds, nil
	case m.EncodeText == nil:
		return nil, Errorf(BadRequest, "the model has no tokenizer; send input_ids")
	case len(p.Messages) == 0:
		ids, err = m.EncodeText(p.Text, p.SpecialTokens)
	case m.EncodeChat == nil:
		return nil, Errorf(BadRequest, "the model has no chat template; send text instead of messages")
	default:
		ids, err = m.EncodeChat(p, now, p.SpecialTokens)
	}
	var typed *Error
	switch {
	case errors.As(err, &typed):
		return nil, typed
	case err != nil:
		return nil, Errorf(BadPrompt, "the prompt cannot be tokenized: %v", err)
	}
	if len(ids) == 0 {
		return nil, Errorf(BadPrompt, "the prompt has no tokens")
	}
	return ids, nil
}

func (m Model) maxTokens(p *pb.Prompt, s *pb.Sequence) (int, error) {
	if m.Task == model.Fill {
		return m.fills(p, len(s.Fill))
	}
	prompt := len(s.PromptIds) - int(s.Source)
	least, room := 1, m.MaxLen-prompt
	if p.Score != "" {
		least = 0
	}
	if room < least {
		return 0, Errorf(BadPrompt, "the prompt has %d tokens; the context holds %d with at least %d to generate", prompt, m.MaxLen, least)
	}
	if p.MaxTokens == nil {
		want := DefaultMaxTokens
		switch {
		case m.Generation.MaxNewTokens > 0:
			want = m.Generation.MaxNewTokens
		case len(p.Messages) > 0:
			want = room // as chats have it elsewhere: an answer ends by itself
		}
		return min(want, room), nil
	}
	n := int(*p.MaxTokens)
	if n < least {
		return 0, Errorf(BadRequest, "max_tokens is %d; it must be %d or more", n, least)
	}
	if n > room {
		return 0, Errorf(BadRequest, "max_tokens is %d; with a prompt of %d tokens in a context of %d it must be %d to %d",
			n, prompt, m.MaxLen, least, room)
	}
	return n, nil
}

func parseDeadline(text string, now time.Time) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339, strings.ToUpper(text)) // its letters may be small ones
	if err != nil {
		return 0, Errorf(BadRequest, "deadline %.40q is not RFC 3339, such as 2030-01-02T15:04:05Z", text)
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
	c := &pb.Prompt{} // shares p's fields: they may be large
	p.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		c.ProtoReflect().Set(field, v)
		return true
	})
	c.RequestId, c.ReplyTo, c.FromIndex = "", "", 0
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
	if err != nil {
		return nil, Errorf(BadRequest, "the prompt cannot be encoded: %v", err)
	}
	sum := sha256.Sum256(body)
	return sum[:], nil
}
