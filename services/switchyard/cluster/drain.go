package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// An operator asks a replica to drain on a subject that he alone may publish to; the
// replica does what a signal would have it do, and answers each ask, and at last that it
// is gone. A process whose last replica drains ends, unless it has the NATS server: then it
// goes on for the others.

// replica is one that can be asked to drain.
type replica struct {
	Replica
	edge     *bus.Conn // to producers; nil: it has none
	guard    *bus.Conn // for models that nobody serves
	service  lifecycle.Service
	subjects schemas.Subjects

	once  sync.Once
	asked bool // to drain; Pipeline.mu guards it and the next
	gone  bool // that was told
}

// tell says how the draining of a replica goes. Who has asked asks again if that is lost.
func (r *replica) tell(gone bool, why error) {
	state := &pb.DrainState{Replica: r.ID, Gone: gone}
	if why != nil {
		state.Error = why.Error()
	}
	if body, err := proto.Marshal(state); err == nil {
		_ = r.Conn.Tell(r.subjects.Drained(r.Service, r.ID), body)
	}
}

// hearDrains has a replica answer to who asks it to drain, as long as it is connected.
func (p *Pipeline) hearDrains(r *replica) error {
	p.mu.Lock()
	p.replicas = append(p.replicas, r)
	p.mu.Unlock()
	_, err := r.Conn.Hear(r.subjects.Drain(r.Service, r.ID), "", func(*nats.Msg) {
		if group := p.started(); group == nil || !group.Running() && !p.isEnding() {
			return // nobody knows of it yet who could mean it
		}
		r.tell(false, nil)
		r.once.Do(func() { p.drain(r) })
	})
	return err
}

// drain begins to drain a replica, and returns at once.
func (p *Pipeline) drain(r *replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.asked = true
	switch {
	case p.ending:
		return // it drains already
	case p.isLast(r):
		r.log.Info("an operator has asked this replica to drain; it is the last of its process, which ends")
		p.end()
		return
	}
	r.log.Info("an operator has asked this replica to drain")
	p.needed = slices.DeleteFunc(p.needed, func(c *bus.Conn) bool { return c == r.Conn || c == r.edge })
	p.drains.Go(func() { p.retire(r) })
}

// isLast reports whether a process without the server has no other replica that is needed and
// stays; p.mu is held.
func (p *Pipeline) isLast(r *replica) bool {
	return p.node.inProcess == nil && !slices.ContainsFunc(p.replicas, func(other *replica) bool {
		return other != r && !other.asked && !p.background(other.Service)
	})
}

// retire drains one replica of several.
func (p *Pipeline) retire(r *replica) {
	ctx, cancel := context.WithTimeout(context.Background(), p.node.drain())
	defer cancel()
	began := time.Now()
	err := p.gather().Retire(ctx, r.service)
	p.mu.Lock()
	ending := p.ending
	r.gone = !ending
	p.mu.Unlock()
	if ending {
		return // Stop tells of it
	}
	if err != nil {
		r.log.Warn("this replica did not drain in time", "error", err)
	} else {
		r.log.Info("this replica has drained", "after", time.Since(began).Round(time.Millisecond))
	}
	r.tell(true, err)
	if r.guard != nil {
		r.guard.Close()
	}
	if r.edge != nil {
		r.edge.Close()
	}
	r.Conn.Close()
}

func (p *Pipeline) beginEnding() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
}

func (p *Pipeline) isEnding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// tellGone answers who waits for replicas that drained with the whole process.
func (p *Pipeline) tellGone(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.replicas {
		if r.asked && !r.gone {
			r.gone = true
			r.tell(true, err)
		}
	}
}

func (p *Pipeline) needs(c *bus.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.needed, c)
}

// RentedElement is the bytes of an element where experts are rented: rows travel as bf16.
const RentedElement = 2

// RentedModel is what the parts of a model weigh on a serverless platform.
func RentedModel(m *model.Model) (serverless.Model, error) {
	spec := m.Spec
	largest, err := device.Largest(spec, func(id forward.ExpertID) (int64, error) { return forward.ExpertBytes(m, id) })
	if err != nil {
		return serverless.Model{}, fmt.Errorf("sizing the experts: %w", err)
	}
	of := serverless.Model{
		Layers: spec.MoELayers(), Experts: spec.Experts, TopK: spec.TopK, Expert: float64(largest), Token: RentedElement * float64(spec.Hidden),
		Cache: float64(kvcache.ShapeOf(&spec).PageBytes() / kvcache.PagePositions),
	}
	of.Fixed = max(0, float64(m.Bytes)-of.All())
	return of, nil
}
