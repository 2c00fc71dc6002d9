package hints

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What rows wait for: the count of a dispatch's two experts, which are there, in a model of
// Mixtral's layers and experts, half of which the host holds and which hints name.
func BenchmarkArrived(b *testing.B) {
	const layers, experts = 32, 8
	outlook, err := residency.NewOutlook(layers, experts, 2, 1)
	if err != nil {
		b.Fatal(err)
	}
	tel, err := telemetry.Setup(b.Context(), telemetry.Config{})
	if err != nil {
		b.Fatal(err)
	}
	fake := devicetest.NewFake(layers, experts, device.Settings{Budget: layers * experts / 2 * devicetest.Bytes, Order: residency.FMoE{Outlook: outlook}})
	defer fake.Close()
	f := NewFollower(Settings{
		Device: fake, Serves: func(int, int) bool { return true }, Fetch: true, Outlook: outlook,
		Layers: layers, Experts: experts, Metrics: tel.Metrics.Hosts,
	})
	defer f.Close()
	h := &pb.Hint{Owner: "a"}
	for layer := range uint32(layers) {
		h.Layers = append(h.Layers, &pb.LayerHint{Layer: layer, Kind: plan.Routed, Unit: []uint32{0, 1}, Probability: []float32{0.6, 0.3}})
		t := fake.Load(context.Background(), id(int(layer), 0), 0)
		<-t.Done()
		t.Release()
	}
	d := &pb.Dispatch{Key: &pb.Key{Owner: "a"}, Expert: []uint32{0, 1}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if d.Key.Layer = uint32(i % layers); d.Key.Layer == 0 {
			b.StopTimer()
			d.Key.Step++
			h.Step = d.Key.Step
			f.Follow(h)
			b.StartTimer()
		}
		f.Arrived(trace.SpanContext{}, d)
	}
}
