package expert

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// spent is what a function's dispatches took since it was last told.
type spent struct {
	messages, rows, queue, stall, compute atomic.Uint64
}

func (s *spent) add(t *pb.FunctionTime) {
	s.messages.Add(1)
	s.rows.Add(uint64(t.Rows))
	s.queue.Add(t.QueueNs)
	s.stall.Add(t.StallNs)
	s.compute.Add(t.ComputeNs)
}

// tell takes what there is to tell of a function.
func (f *function) tell() *pb.FunctionLoad {
	l := &pb.FunctionLoad{
		Id: f.spec.Id, Expert: slices.Sorted(slices.Values(f.spec.Experts)),
		Messages: f.spent.messages.Swap(0), Rows: f.spent.rows.Swap(0),
		QueueNs: f.spent.queue.Swap(0), StallNs: f.spent.stall.Swap(0), ComputeNs: f.spent.compute.Swap(0),
	}
	if f.receiving != nil {
		l.Waiting = uint32(f.receiving.Waiting())
	}
	return l
}

// sinkSamples tells whoever decides by loads of everything: of each layer that
// something was computed in or that has functions here, and of the host with each;
// one that has nothing tells of its memory alone. The samples are given away.
func (s *Service) sinkSamples(samples []*pb.LoadSample, span time.Duration) {
	byLayer := s.layerFunctions()
	for _, sample := range samples {
		sample.Functions = byLayer[sample.Layer]
		delete(byLayer, sample.Layer)
	}
	if len(samples)+len(byLayer) == 0 {
		byLayer[uint32(s.d.MoELayers()[0])] = nil
	}
	for layer, functions := range byLayer {
		samples = append(samples, &pb.LoadSample{
			Version: schemas.Version, Model: s.d.Identity.Model, Host: s.id, Layer: layer, Functions: functions,
			SpanMs: uint32(max(1, span.Milliseconds())),
		})
	}
	host := s.hostLoad()
	for _, sample := range samples {
		sample.Memory, sample.Use = host, useOf(s.device.MeteredLayer(int(sample.Layer)))
		s.d.Loads.Send(sample)
	}
}

// layerFunctions tells of the host's functions, by layer.
func (s *Service) layerFunctions() map[uint32][]*pb.FunctionLoad {
	out := map[uint32][]*pb.FunctionLoad{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.functions {
		out[uint32(f.layer)] = append(out[uint32(f.layer)], f.tell())
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b *pb.FunctionLoad) int { return cmp.Compare(a.Id, b.Id) })
	}
	return out
}
