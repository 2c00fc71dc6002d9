package edge

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/model"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// filler fills token 7, answerer begins with token 1; both tell two segments apart.
func filler() Model {
	m := demo()
	m.Task, m.Types, m.Mask, m.Start = model.Fill, 2, 7, -1
	return m
}

func answerer() Model {
	m := demo()
	m.Task, m.Types, m.Mask, m.Start = model.Answer, 2, -1, 1
	return m
}

func TestTasks(t *testing.T) {
	greedy := &pb.Sampling{TopP: 1, RepetitionPenalty: 1, Logprobs: -1, Seed: 9}
	for _, tc := range []struct {
		name      string
		model     Model
		p         *pb.Prompt
		want      *pb.Sequence
		positions int
	}{
		{"masks", filler(), &pb.Prompt{InputIds: []uint32{5, 7, 7}},
			&pb.Sequence{PromptIds: []uint32{5, 7, 7}, Source: 3, Fill: []uint32{1, 2}, MaxTokens: 2}, 3},
		{"some masks", filler(), &pb.Prompt{InputIds: []uint32{7, 5, 7}, MaxTokens: integer(1), TokenTypeIds: []uint32{0, 1, 1}},
			&pb.Sequence{PromptIds: []uint32{7, 5, 7}, Source: 3, Fill: []uint32{0, 2}, MaxTokens: 1, TokenTypes: []uint32{0, 1, 1}}, 3},
		{"more than masks", filler(), &pb.Prompt{InputIds: []uint32{7}, MaxTokens: integer(99)},
			&pb.Sequence{PromptIds: []uint32{7}, Source: 1, Fill: []uint32{0}, MaxTokens: 1}, 1},
		{"scores without masks", filler(), &pb.Prompt{InputIds: make([]uint32, 64), Score: "logits"},
			&pb.Sequence{PromptIds: make([]uint32, 64), Source: 64, Score: "logits"}, 64},
		{"answer", answerer(), &pb.Prompt{InputIds: []uint32{5, 6}},
			&pb.Sequence{PromptIds: []uint32{5, 6, 1}, Source: 2, MaxTokens: 63, StopTokenIds: []uint32{2}}, 64},
		{"answer that is begun", answerer(), &pb.Prompt{InputIds: make([]uint32, 64), DecoderInputIds: []uint32{1, 8}, MaxTokens: integer(3)},
			&pb.Sequence{PromptIds: append(make([]uint32, 64), 1, 8), Source: 64, MaxTokens: 3, StopTokenIds: []uint32{2}}, 64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.model.Resolve(tc.p, now, 9)
			if err != nil {
				t.Fatal(err)
			}
			tc.want.Sampling = greedy
			if !proto.Equal(got.Sequence, tc.want) {
				t.Errorf("%v\nwant %v", got.Sequence, tc.want)
			}
			if n := Positions(got.Sequence); n != tc.positions {
				t.Errorf("%d positions, want %d", n, tc.positions)
			}
			if err := tc.model.CheckSequence(got.Sequence); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTasksRefuse(t *testing.T) {
	unknown, mute := filler(), answerer()
	unknown.Mask, mute.Start = -1, -1
	long := make([]uint32, 65)
	for _, tc := range []struct {
		name  string
		model Model
		p     *pb.Prompt
		code  Code
		says  string
	}{
		{"no mask", filler(), &pb.Prompt{InputIds: []uint32{5}}, BadPrompt, "no mask to fill (token 7)"},
		{"unknown mask", unknown, &pb.Prompt{InputIds: []uint32{5}}, BadRequest, "mask_token_id"},
		{"fill nothing", filler(), &pb.Prompt{InputIds: []uint32{7}, MaxTokens: integer(0)}, BadRequest, "max_tokens is 0"},
		{"long text to fill", filler(), &pb.Prompt{Text: strings.Repeat("a", 65)}, BadPrompt, "65 tokens; the context holds 64"},
		{"no start", mute, &pb.Prompt{InputIds: []uint32{5}}, BadRequest, "decoder_start_token_id"},
		{"long beginning", answerer(), &pb.Prompt{InputIds: []uint32{5}, DecoderInputIds: long}, BadPrompt, "decoder_input_ids has 65"},
		{"a penalty of what is filled at once", filler(), &pb.Prompt{InputIds: []uint32{7}, PresencePenalty: double(1)}, BadRequest, "presence_penalty is set; this model fills masks"},
		{"a least number of masks", filler(), &pb.Prompt{InputIds: []uint32{7}, MinTokens: integer(1)}, BadRequest, "min_tokens is set"},
		{"full beginning", answerer(), &pb.Prompt{InputIds: []uint32{5}, DecoderInputIds: long[:64]}, BadPrompt, "64 tokens"},
		{"unknown id", answerer(), &pb.Prompt{InputIds: []uint32{5}, DecoderInputIds: []uint32{256}}, BadRequest, "decoder_input_ids[0]"},
		{"segments of a decoder", demo(), &pb.Prompt{InputIds: []uint32{5}, TokenTypeIds: []uint32{0}}, BadRequest, "segments"},
		{"decoder ids of a decoder", demo(), &pb.Prompt{InputIds: []uint32{5}, DecoderInputIds: []uint32{0}}, BadRequest, "decoder_input_ids"},
		{"few segments", filler(), &pb.Prompt{InputIds: []uint32{7, 7}, TokenTypeIds: []uint32{0}}, BadRequest, "1 numbers for a prompt of 2"},
		{"unknown segment", filler(), &pb.Prompt{InputIds: []uint32{7}, TokenTypeIds: []uint32{2}}, BadRequest, "token_type_ids[0] is 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := tc.model.Resolve(tc.p, now, 1)
			check(t, err, tc.code, tc.says)
		})
	}
}

// A sequence with any numbers is either refused or harmless: every place, id and
// segment that a step looks up is there.
func TestAnySource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom([]Model{demo(), filler(), answerer()}).Draw(t, "model")
		few := rapid.SliceOfN(rapid.Uint32Range(0, 12), 0, 10)
		s := &pb.Sequence{
			PromptIds: few.Draw(t, "ids"), Source: rapid.Uint32Range(0, 12).Draw(t, "source"), TokenTypes: few.Draw(t, "types"),
			Fill: few.Draw(t, "fill"), MaxTokens: rapid.Int32Range(-1, 70).Draw(t, "max"), Sampling: &pb.Sampling{TopP: 1},
		}
		if m.CheckSequence(s) != nil {
			return
		}
		n, source := len(s.PromptIds), int(s.Source)
		if source > n || len(s.TokenTypes) > source || Positions(s) > m.MaxLen || m.Task == model.Continue && source > 0 {
			t.Fatalf("%v is taken", s)
		}
		for _, at := range s.Fill {
			if int(at) >= source {
				t.Fatalf("%v is taken", s)
			}
		}
		for _, segment := range s.TokenTypes {
			if int(segment) >= m.Types {
				t.Fatalf("%v is taken", s)
			}
		}
	})
}
