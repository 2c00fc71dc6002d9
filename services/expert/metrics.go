package expert

import (
	"errors"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// follow lets the metrics show what the host has, until stop is called.
func (s *Service) follow(m telemetry.HostMetrics) (stop func()) {
	stops := []func(){
		m.Functions.Follow(s.byPhase), m.Memory.Follow(s.bytes), m.Loads.Follow(s.loading),
		m.GigabyteSeconds.Follow(s.gigabyteSeconds), m.Taken.Follow(s.taken), m.Moved.Follow(s.moved),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// phaseNames are those of the metrics; kept functions are warm ones.
var phaseNames = map[pb.FunctionPhase]string{
	isCold: "cold", isWarming: "warming", isWarm: "warm", isDraining: "draining", isRefused: "refused",
}

// byPhase counts the host's functions.
func (s *Service) byPhase() map[string]float64 {
	out := map[string]float64{"kept": 0}
	for _, name := range phaseNames {
		out[name] = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.functions {
		out[phaseOf(f.state)]++
	}
	return out
}

func phaseOf(f *pb.FunctionState) string {
	if f.Phase == isWarm && !f.Joined {
		return "kept"
	}
	return phaseNames[f.Phase]
}

func (s *Service) bytes() map[string]float64 {
	m := s.device.Memory()
	out := map[string]float64{"used": float64(m.Used)}
	if m.Budget > 0 {
		out["budget"] = float64(m.Budget)
	}
	return out
}

func (s *Service) loading() map[string]float64 {
	m := s.device.Memory()
	return map[string]float64{"waiting": float64(m.Waiting), "running": float64(m.Running)}
}

// countLoad counts a load that has begun and ended.
func countLoad(m telemetry.HostMetrics, e device.Ended) {
	var refused *device.RefusedError
	switch {
	case errors.As(e.Err, &refused): // it has not begun
	case errors.Is(e.Err, device.ErrCancelled):
		m.Loaded("cancelled", e.Took.Seconds())
	case e.Err != nil:
		m.Loaded("failed", e.Took.Seconds())
	default:
		m.Loaded("warm", e.Took.Seconds())
	}
}

// hostLoad is the host as load samples tell it.
func (s *Service) hostLoad() *pb.HostLoad {
	m, phases := s.device.Memory(), s.byPhase()
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.HostLoad{
		BudgetBytes: uint64(m.Budget), UsedBytes: uint64(m.Used),
		Warm: uint32(phases["warm"]), Kept: uint32(phases["kept"]), Cold: uint32(phases["cold"]), Warming: uint32(phases["warming"]),
		ColdStarts: s.coldStarts, ColdStartNs: uint64(s.coldWait), Gpu: s.config.GPU.Figures(), Use: s.memoryUse(),
	}
}

// memoryUse is what experts in the device's memory have come to.
func (s *Service) memoryUse() *pb.MemoryUse { return useOf(s.device.Metered()) }

func useOf(m meter.Sums) *pb.MemoryUse {
	return &pb.MemoryUse{
		LoadingGbS: m.Loading, KeptGbS: m.Kept, ServingGbS: m.Serving, TakenGbS: m.Taken,
		Loads: m.Loads, LoadedBytes: m.Moved, PeakBytes: m.Peak, Seconds: m.Seconds,
	}
}

// gigabyteSeconds are those of the metrics.
func (s *Service) gigabyteSeconds() map[string]float64 {
	m := s.device.Metered()
	return map[string]float64{"loading": m.Loading, "kept": m.Kept, "serving": m.Serving}
}

// moved are the bytes that were loaded, by the tier that has them.
func (s *Service) moved() map[string]float64 {
	return map[string]float64{deviceTier: float64(s.device.Metered().Moved)}
}

// taken are the GB·s that rows were told to have taken.
func (s *Service) taken() map[string]float64 {
	return map[string]float64{deviceTier: s.device.Metered().Taken}
}

// deviceTier names the one tier that hosts have.
const deviceTier = "device"
