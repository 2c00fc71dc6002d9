package engine

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/layer"
)

// Who takes a sequence over goes on with what it took before.
func TestRestoredCost(t *testing.T) {
	s := newSequence(&pb.Sequence{PromptIds: []uint32{1}, MaxTokens: 9})
	record := func(index int32, c *pb.Cost) tokenlog.Entry {
		return tokenlog.Entry{Record: &pb.Record{Kind: &pb.Record_Token{Token: &pb.Token{Index: index, Cost: c}}}}
	}
	s.restore([]tokenlog.Entry{record(0, &pb.Cost{ExpertGbS: 1}), record(1, &pb.Cost{ExpertGbS: 2.5, ColdStarts: 3})}, time.Time{})
	s.cost.Add(layer.Cost{ByteSeconds: 5e8, ColdStarts: 1, Metered: true})
	if got := s.cost.Record(); got.ExpertGbS != 3 || got.ColdStarts != 4 {
		t.Errorf("%v", got)
	}
}

func TestFlowOfSequence(t *testing.T) {
	for _, tc := range []struct {
		accept *pb.Accept
		want   schemas.Flow
	}{
		{nil, schemas.DefaultFlow()},
		{&pb.Accept{}, schemas.DefaultFlow()}, // of an older version
		{&pb.Accept{Tenant: "acme", Class: "high"}, schemas.Flow{Tenant: "acme", Class: schemas.ClassHigh}},
	} {
		if got := newSequence(&pb.Sequence{Accept: tc.accept}).flow; got != tc.want {
			t.Errorf("%v is of %v, want %v", tc.accept, got, tc.want)
		}
	}
}
