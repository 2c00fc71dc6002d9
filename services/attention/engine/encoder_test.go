package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// golden opens one of the committed checkpoints.
func golden(t *testing.T, name string) *model.Model {
	t.Helper()
	m, err := model.Open(goldens.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// places of the prompt that a request of read fills.
var places = []uint32{3, 4, 17, 33}

// read makes a request of a model with an encoder, of a prompt of 34 tokens.
func (b *bench) read(m *model.Model, score string) *Sequence {
	s := b.ask("r", 34, 6, score)
	switch s.seq.Source = 34; m.Spec.Task() {
	case model.Fill:
		s.seq.TokenTypes = append(make([]uint32, 20), slices.Repeat([]uint32{1}, 14)...)
		s.seq.Fill, s.seq.MaxTokens = places, int32(len(places))
	case model.Answer:
		s.seq.PromptIds = append(s.seq.PromptIds, 1)
		s.ids = slices.Clone(s.seq.PromptIds)
	}
	return s
}

// logOf is what a replica writes, which takes over from others after history.
func logOf(t *testing.T, m *model.Model, maxRows int, score string, history []*pb.Record) []*pb.Record {
	t.Helper()
	b := benchOf(t, m, maxRows)
	s := b.read(m, score)
	if history != nil {
		s.restore(entries(history), time.Now())
	}
	b.add(s)
	for b.compute() {
	}
	if b.kv.Used() != 0 {
		t.Errorf("%d pages are left", b.kv.Used())
	}
	return book(s).records
}

func entries(records []*pb.Record) (history []tokenlog.Entry) {
	began := []*pb.Record{{Kind: &pb.Record_Accept{Accept: &pb.Accept{}}}, {Epoch: 1, Kind: &pb.Record_Claim{}}}
	for _, r := range slices.Concat(began, records, began[1:]) {
		history = append(history, tokenlog.Entry{Record: r, Time: time.Unix(1000, 0)})
	}
	return history
}

// Whatever the bound on rows, and at whatever record another replica takes over,
// a model with an encoder writes the same log.
func TestEncodersResume(t *testing.T) {
	for _, name := range []string{"bert_moe", "bert2bert_moe"} {
		for _, score := range []string{"", "logits"} {
			m := golden(t, name)
			want := logOf(t, m, 64, score, nil)
			for _, maxRows := range []int{1, 20} {
				if got := logOf(t, m, maxRows, score, nil); !same(got, want) {
					t.Errorf("%s: with %d rows a microbatch: %v\nwant %v", name, maxRows, got, want)
				}
			}
			for n := 0; n < len(want); n += 3 {
				if got := append(slices.Clone(want[:n]), logOf(t, m, 64, score, want[:n])...); !same(got, want) {
					t.Errorf("%s: taken over after %d records: %v\nwant %v", name, n, got, want)
				}
			}
		}
	}
}

// A prompt's masks are filled in their order, and the answer is whole then.
func TestFill(t *testing.T) {
	m := golden(t, "bert_moe")
	records := logOf(t, m, 64, "logprobs", nil)
	if len(records) != 34+len(places)+1 || records[len(records)-1].GetTerminal().GetFinishReason() != "stop" {
		t.Fatalf("%v", records)
	}
	for i, r := range records[:34] {
		if s := r.GetScore(); int(s.GetPosition()) != i || s.Logprob == nil {
			t.Errorf("position %d: %v", i, r)
		}
	}
	for i, r := range records[34 : 34+len(places)] {
		if k := r.GetToken(); int(k.GetIndex()) != i || k.GetStop() {
			t.Errorf("place %d: %v", i, r)
		}
	}
	b := benchOf(t, m, 64)
	s := b.read(m, "")
	s.seq.MaxTokens = 2
	b.add(s)
	for b.compute() {
	}
	if got := book(s); len(got.tokens()) != 2 || got.end().GetFinishReason() != "length" {
		t.Errorf("two of four places: %v", got.records)
	}
}

// Scores of an answer are what the encoder made, and then logits.
func TestAnswerScores(t *testing.T) {
	m := golden(t, "bert2bert_moe")
	for i, r := range logOf(t, m, 64, "logits", nil)[:35] {
		s := r.GetScore()
		if encoded := i < 34; int(s.GetPosition()) != i || (len(s.Hidden) == m.Spec.Hidden) != encoded || (len(s.Logits) == m.Spec.Vocab) == encoded {
			t.Errorf("position %d: %d hidden elements, %d logits", i, len(s.GetHidden()), len(s.GetLogits()))
		}
	}
}
