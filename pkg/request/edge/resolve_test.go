package edge

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/model"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// demo has a tokenizer that makes every byte a token; "!" cannot be encoded,
// and spaces have no token.
func demo() Model {
	encode := func(text string, _ bool) (ids []uint32, err error) {
		for _, b := range []byte(text) {
			switch b {
			case '!':
				return nil, errors.New("no token for '!'")
			case ' ':
			default:
				ids = append(ids, uint32(b))
			}
		}
		return ids, nil
	}
	return Model{
		Vocab: 256, MaxLen: 64, MaxTokenBytes: 3, EOS: []uint32{2}, Generation: model.DefaultGeneration(), EncodeText: encode,
		EncodeChat: func(p *pb.Prompt, _ time.Time, special bool) ([]uint32, error) {
			ids := []uint32{1}
			for _, m := range p.Messages {
				more, err := encode(m.Role+":"+m.GetContent(), special)
				if err != nil {
					return nil, err
				}
				ids = append(ids, more...)
			}
			return ids, nil
		},
	}
}

func prompt(change func(*pb.Prompt)) *pb.Prompt {
	p := &pb.Prompt{Text: "hello"}
	change(p)
	return p
}

func allIDs(n uint32) (ids []uint32) {
	for id := range n {
		ids = append(ids, id)
	}
	return ids
}

func double(v float64) *float64 { return &v }
func integer(v int32) *int32    { return &v }

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*pb.Prompt)
		code   Code
		says   string
	}{
		{"empty", func(p *pb.Prompt) { p.Text = "" }, BadPrompt, "empty"},
		{"two inputs", func(p *pb.Prompt) { p.InputIds = []uint32{1} }, BadRequest, "exclude"},
		{"no tokens", func(p *pb.Prompt) { p.Text = "  " }, BadPrompt, "no tokens"},
		{"tools of a text", func(p *pb.Prompt) { p.Tools = "[]" }, BadRequest, "need messages"},
		{"a text that goes on", func(p *pb.Prompt) { p.ContinueFinal = true }, BadRequest, "need messages"},
		{"variables of a text", func(p *pb.Prompt) { p.ChatTemplateKwargs = "{}" }, BadRequest, "need messages"},
		{"untokenizable", func(p *pb.Prompt) { p.Text = "!" }, BadPrompt, "tokenized"},
		{"over the context", func(p *pb.Prompt) { p.Text = strings.Repeat("a", 65) }, BadPrompt, "65 tokens"},
		{"fills the context", func(p *pb.Prompt) { p.Text = strings.Repeat("a", 64) }, BadPrompt, "context holds 64"},
		{"unknown id", func(p *pb.Prompt) { p.Text, p.InputIds = "", []uint32{1, 256} }, BadRequest, "input_ids[1]"},
		{"huge id", func(p *pb.Prompt) { p.Text, p.InputIds = "", []uint32{math.MaxUint32} }, BadRequest, "input_ids[0]"},
		{"unknown stop id", func(p *pb.Prompt) { p.StopTokenIds = []uint32{999} }, BadRequest, "stop_token_ids[0]"},
		{"many stop ids", func(p *pb.Prompt) { p.StopTokenIds = make([]uint32, 1025) }, BadRequest, "stop_token_ids"},
		{"max_tokens 0", func(p *pb.Prompt) { p.MaxTokens = integer(0) }, BadRequest, "max_tokens is 0"},
		{"max_tokens negative", func(p *pb.Prompt) { p.MaxTokens = integer(math.MinInt32) }, BadRequest, "max_tokens"},
		{"max_tokens huge", func(p *pb.Prompt) { p.MaxTokens = integer(math.MaxInt32) }, BadRequest, "max_tokens is 2147483647"},
		{"max_tokens over the room", func(p *pb.Prompt) { p.MaxTokens = integer(60) }, BadRequest, "1 to 59"},
		{"temperature NaN", func(p *pb.Prompt) { p.Temperature = double(math.NaN()) }, BadRequest, "temperature is NaN"},
		{"temperature negative", func(p *pb.Prompt) { p.Temperature = double(-0.1) }, BadRequest, "temperature is -0.1"},
		{"temperature infinite", func(p *pb.Prompt) { p.Temperature = double(math.Inf(1)) }, BadRequest, "temperature"},
		{"more bytes than fit", func(p *pb.Prompt) { p.Text = strings.Repeat("ab", 97) }, BadPrompt, "194 bytes; the context holds 64 tokens of at most 3 bytes, which is 192"},
		{"more ids than fit", func(p *pb.Prompt) { p.Text, p.InputIds = "", make([]uint32, 65) }, BadPrompt, "65 tokens; the context holds 64"},
		{"more messages than fit", func(p *pb.Prompt) { p.Text, p.Messages = "", make([]*pb.ChatMessage, 65) }, BadPrompt, "65 messages"},
		{"top_p 0", func(p *pb.Prompt) { p.TopP = double(0) }, BadRequest, "top_p is 0; it must be a number above 0 and at most 1"},
		{"top_p 0 when rounded", func(p *pb.Prompt) { p.TopP = double(1e-300) }, BadRequest, "top_p is 1e-300, which is 0 in the 32 bits that it is used in; it must be 1.4e-45 or more"},
		{"top_p above 1", func(p *pb.Prompt) { p.TopP = double(1.01) }, BadRequest, "top_p"},
		{"top_p NaN", func(p *pb.Prompt) { p.TopP = double(math.NaN()) }, BadRequest, "top_p"},
		{"top_k negative", func(p *pb.Prompt) { p.TopK = integer(-1) }, BadRequest, "top_k"},
		{"penalty 0", func(p *pb.Prompt) { p.RepetitionPenalty = double(0) }, BadRequest, "repetition_penalty"},
		{"presence_penalty NaN", func(p *pb.Prompt) { p.PresencePenalty = double(math.NaN()) }, BadRequest, "presence_penalty is NaN; it must be a number from -2 to 2"},
		{"frequency_penalty", func(p *pb.Prompt) { p.FrequencyPenalty = double(-2.5) }, BadRequest, "frequency_penalty"},
		{"min_p", func(p *pb.Prompt) { p.MinP = double(1.5) }, BadRequest, "min_p is 1.5; it must be a number from 0 to 1"},
		{"min_tokens negative", func(p *pb.Prompt) { p.MinTokens = integer(-1) }, BadRequest, "min_tokens is -1"},
		{"min_tokens above max_tokens", func(p *pb.Prompt) { p.MinTokens, p.MaxTokens = integer(9), integer(8) }, BadRequest, "min_tokens is 9; max_tokens is 8"},
		{"min_tokens above the room", func(p *pb.Prompt) { p.MinTokens = integer(60) }, BadRequest, "min_tokens is 60; max_tokens is 59"},
		{"min_tokens of ends alone", func(p *pb.Prompt) { p.MinTokens, p.StopTokenIds = integer(1), allIDs(256) }, BadRequest, "every token of the vocabulary ends"},
		{"logit_bias of an unknown token", func(p *pb.Prompt) { p.LogitBias = map[uint32]float64{3: 1, 256: 1} }, BadRequest, "logit_bias has token 256; the vocabulary has 256"},
		{"logit_bias NaN", func(p *pb.Prompt) { p.LogitBias = map[uint32]float64{3: math.NaN()} }, BadRequest, "logit_bias[3] is NaN; it must be a number from -100 to 100"},
		{"logit_bias infinite", func(p *pb.Prompt) { p.LogitBias = map[uint32]float64{3: math.Inf(-1)} }, BadRequest, "logit_bias[3] is -Inf"},
		{"many biases", func(p *pb.Prompt) {
			p.LogitBias = map[uint32]float64{}
			for i := range uint32(1025) {
				p.LogitBias[i] = 1
			}
		}, BadRequest, "logit_bias has 1025 tokens; at most 1024"},
		{"logprobs", func(p *pb.Prompt) { p.Logprobs = integer(21) }, BadRequest, "logprobs"},
		{"from_index", func(p *pb.Prompt) { p.FromIndex = -1 }, BadRequest, "from_index"},
		{"score", func(p *pb.Prompt) { p.Score = "all" }, BadRequest, "score"},
		{"many stops", func(p *pb.Prompt) { p.Stop = make([]string, 17) }, BadRequest, "stop has 17"},
		{"empty stop", func(p *pb.Prompt) { p.Stop = []string{"a", ""} }, BadRequest, "stop[1]"},
		{"long stop", func(p *pb.Prompt) { p.Stop = []string{strings.Repeat("a", 1025)} }, BadRequest, "stop[0]"},
		{"deadline passed", func(p *pb.Prompt) { p.Deadline = "2030-01-02T03:04:05Z" }, DeadlineExceeded, "deadline"},
		{"deadline long ago", func(p *pb.Prompt) { p.Deadline = "0001-01-01T00:00:00Z" }, DeadlineExceeded, "2030-01-02T03:04:05Z here"},
		{"deadline far", func(p *pb.Prompt) { p.Deadline = "9999-01-01T00:00:00Z" }, BadRequest, "deadline"},
		{"deadline no time", func(p *pb.Prompt) { p.Deadline = "tomorrow" }, BadRequest, "RFC 3339"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := demo().Resolve(prompt(tc.change), now, 1)
			check(t, err, tc.code, tc.says)
		})
	}
}

// After an outage many prompts are late; their tokens would take time from others.
func TestLateIsNotTokenized(t *testing.T) {
	m := demo()
	m.EncodeText = func(string, bool) ([]uint32, error) { t.Error("it was tokenized"); return nil, nil }
	_, err := m.Resolve(prompt(func(p *pb.Prompt) { p.Deadline = "2030-01-02T03:04:05Z" }), now, 1)
	check(t, err, DeadlineExceeded, "deadline")
}

func TestModelsWithoutText(t *testing.T) {
	m := demo()
	m.EncodeChat = nil
	chat := &pb.Prompt{Messages: []*pb.ChatMessage{{Role: "user", Content: proto.String("hi")}}}
	_, err := m.Resolve(chat, now, 1)
	check(t, err, BadRequest, "chat template")
	m.EncodeText = nil
	for _, p := range []*pb.Prompt{chat, {Text: "hi"}} {
		_, err := m.Resolve(p, now, 1)
		check(t, err, BadRequest, "input_ids")
	}
	_, err = m.Resolve(&pb.Prompt{InputIds: []uint32{5}, Stop: []string{"."}}, now, 1)
	check(t, err, BadRequest, "stop is set; the model has no tokenizer")
	if _, err := m.Resolve(&pb.Prompt{InputIds: []uint32{5}, StopTokenIds: []uint32{6}}, now, 1); err != nil {
		t.Error(err)
	}
}

func TestResolve(t *testing.T) {
	seed, greedy := uint32(0), &pb.Sampling{TopP: 1, RepetitionPenalty: 1, Logprobs: -1, Seed: 9}
	sampled := demo()
	sampled.Generation = model.Generation{DoSample: true, Temperature: 0.6, TopP: 0.9, TopK: 20, RepetitionPenalty: 1.1, MaxNewTokens: 10}
	for _, tc := range []struct {
		name  string
		model Model
		p     *pb.Prompt
		want  *pb.Sequence
	}{
		{"text", demo(), &pb.Prompt{Text: "ab", RequestId: "r"},
			&pb.Sequence{RequestId: "r", PromptIds: []uint32{'a', 'b'}, Sampling: greedy, MaxTokens: 62, StopTokenIds: []uint32{2}}},
		{"ids", demo(), &pb.Prompt{InputIds: []uint32{255}, MaxTokens: integer(63), IgnoreEos: true, StopTokenIds: []uint32{7}},
			&pb.Sequence{PromptIds: []uint32{255}, Sampling: greedy, MaxTokens: 63, StopTokenIds: []uint32{7}}},
		{"chat", demo(), &pb.Prompt{Messages: []*pb.ChatMessage{{Role: "u", Content: proto.String("h")}}, MaxTokens: integer(1), StopTokenIds: []uint32{7}},
			&pb.Sequence{PromptIds: []uint32{1, 'u', ':', 'h'}, Sampling: greedy, MaxTokens: 1, StopTokenIds: []uint32{7, 2}}},
		{"a chat has the rest of the context", demo(), &pb.Prompt{Messages: []*pb.ChatMessage{{Role: "u", Content: proto.String("h")}}},
			&pb.Sequence{PromptIds: []uint32{1, 'u', ':', 'h'}, Sampling: greedy, MaxTokens: 60, StopTokenIds: []uint32{2}}},
		{"penalties", demo(), &pb.Prompt{
			Text: "a", PresencePenalty: double(0.5), FrequencyPenalty: double(-0.5), MinP: double(0.25), MinTokens: integer(4), LogitBias: map[uint32]float64{9: -100, 3: 1.5},
		}, &pb.Sequence{PromptIds: []uint32{'a'}, MaxTokens: 63, StopTokenIds: []uint32{2}, Sampling: &pb.Sampling{
			TopP: 1, RepetitionPenalty: 1, Logprobs: -1, Seed: 9, PresencePenalty: 0.5, FrequencyPenalty: -0.5, MinP: 0.25, MinTokens: 4,
			LogitBias: []*pb.TokenBias{{Id: 3, Bias: 1.5}, {Id: 9, Bias: -100}},
		}}},
		{"scores alone", demo(), &pb.Prompt{InputIds: make([]uint32, 64), Score: "logits", MaxTokens: integer(0)},
			&pb.Sequence{PromptIds: make([]uint32, 64), Sampling: greedy, Score: "logits", StopTokenIds: []uint32{2}}},
		{"the model's settings", sampled, &pb.Prompt{Text: "a"}, &pb.Sequence{PromptIds: []uint32{'a'}, MaxTokens: 10, StopTokenIds: []uint32{2},
			Sampling: &pb.Sampling{Temperature: 0.6, TopP: 0.9, TopK: 20, RepetitionPenalty: 1.1, Logprobs: -1, Seed: 9}}},
		{"the request's settings", sampled, &pb.Prompt{
			Text: "a", Temperature: double(0), TopP: double(1), TopK: integer(0), RepetitionPenalty: double(1), Logprobs: integer(0),
			Seed: &seed, MaxTokens: integer(20),
		}, &pb.Sequence{PromptIds: []uint32{'a'}, MaxTokens: 20, StopTokenIds: []uint32{2}, Sampling: &pb.Sampling{TopP: 1, RepetitionPenalty: 1}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.model.Resolve(tc.p, now, 9)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(got.Sequence, tc.want) {
				t.Errorf("%v\nwant %v", got.Sequence, tc.want)
			}
		})
	}
}

// The model's own end-of-sequence ids are not changed by a request's.
func TestStopIDsAreCopied(t *testing.T) {
	m := demo()
	ids := make([]uint32, 1, 4)
	if _, err := m.Resolve(&pb.Prompt{Text: "a", StopTokenIds: ids}, now, 1); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids[:2], []uint32{0, 0}) || !slices.Equal(m.EOS, []uint32{2}) {
		t.Errorf("%v, %v", ids[:2], m.EOS)
	}
}

func TestDeadline(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                               0,
		"2030-01-02T03:04:06Z":           time.Second,
		"2030-01-02T04:04:06+01:00":      time.Second,
		"2030-01-02T03:04:05.25Z":        250 * time.Millisecond,
		"2030-01-02t03:04:05.25z":        250 * time.Millisecond,
		"2030-01-02t04:04:06+01:00":      time.Second,
		"2030-01-02T03:04:05.000000001Z": time.Millisecond, // never 0, which means none
		"2030-01-02T04:04:05Z":           time.Hour,
	} {
		got, err := demo().Resolve(&pb.Prompt{Text: "a", Deadline: text}, now, 1)
		if err != nil || got.Deadline != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

// Where and from which index an answer goes makes no other request; anything
// else does.
func TestBodyHash(t *testing.T) {
	base := hash(t, prompt(func(*pb.Prompt) {}))
	for name, tc := range map[string]struct {
		change func(*pb.Prompt)
		same   bool
	}{
		"request_id": {func(p *pb.Prompt) { p.RequestId = "x" }, true},
		"reply_to":   {func(p *pb.Prompt) { p.ReplyTo = "x" }, true},
		"from_index": {func(p *pb.Prompt) { p.FromIndex = 3 }, true},
		"text":       {func(p *pb.Prompt) { p.Text = "hellO" }, false},
		"max_tokens": {func(p *pb.Prompt) { p.MaxTokens = integer(0) }, false},
		"seed":       {func(p *pb.Prompt) { p.Seed = new(uint32) }, false},
		"stop":       {func(p *pb.Prompt) { p.Stop = []string{"a"} }, false},
		"logit_bias": {func(p *pb.Prompt) { p.LogitBias = map[uint32]float64{1: 0} }, false},
	} {
		p := prompt(tc.change)
		before := proto.Clone(p)
		if got := hash(t, p); slices.Equal(got, base) != tc.same {
			t.Errorf("%s: same %v, want %v", name, !tc.same, tc.same)
		}
		if !proto.Equal(before, p) {
			t.Errorf("%s: hashing changed the prompt", name)
		}
	}
}

func hash(t *testing.T, p *pb.Prompt) []byte {
	t.Helper()
	sum, err := BodyHash(p)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// What is taken can be served: within vocabulary, context and the bounds of sampling.
func TestTakenIsServable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maybe := func(g *rapid.Generator[float64], name string) *float64 { return rapid.Ptr(g, true).Draw(t, name) }
		p := &pb.Prompt{
			InputIds:    rapid.SliceOfN(rapid.Uint32Range(0, 260), 0, 80).Draw(t, "ids"),
			MaxTokens:   rapid.Ptr(rapid.Int32Range(-2, 80), true).Draw(t, "max_tokens"),
			Temperature: maybe(rapid.Float64(), "temperature"), TopP: maybe(rapid.Float64(), "top_p"),
			RepetitionPenalty: maybe(rapid.Float64(), "penalty"),
			Score:             rapid.SampledFrom([]string{"", "logits", "logprobs", "x"}).Draw(t, "score"),
		}
		got, err := demo().Resolve(p, now, 1)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no typed error", err)
			}
			return
		}
		checkServable(t, got.Sequence)
	})
}

func checkServable(t interface {
	Helper()
	Fatalf(string, ...any)
}, s *pb.Sequence) {
	t.Helper()
	n, sampling := len(s.PromptIds), s.Sampling
	if n == 0 || s.MaxTokens < 0 || n+int(s.MaxTokens) > 64 || s.Score == "" && s.MaxTokens == 0 {
		t.Fatalf("%d prompt and %d new tokens", n, s.MaxTokens)
	}
	if slices.Max(s.PromptIds) >= 256 || slices.ContainsFunc(s.StopTokenIds, func(id uint32) bool { return id >= 256 }) {
		t.Fatalf("ids %v, stop ids %v", s.PromptIds, s.StopTokenIds)
	}
	if !(sampling.Temperature >= 0 && sampling.Temperature <= 100) || !(sampling.TopP > 0 && sampling.TopP <= 1) ||
		!(sampling.RepetitionPenalty > 0) || sampling.TopK < 0 {
		t.Fatalf("sampling %v", sampling)
	}
}

// However long a field is, its refusal says what to do.
func TestLongFields(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	for says, p := range map[string]*pb.Prompt{
		"such as 2030-": {InputIds: []uint32{1}, Deadline: long},
		`or "logits"`:   {InputIds: []uint32{1}, Score: long},
	} {
		_, err := demo().Resolve(p, now, 1)
		check(t, err, BadRequest, says)
	}
}
