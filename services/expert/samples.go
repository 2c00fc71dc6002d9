package expert

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// send says what each expert has computed in a span of time.
func (r *loadReport) send(ctx context.Context, span time.Duration) {
	samples := r.Loads.Take(span, r.asked.Swap(false))
	for _, sample := range samples {
		// An error means disconnected: a later sample has the totals.
		_ = r.d.Conn.Send(ctx, r.d.Subjects.Load(), sample, nil)
	}
	if r.d.Loads != nil {
		r.sink(samples, span)
	}
}

// sink tells whoever decides by loads of everything: of each layer that
// something was computed in or that has functions here, and of the host with each;
// one that has nothing tells of its memory alone. The samples are given away.
func (r *loadReport) sink(samples []*pb.LoadSample, span time.Duration) {
	byLayer := r.Functions.Loads()
	for _, sample := range samples {
		sample.Functions = byLayer[sample.Layer]
		delete(byLayer, sample.Layer)
	}
	if len(samples)+len(byLayer) == 0 {
		byLayer[uint32(r.d.MoELayers()[0])] = nil
	}
	for layer, functions := range byLayer {
		samples = append(samples, &pb.LoadSample{
			Version: schemas.Version, Model: r.d.Identity.Model, Host: r.Host, Layer: layer, Functions: functions,
			SpanMs: uint32(max(1, span.Milliseconds())),
		})
	}
	host := r.host()
	for _, sample := range samples {
		sample.Memory, sample.Use = host, useOf(r.Device.MeteredLayer(int(sample.Layer)))
		r.d.Loads.Send(sample)
	}
}

// host returns the host as load samples tell it.
func (r *loadReport) host() *pb.HostLoad {
	m, phases := r.Device.Memory(), r.Functions.ByPhase()
	coldStarts, coldWait := r.Functions.ColdStarts()
	return &pb.HostLoad{
		BudgetBytes: uint64(m.Budget), UsedBytes: uint64(m.Used),
		Warm: uint32(phases["warm"]), Kept: uint32(phases["kept"]), Cold: uint32(phases["cold"]), Warming: uint32(phases["warming"]),
		ColdStarts: coldStarts, ColdStartNs: uint64(coldWait), Gpu: r.GPU.Figures(), Use: useOf(r.Device.Metered()),
	}
}

func useOf(m meter.Sums) *pb.MemoryUse {
	return &pb.MemoryUse{
		LoadingGbS: m.Loading, KeptGbS: m.Kept, ServingGbS: m.Serving, TakenGbS: m.Taken,
		Loads: m.Loads, LoadedBytes: m.Moved, PeakBytes: m.Peak, Seconds: m.Seconds,
	}
}
