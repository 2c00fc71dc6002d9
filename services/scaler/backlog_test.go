package scaler

import (
	"context"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// attention lets an attention replica be among the members that does nothing.
func (y *stage) attention(id string) (leave func()) {
	p := y.d.NewPresence(id, "attention")
	return run(y.t, func(ctx context.Context) {
		if _, err := p.Watch(ctx); err != nil {
			y.t.Error(err)
		}
		if err := p.Announce(ctx); err != nil {
			y.t.Error(err)
		}
	})
}

// waits is an attention replica's word of how many requests wait there.
func (y *stage) waits(id string, requests uint64) *pb.LoadSample {
	return &pb.LoadSample{
		Version: schemas.Version, Model: y.d.Identity.Model, Host: id, Layer: uint32(y.d.MoELayers()[0]), SpanMs: 250,
		Source: pb.LoadSource_LOAD_SOURCE_ATTENTION, Waiting: proto.Uint64(requests),
	}
}

// backlog is what the scaler's core knows of it.
func (s *Service) backlog() (waiting float64) {
	s.policy.mu.Lock()
	defer s.policy.mu.Unlock()
	if s.policy.core != nil {
		waiting, _ = s.policy.core.Backlog()
	}
	return waiting
}

// knows reports whether the scaler has heard which attention replicas are here.
func (s *Service) knows(id string) bool {
	attention, _, known := s.here()
	return known && attention[id]
}

// While requests wait, moeless+lean copies an expert that has one host else; when the replica
// dies where they wait, none do.
func TestBacklog(t *testing.T) {
	y := newStage(t, 3)
	y.apart()
	leave := y.attention("attention-a")
	c := testConfig()
	c.Scaling = "moeless+lean:gain=3"
	s, _ := y.scaler(c)
	testkit.Eventually(t, "it reads, and knows who is here", func() bool { return len(y.topic.members()) == 1 && s.knows("attention-a") })
	y.settled()
	const decisions, few = "switchyard_plan_decision_seconds", 6
	before := y.metric(decisions)
	y.await("decisions", 0, func(*pb.LayerPlan) bool { return y.metric(decisions) >= before+few })
	if n := replicas(y.layer(), 0); n != 1 {
		t.Errorf("nothing waits, and the expert has %d replicas: %s", n, y.layer().Reason)
	}
	y.await("a copy", 0, func(lp *pb.LayerPlan) bool {
		y.topic.send(y.waits("attention-a", 5))
		return replicas(lp, 0) > 1
	})
	testkit.Eventually(t, "five wait", func() bool { // unless attention is late to say that it is here
		y.topic.send(y.waits("attention-a", 5))
		return s.backlog() == 5
	})
	leave()
	testkit.Eventually(t, "none wait", func() bool { return s.backlog() == 0 })
}

// Absurd and forged words of what waits change nothing, and are told once of each kind.
func TestForgedBacklog(t *testing.T) {
	y := newStage(t, 1)
	y.attention("attention-a")
	s, _ := y.scaler(testConfig())
	testkit.Eventually(t, "it reads, and knows who is here", func() bool { return len(y.topic.members()) == 1 && s.knows("attention-a") })
	y.settled()
	testkit.Eventually(t, "what is true counts", func() bool {
		y.topic.send(y.waits("attention-a", 5))
		return s.backlog() == 5
	})
	forge := func() {
		for _, forged := range []*pb.LoadSample{
			y.waits("attention-a", 1e18), y.waits("attention-a", math.MaxUint64), y.notANumber(), y.waits("attention-x", 7),
		} {
			y.topic.send(forged)
		}
		y.topic.send(y.waits("attention-a", 5))
	}
	testkit.Eventually(t, "who is not here is refused", func() bool {
		forge()
		return y.log.count("kind=sender") > 0
	})
	testkit.Eventually(t, "five wait", func() bool { forge(); return s.backlog() == 5 })
	for _, kind := range []string{"counts", "sender"} {
		if n := y.log.count("kind=" + kind); n != 1 {
			t.Errorf("%d lines of kind %s", n, kind)
		}
	}
}

// notANumber has a NaN in the field's place.
func (y *stage) notANumber() *pb.LoadSample {
	s := y.waits("attention-a", 0)
	s.Waiting = nil
	field := s.ProtoReflect().Descriptor().Fields().ByName("waiting").Number()
	body, err := proto.Marshal(s)
	if err == nil {
		body = protowire.AppendFixed64(protowire.AppendTag(body, field, protowire.Fixed64Type), math.Float64bits(math.NaN()))
		err = proto.Unmarshal(body, s)
	}
	if err != nil {
		y.t.Fatal(err)
	}
	return s
}
