package intake

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

func TestCheckFlow(t *testing.T) {
	for name, change := range map[string]func(*incoming){
		"":            func(*incoming) {},
		"many tokens": func(in *incoming) { in.prompt.MaxTokens = proto.Int32(2) },
		"as many":     func(in *incoming) { in.prompt.MaxTokens = nil },
		"a text":      func(in *incoming) { in.prompt.InputIds, in.prompt.Text = nil, "hi" },
		"long":        func(in *incoming) { in.prompt.InputIds = []uint32{1, 2} },
		"an answer":   func(in *incoming) { in.reply = "inbox" },
	} {
		in := &incoming{flow: schemas.CanaryFlow(), prompt: &pb.Prompt{InputIds: []uint32{1}, MaxTokens: proto.Int32(1)}}
		change(in)
		if err := checkFlow(in); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Each model's canary can be resolved.
func TestCanaryPrompt(t *testing.T) {
	m := edge.Model{Vocab: 9, MaxLen: 8, Mask: -1, Start: -1, Types: 1}
	for name, change := range map[string]func(*edge.Model){
		"decoder":                     func(*edge.Model) {},
		"encoder":                     func(m *edge.Model) { m.Task, m.Mask = model.Fill, 5 },
		"encoder without a mask":      func(m *edge.Model) { m.Task = model.Fill },
		"encoder and decoder":         func(m *edge.Model) { m.Task, m.Start = model.Answer, 3 },
		"encoder and decoder's start": func(m *edge.Model) { m.Task = model.Answer },
	} {
		t.Run(name, func(t *testing.T) {
			m := m
			change(&m)
			p := probe.CanaryPrompt("c", &m)
			body, err := proto.Marshal(p)
			if err == nil {
				err = checkFlow(&incoming{prompt: p, flow: schemas.CanaryFlow()})
			}
			if err != nil || len(body) == 0 {
				t.Fatal(err)
			}
			req, err := m.Resolve(p, time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.CheckSequence(req.Sequence); err != nil || req.Sequence.MaxTokens > 1 || req.Sequence.MaxTokens == 0 && req.Sequence.Score == "" {
				t.Errorf("%v, %v", req.Sequence, err)
			}
		})
	}
}
