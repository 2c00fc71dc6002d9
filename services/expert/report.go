package expert

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

// reportSettings are what a host reports of.
type reportSettings struct {
	Deployment *deployment.Deployment
	// Host is the host's id.
	Host      string
	Functions reportedFunctions
	Computers reportedComputers
	Device    device.Device
	// GPU is what the host computes on; nil is none.
	GPU *gpus.GPU
	// Loads counts the rows of each expert.
	Loads *loads.Counter
}

// reportedFunctions are the host's; a *residency.Residency is.
type reportedFunctions interface {
	// ByPhase counts them by the phases of the metrics.
	ByPhase() map[string]float64
	// ColdStarts is how many there were, and how long rows waited for them.
	ColdStarts() (n uint64, waited time.Duration)
	// Loads is what each has computed since it was last asked, by layer.
	Loads() map[uint32][]*pb.FunctionLoad
}

// reportedComputers are the host's; *compute.Computers are.
type reportedComputers interface {
	// Worked is the time in which any was busy.
	Worked(now time.Time) time.Duration
}

// loadReport says what a host computes and holds, in three places: among the members
// (Fill), in the metrics (Follow), and in load samples (Run), of which those on NATS have the
// rows of experts, and those that go to whoever decides by loads have the functions and the
// host's memory too.
//
// It asks the host's other rooms when it is to say something, and none of them knows it.
type loadReport struct {
	reportSettings
	d     *deployment.Deployment
	asks  *nats.Subscription // for totals of loads; nil before Listen
	asked atomic.Bool        // for them, since the last samples
}

func newLoadReport(s reportSettings) *loadReport {
	return &loadReport{reportSettings: s, d: s.Deployment}
}

// Listen has the next samples tell all totals when anybody asks for them.
func (r *loadReport) Listen() (err error) {
	r.asks, err = r.d.Conn.Subscribe(r.d.Subjects.LoadAsk(), "", func(*nats.Msg) { r.asked.Store(true) })
	if err != nil {
		return fmt.Errorf("listening for who asks for the experts' loads: %w", err)
	}
	return nil
}

// Close ends that anybody may ask.
func (r *loadReport) Close() {
	if r.asks != nil {
		_ = r.asks.Unsubscribe() // fails without a connection: then nobody asks either
	}
}

// Run sends samples about once a second, until ctx ends, and then what is left to say.
func (r *loadReport) Run(ctx context.Context) {
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
func (r *loadReport) Fill(stats map[string]float64) {
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
