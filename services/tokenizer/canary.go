package tokenizer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A canary is a request of one token in the name of a tenant that nobody else can
// be. It takes the way of every request, is in no quota, usage or count of who
// waits, and goes nowhere: its end is seen in the token log.

const (
	// pulsePoll is how often it is looked whether tokens flow.
	pulsePoll = 250 * time.Millisecond
	// canaryStored bounds the wait until a canary is stored.
	canaryStored = 2 * time.Second
)

// stages are the services that every token passes, and what nobody of one can do.
var stages = []struct{ service, lack string }{
	{"attention", "no attention replica of model %s is ready"},
	{"gate", "no gate of model %s is ready: none has a plan whose functions are all warm"},
	{"expert", "no expert host of model %s is ready"},
	{"aggregator", "no aggregator of model %s is ready"},
}

// lacks says whether no replica of a service is ready.
func lacks(all []*pb.Member, service string) bool {
	for _, m := range members.OfService(all, service) {
		if m.Ready && !m.Draining {
			return false
		}
	}
	return true
}

// lack says which stage is missing on a token's way; nil: none.
func (s *Service) lack(all []*pb.Member) error {
	for _, stage := range stages {
		if lacks(all, stage.service) {
			return fmt.Errorf(stage.lack, s.d.Subjects.Model)
		}
	}
	return nil
}

// stagesReady says of each stage, and of tokens, whether they are there, for metrics.
func (s *Service) stagesReady() map[string]float64 {
	all, now := s.view.Snapshot(), time.Now()
	is := map[bool]float64{true: 1}
	out := map[string]float64{"token": is[s.lack(all) == nil && s.pulse.ready(now) == nil]}
	for _, stage := range stages {
		out[stage.service] = is[!lacks(all, stage.service)]
	}
	return out
}

// feelPulse follows whether tokens flow, and sends canaries, until ctx ends.
func (s *Service) feelPulse(ctx context.Context) {
	tick := time.NewTicker(pulsePoll)
	defer tick.Stop()
	for {
		changed := s.view.Changed() // before the Snapshot: what comes between wakes us
		all, now := s.view.Snapshot(), time.Now()
		whole := s.lack(all) == nil
		if s.pulse.look(all, whole, now); whole && s.pulse.due(now) {
			s.sendCanary(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

func (s *Service) sendCanary(ctx context.Context) {
	id := s.canaryID()
	s.pulse.sent(id, time.Now()) // its end may be seen before its acknowledgement
	s.metrics.Canaries("sent").Inc()
	ctx, cancel := context.WithTimeout(ctx, canaryStored)
	defer cancel()
	header := nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}, nats.MsgIdHdr: {id}}
	if _, err := s.d.Conn.Store(ctx, s.d.Subjects.PromptOf(schemas.CanaryFlow()), canaryPrompt(id, &s.model), header); err != nil {
		s.pulse.failed(id, fmt.Sprintf("it cannot be stored: %v", err), time.Now())
	}
}

// canaryID names a canary whose log is followed here, if this replica has a shard.
func (s *Service) canaryID() (id string) {
	const tries = 8 * schemas.LogShards
	for range tries {
		if id = "canary-" + rand.Text(); s.shards.has(id) {
			break
		}
	}
	return id
}

// canaryPrompt is the least that a model makes a token of, or, if nothing says what
// it fills, a score.
func canaryPrompt(id string, m *edge.Model) *pb.Prompt {
	p := &pb.Prompt{RequestId: id, InputIds: []uint32{0}, MaxTokens: proto.Int32(1), IgnoreEos: true}
	switch {
	case m.Task == model.Fill && m.Mask >= 0:
		p.InputIds[0] = uint32(m.Mask)
	case m.Task == model.Fill:
		p.Score, p.MaxTokens = "logprobs", proto.Int32(0)
	case m.Task == model.Answer && m.Start < 0:
		p.DecoderInputIds = []uint32{0}
	}
	return p
}

// checkFlow says why a prompt's subject is not for it. What would be a canary, but
// asks for more, would take from others without anybody counting it.
func checkFlow(in *incoming) error {
	p := in.prompt
	switch {
	case !in.flow.IsCanary():
		return in.flow.Check()
	case len(p.InputIds) != 1 || len(p.DecoderInputIds) > 1 || p.MaxTokens == nil || p.GetMaxTokens() > 1 || in.reply != "":
		return errors.New("the subject is the services' own, for requests of one token: name another tenant")
	}
	return nil
}

// watchCanary follows a canary in its log. Those of others say nothing here: they may
// be of a time before this replica served the shard.
func (s *Service) watchCanary(request string, records []*pb.Record) {
	for _, record := range records {
		switch {
		case record.GetAccept() != nil:
			s.pulse.waits(request, unclaimed)
		case record.GetClaim() != nil:
			s.pulse.waits(request, uncounted)
		case record.GetTerminal() != nil:
			s.canaryEnded(request, record.GetTerminal())
		}
	}
}

func (s *Service) canaryEnded(request string, end *pb.Terminal) {
	now := time.Now()
	if end.Error == nil && end.FinishReason != "cancelled" {
		if took, ours := s.pulse.answered(request, now); ours {
			s.metrics.Canaries("answered").Inc()
			s.metrics.Canary().Observe(took.Seconds())
		}
		return
	}
	s.pulse.failed(request, fmt.Sprintf("it ended as %s: %s", end.FinishReason, end.GetError().GetMessage()), now)
}

// spread lengthens a time by up to a half, so that one replica is the first to send.
func spread(d time.Duration) time.Duration { return d + time.Duration(mathrand.Int64N(int64(d)/2+1)) }
