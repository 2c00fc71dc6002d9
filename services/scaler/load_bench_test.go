package scaler

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The model and the fleet of the benchmarks, and the samples that come in a second if each of
// a thousand hosts tells of nearly all layers.
const (
	benchLayers, benchExperts, benchHosts = 61, 256, 1000
	benchRate                             = 60_000
)

// benchPolicy is a scaler's policy that plans.
func benchPolicy(b *testing.B) *policy {
	b.Helper()
	m := elastic.Model{Model: plan.Model{Experts: benchExperts, ExpertBytes: 44 << 20}, Hash: 7, TopK: 8}
	for l := range benchLayers {
		m.MoELayers = append(m.MoELayers, l)
	}
	t := &telemetry.Telemetry{Metrics: telemetry.NewMetrics(prometheus.NewRegistry())}
	s := elastic.DefaultSettings()
	s.Scaling = "moeless+lean"
	p := newPolicy(s, m, nil, t, slog.New(slog.DiscardHandler))
	p.Begin()
	return p
}

// hostSample is what a host tells of a layer in a second: two experts, as one function.
func hostSample(i int) *pb.LoadSample {
	layer, host := i%benchLayers, i/benchLayers%benchHosts
	e := uint32(host*2) % (benchExperts - 1)
	return &pb.LoadSample{
		Version: schemas.Version, Model: 7, Host: fmt.Sprintf("expert-%04d", host), Layer: uint32(layer), SpanMs: 1000,
		Expert: []uint32{e, e + 1}, Rows: []uint64{120, 90}, Total: []uint64{12000, 9000},
		Functions: []*pb.FunctionLoad{{Id: plan.FunctionID(layer, []uint32{e, e + 1}, plan.Routed), Expert: []uint32{e, e + 1}, Messages: 60, Rows: 210, QueueNs: 1e6, StallNs: 1e5, ComputeNs: 30e6}},
		Memory:    &pb.HostLoad{BudgetBytes: 80e9, UsedBytes: 40e9, Warm: 61, Kept: 3}, Use: &pb.MemoryUse{ServingGbS: 4, TakenGbS: 5, Seconds: 1, Loads: 3},
	}
}

// gateSample is what a gate tells of a layer in an interval: a step of a batch of 256, and the
// sum of nine others.
func gateSample(i int) *pb.LoadSample {
	s := &pb.LoadSample{
		Version: schemas.Version, Model: 7, Host: fmt.Sprintf("gate-%02d", i/benchLayers%16), Layer: uint32(i % benchLayers), SpanMs: 100, Source: pb.LoadSource_LOAD_SOURCE_GATE,
		Steps: []*pb.StepLoad{{Owner: "attention-a", Rows: 256}, {Owner: "attention-a", Rows: 256 * 9, Parts: 9}},
	}
	for e := range uint32(benchExperts) {
		for _, step := range s.Steps {
			step.Expert, step.Count = append(step.Expert, e), append(step.Count, step.Rows*8/benchExperts)
		}
	}
	return s
}

// What a sample costs a scaler once it is there: decoding it, and taking it in.
func BenchmarkSample(b *testing.B) {
	for name, make := range map[string]func(int) *pb.LoadSample{"host": hostSample, "gate": gateSample} {
		b.Run(name, func(b *testing.B) {
			p := benchPolicy(b)
			var bodies [][]byte
			for i := range benchLayers * 16 {
				body, err := proto.Marshal(make(i))
				if err != nil {
					b.Fatal(err)
				}
				bodies = append(bodies, body)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				s := &pb.LoadSample{}
				if err := proto.Unmarshal(bodies[n%len(bodies)], s); err != nil {
					b.Fatal(err)
				}
				n++
				s.Number = uint64(n)
				p.observe(s)
			}
			if c := p.core.Counts(); len(c.Refused) > 0 || c.Taken != uint64(n) {
				b.Fatalf("%+v of %d", c, n)
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(n)*benchRate, "cores-at-60000/s")
		})
	}
}

// BenchmarkLoad sends hosts' samples at the full rate through a broker of this process for some
// seconds, first to nobody and then to a scaler.
func BenchmarkLoad(b *testing.B) {
	const seconds = 4
	for b.Loop() {
		alone, _ := benchLoad(b, seconds, false)
		read, lag := benchLoad(b, seconds, true)
		b.ReportMetric((read-alone)/seconds, "scaler-cores")
		b.ReportMetric(alone/seconds, "sender-and-broker-cores")
		b.ReportMetric(1e3*float64(lag)/benchRate, "most-lag-ms")
	}
}

// benchLoad says how many seconds of processors it takes, and how many samples were on their way
// at most.
func benchLoad(b *testing.B, seconds int, scales bool) (cpu float64, most int) {
	b.Helper()
	broker, err := embedded.Start(embedded.Settings{Topics: []string{kafka.DefaultTopic}, Partitions: kafka.LeastPartitions})
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	config, log := kafka.Config{Brokers: []string{broker.Addr()}, Dial: broker.Dial, Insecure: true}, slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(b.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	p := benchPolicy(b)
	reader, err := kafka.NewReader(kafka.ReaderSettings{Config: config, Group: "scaler", Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	writers := make([]*kafka.Writer, 16)
	for i := range writers {
		if writers[i], err = kafka.NewWriter(kafka.WriterSettings{Config: config, Logger: log, Waiting: 1 << 14}); err != nil {
			b.Fatal(err)
		}
	}
	taken := func() int { return int(p.core.Counts().Taken) }
	if scales {
		reading.Go(func() { _ = reader.Consume(ctx, p.observe) })
		testkit.Eventually(b, "a first sample", func() bool { writers[0].Send(hostSample(0)); return taken() > 0 })
	}
	before := taken()
	began, used := time.Now(), processors(b)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for sent := 0; sent < seconds*benchRate; most = max(most, sent+before-taken()) {
		for due := min(int(time.Since(began).Seconds()*benchRate), seconds*benchRate); sent < due; sent++ {
			writers[sent/benchLayers%benchHosts%len(writers)].Send(hostSample(sent))
		}
		<-tick.C
	}
	if scales {
		testkit.Eventually(b, "all samples", func() bool { return taken() >= seconds*benchRate+before })
	}
	cpu = processors(b) - used
	for _, w := range writers {
		if err := w.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return cpu, most
}

// processors are the seconds of processors that this process has used.
func processors(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
