package forged

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// Numbers that no tokenizer writes are bounded before anything follows them, and
// end the request that they are of and nothing else.
func TestForgedSequences(t *testing.T) {
	t.Parallel()
	y := clustertest.Start(t, clustertest.Demo(t))
	conn := y.Conn(t)
	subjects := schemas.NewSubjects(schemas.DefaultPrefix, y.Name())
	ends := make(chan *pb.Error, 100)
	_, err := conn.NATS().Subscribe(subjects.AnyToken(), func(m *nats.Msg) {
		if r := (&pb.Record{}); proto.Unmarshal(m.Data, r) == nil && r.GetTerminal().GetError() != nil {
			ends <- r.GetTerminal().GetError()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for id, change := range map[string]func(*pb.Sequence){
		"logprobs": func(s *pb.Sequence) { s.Sampling.Logprobs = math.MaxInt32 },
		"max":      func(s *pb.Sequence) { s.MaxTokens, s.Accept.MaxTokens = math.MaxInt32, math.MaxInt32 },
		"ids":      func(s *pb.Sequence) { s.PromptIds[0] = math.MaxUint32 },
		"stop":     func(s *pb.Sequence) { s.StopTokenIds = make([]uint32, 1<<20) },
		"score":    func(s *pb.Sequence) { s.Score = "everything" },
		"top_p":    func(s *pb.Sequence) { s.Sampling.TopP = float32(math.NaN()) },
	} {
		s := sequence(t, y, id)
		change(s)
		if _, err := conn.Store(t.Context(), subjects.Sequence(), s, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-ends:
			if !strings.HasPrefix(got.Message, "sequence "+id+": ") { // said by who looked at it, before any work
				t.Errorf("%s ended with %v", id, got)
			}
		case <-time.After(testkit.Patience):
			t.Fatalf("%s did not end", id)
		}
	}
	one := int32(1)
	if err := y.Answer(t, &pb.Prompt{InputIds: []uint32{5}, MaxTokens: &one, IgnoreEos: true}); err != nil {
		t.Error(err)
	}
}

// sequence is one as a tokenizer writes it.
func sequence(t *testing.T, y clustertest.Cluster, id string) *pb.Sequence {
	t.Helper()
	r, err := y.Settings.Node.Connect(t.Context(), "attention")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Conn.Close()
	d, err := y.Settings.Node.Deploy(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	who := &pb.Identity{Version: schemas.Version, Model: d.Identity.Model}
	return &pb.Sequence{
		Identity: who, RequestId: id, PromptIds: []uint32{1, 2, 3}, MaxTokens: 4,
		Sampling: &pb.Sampling{TopP: 1, RepetitionPenalty: 1, Logprobs: -1},
		Accept:   &pb.Accept{Identity: who, PromptTokens: 3, MaxTokens: 4},
	}
}
