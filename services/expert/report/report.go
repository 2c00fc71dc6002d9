package report

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Settings are what a host reports of.
type Settings struct {
	Deployment *deployment.Deployment
	// Host is the host's id.
	Host      string
	Functions Functions
	Computers Computers
	Device    device.Device
	// GPU is what the host computes on; nil is none.
	GPU *gpus.GPU
	// Loads counts the rows of each expert.
	Loads *loads.Counter
}

// Functions are the host's; a *residency.Residency is.
type Functions interface {
	// ByPhase counts them by the phases of the metrics.
	ByPhase() map[string]float64
	// ColdStarts is how many there were, and how long rows waited for them.
	ColdStarts() (n uint64, waited time.Duration)
	// Loads is what each has computed since it was last asked, by layer.
	Loads() map[uint32][]*pb.FunctionLoad
}

// Computers are the host's; *compute.Computers are.
type Computers interface {
	// Worked is the time in which any was busy.
	Worked(now time.Time) time.Duration
}

// Report says what one host computes and holds.
type Report struct {
	Settings
	d     *deployment.Deployment
	asks  *nats.Subscription // for totals of loads; nil before Listen
	asked atomic.Bool        // for them, since the last samples
}

// New returns a report that nothing was asked of.
func New(s Settings) *Report { return &Report{Settings: s, d: s.Deployment} }

// Listen has the next samples tell all totals when anybody asks for them.
func (r *Report) Listen() (err error) {
	r.asks, err = r.d.Conn.Subscribe(r.d.Subjects.LoadAsk(), "", func(*nats.Msg) { r.asked.Store(true) })
	if err != nil {
		return fmt.Errorf("listening for who asks for the experts' loads: %w", err)
	}
	return nil
}

// Close ends that anybody may ask.
func (r *Report) Close() {
	if r.asks != nil {
		_ = r.asks.Unsubscribe() // fails without a connection: then nobody asks either
	}
}

// Run sends samples about once a second, until ctx ends, and then what is left to say.
func (r *Report) Run(ctx context.Context) {
	tick := time.NewTicker(loads.Every)
	defer tick.Stop()
	before := time.Now()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		now := time.Now()
		r.send(context.WithoutCancel(ctx), now.Sub(before))
		before = now
	}
}

// Fill adds what the host holds to its figures among the members. Nothing here is an entry an
// expert: all members are renewed every 0.4 s, and a model may have thousands.
func (r *Report) Fill(stats map[string]float64) {
	stats["expert_bytes"] = float64(r.Device.Memory().Used)
	stats[members.HostSeconds] = r.Computers.Worked(time.Now()).Seconds()
	used := r.Device.Metered()
	stats[members.HostHeld], stats[members.HostTaken] = used.Held(), used.Taken
	stats[members.HostLoads] = float64(used.Begun + used.Loads)
	coldStarts, _ := r.Functions.ColdStarts()
	stats["cold_starts_total"] = float64(coldStarts)
	if own, ok := r.Device.(device.Reporter); ok {
		own.Report(stats)
	}
	maps.Copy(stats, r.GPU.Figures())
}
