package expert

import (
	"log/slog"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// rooms are the others of the host.
type rooms struct{ loads map[uint32][]*pb.FunctionLoad }

func (r *rooms) ByPhase() map[string]float64 {
	return map[string]float64{"warm": 1, "kept": 2, "cold": 3}
}

func (r *rooms) ColdStarts() (uint64, time.Duration) { return 5, time.Second }

func (r *rooms) Worked(time.Time) time.Duration { return 3 * time.Second }

// Loads are told once, in a map that is given away.
func (r *rooms) Loads() map[uint32][]*pb.FunctionLoad {
	told := r.loads
	r.loads = nil
	if told == nil {
		told = map[uint32][]*pb.FunctionLoad{}
	}
	return told
}

// holding is a device that holds an expert of layer 0.
func holding(t *testing.T) *devicetest.Fake {
	t.Helper()
	on := devicetest.NewFake(2, 4, device.Settings{Budget: 4 * devicetest.Bytes})
	held := on.Load(t.Context(), forward.ExpertID{Expert: 2}, 0)
	if err := held.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Release(); on.Close() })
	return on
}

// A heartbeat has what the other rooms and the device say.
func TestFill(t *testing.T) {
	r := newLoadReport(reportSettings{Functions: &rooms{}, Computers: &rooms{}, Device: holding(t)})
	stats := map[string]float64{}
	r.Fill(stats)
	for name, want := range map[string]float64{"cold_starts_total": 5, members.HostSeconds: 3, "expert_bytes": devicetest.Bytes, members.HostLoads: 2} {
		if got, is := stats[name]; !is || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// Heartbeats and samples of loads have what the GPU says of itself, and nothing that it
// does not say.
func TestGPUFigures(t *testing.T) {
	said := fake.NewFacts()
	said.Set(cuda.Temperature, 61)
	said.Without(cuda.Busy)
	w := gpus.NewWatch(said)
	r := newLoadReport(reportSettings{Functions: &rooms{}, Computers: &rooms{}, Device: holding(t), GPU: &gpus.GPU{Watch: w}})
	beat := func() map[string]float64 {
		stats := map[string]float64{}
		r.Fill(stats)
		return stats
	}
	for _, figures := range []map[string]float64{beat(), r.host().Gpu} {
		if _, says := figures[string(cuda.Temperature)]; says {
			t.Errorf("before anything was read: %v", figures)
		}
	}
	defer w.Follow(t.Context(), slog.New(slog.DiscardHandler), func(error) {})()
	testkit.Eventually(t, "figures", func() bool { return w.State().Values != nil })
	for _, figures := range []map[string]float64{beat(), r.host().Gpu} {
		throttled, says := figures[members.DeviceThrottled]
		if _, busy := figures[string(cuda.Busy)]; busy || !says || throttled != 0 || figures[string(cuda.Temperature)] != 61 {
			t.Errorf("%v", figures)
		}
	}
}
