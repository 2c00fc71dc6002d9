package probe

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// Probe is what one replica sees of the pipeline.
type Probe struct {
	Streams   *Streams
	Sequences *Sequences
	Canaries  *Canaries

	d       *deployment.Deployment
	members Members
	depths  depths
}

// New returns a probe that has seen nothing.
func New(s Settings) *Probe {
	d := s.Deployment
	return &Probe{
		Streams:   &Streams{Clock: ServerClock{Here: time.Now}, d: d, ledger: s.Ledger},
		Sequences: &Sequences{replica: s.Replica, stream: d.Streams.Sequences().Name, queues: d.Conn.JetStream()},
		Canaries:  newCanaries(s),
		d:         d, depths: depths{queues: queuesOf(d.Streams)},
	}
}

// See says who the members are. It comes before all that asks about them.
func (p *Probe) See(all Members) { p.members, p.Sequences.members, p.Canaries.members = all, all, all }

// Run looks until ctx ends.
func (p *Probe) Run(ctx context.Context) {
	defer p.follow(ctx)()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { p.Streams.watch(ctx) })
	running.Go(func() { p.Canaries.watch(ctx) })
}

// follow shows in metrics what is seen, until stop is called.
func (p *Probe) follow(ctx context.Context) (stop func()) {
	m := p.d.Telemetry.Metrics
	stops := []func(){
		m.QueueDepth.Follow(func() map[string]float64 { return p.queueDepths(ctx) }),
		m.StreamFill.Follow(p.Streams.Levels.Shares),
		m.StageReady.Follow(p.Canaries.stagesReady),
		m.Members.Follow(func() []telemetry.Reading { return memberReadings(p.members.Snapshot()) }),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
