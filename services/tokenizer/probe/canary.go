package probe

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A canary is a request of one token in the name of a tenant that no producer can
// be. It takes the way of every request, is in no quota, usage or count of what
// waits, and goes nowhere: its end is seen in the token log.

const (
	// flowPoll is how often it is looked whether tokens flow.
	flowPoll = 250 * time.Millisecond
	// canaryStored bounds the wait until a canary is stored.
	canaryStored = 2 * time.Second
)

// Canaries find out whether tokens flow.
type Canaries struct {
	d       *deployment.Deployment
	model   *edge.Model
	owns    func(request string) bool
	members *members.View
	flow    tokenFlow
}

func newCanaries(s Settings) *Canaries {
	return &Canaries{
		d: s.Deployment, model: s.Model, owns: s.Owns,
		flow: tokenFlow{self: s.Replica, every: s.CanaryEvery + time.Duration(mathrand.Int64N(int64(s.CanaryEvery)/2+1)), least: leastPatience},
	}
}

// Ready says why no token would come of a prompt, as far as this replica knows.
func (c *Canaries) Ready() error {
	if err := missing(c.members.Snapshot(), c.d.Subjects.Model); err != nil {
		return err
	}
	return c.flow.ready(time.Now())
}

// Losses is how often a stage went missing.
func (c *Canaries) Losses() int { return c.flow.lost() }

// stagesReady says of each stage, and of tokens, whether they are there, for metrics.
func (c *Canaries) stagesReady() map[string]float64 {
	all := c.members.Snapshot()
	is := map[bool]float64{true: 1}
	out := map[string]float64{"token": is[c.Ready() == nil]}
	for _, s := range stages() {
		out[s.Name] = is[!Lacks(all, s.Name)]
	}
	return out
}

// watch follows whether tokens flow, and sends canaries, until ctx ends.
func (c *Canaries) watch(ctx context.Context) {
	tick := time.NewTicker(flowPoll)
	defer tick.Stop()
	for {
		changed := c.members.Changed() // before the Snapshot: what comes between wakes us
		all, now := c.members.Snapshot(), time.Now()
		whole := missing(all, c.d.Subjects.Model) == nil
		if c.flow.look(all, whole, now); whole && (!asleep(all) || !c.flow.flowed()) && c.flow.due(now) {
			c.send(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

// asleep reports whether plans want no function warm on any host: a canary would load experts
// that were let go because no request comes.
func asleep(all []*pb.Member) bool {
	hosts := members.OfService(all, "expert")
	for _, m := range hosts {
		if n, says := m.Stats[members.WantedWarm]; !says || n > 0 {
			return false
		}
	}
	return len(hosts) > 0
}

func (c *Canaries) send(ctx context.Context) {
	id := c.newID()
	c.flow.sent(id, time.Now()) // its end may be seen before its acknowledgement
	c.d.Telemetry.Metrics.Canaries("sent").Inc()
	ctx, cancel := context.WithTimeout(ctx, canaryStored)
	defer cancel()
	header := nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}, nats.MsgIdHdr: {id}}
	if _, err := c.d.Conn.Store(ctx, c.d.Subjects.PromptOf(schemas.CanaryFlow()), CanaryPrompt(id, c.model), header); err != nil {
		c.Failed(id, fmt.Sprintf("it cannot be stored: %v", err))
	}
}

// newID names a canary whose log is followed here, if this replica has a shard.
func (c *Canaries) newID() (id string) {
	const tries = 8 * schemas.LogShards
	for range tries {
		if id = "canary-" + rand.Text(); c.owns(id) {
			break
		}
	}
	return id
}

// CanaryPrompt is the least that a model makes a token of, or, if nothing says what
// it fills, a score.
func CanaryPrompt(id string, m *edge.Model) *pb.Prompt {
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

// Logged follows a canary in its log. Those of others say nothing here: they may
// be of a time before this replica served the shard.
func (c *Canaries) Logged(request string, records []*pb.Record) {
	for _, record := range records {
		switch {
		case record.GetAccept() != nil:
			c.flow.waits(request, unclaimed)
		case record.GetClaim() != nil:
			c.flow.waits(request, uncounted)
		case record.GetTerminal() != nil:
			c.ended(request, record.GetTerminal())
		}
	}
}

func (c *Canaries) ended(request string, end *pb.Terminal) {
	if end.Error == nil && end.FinishReason != "cancelled" {
		if took, ours := c.flow.answered(request, time.Now()); ours {
			c.d.Telemetry.Metrics.Canaries("answered").Inc()
			c.d.Telemetry.Metrics.Canary().Observe(took.Seconds())
		}
		return
	}
	c.Failed(request, fmt.Sprintf("it ended as %s: %s", end.FinishReason, end.GetError().GetMessage()))
}

// Failed notes that a canary came to nothing.
func (c *Canaries) Failed(id, why string) { c.flow.failed(id, why, time.Now()) }

// Lacks reports whether no replica of a service is ready.
func Lacks(all []*pb.Member, service string) bool {
	for _, m := range members.OfService(all, service) {
		if m.Ready && !m.Draining {
			return false
		}
	}
	return true
}

// stages are the services on a token's way that others take a tokenizer's requests through.
func stages() (all []catalog.Service) {
	for _, s := range catalog.All(catalog.Way) {
		if s.Lack != "" {
			all = append(all, s)
		}
	}
	return all
}

// missing says which stage is missing on a token's way of a model; nil: none.
func missing(all []*pb.Member, model string) error {
	for _, s := range stages() {
		if Lacks(all, s.Name) {
			return fmt.Errorf(s.Lack, model)
		}
	}
	return nil
}
