package kafka_test

import (
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// BenchmarkWriter is the processor time of one batch of a gate: a sample of each of
// 16 layers, sent and stored by a broker in this process.
func BenchmarkWriter(b *testing.B) {
	broker, err := embedded.Start(embedded.Settings{Topics: []string{kafka.DefaultTopic}})
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	c := newCounts()
	w, err := kafka.NewWriter(kafka.WriterSettings{
		Config: kafka.Config{Brokers: []string{broker.Addr()}, Dial: broker.Dial, Insecure: true}, Logger: slog.New(slog.DiscardHandler), Count: c.add,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = w.Close(ended()) }()
	begin, sent := cpu(b), 0
	for b.Loop() {
		for layer := range uint32(16) {
			s := sample("gate-1", layer)
			s.Steps = []*pb.StepLoad{{Owner: "attention-1", Epoch: 1, Step: 9, Rows: 16, Expert: []uint32{0, 1, 2, 3, 4, 5, 6, 7}, Count: []uint32{1, 2, 3, 4, 5, 6, 7, 8}}}
			w.Send(s)
		}
		for sent += 16; c.of(kafka.Sent) < sent; {
			time.Sleep(time.Millisecond)
		}
	}
	b.ReportMetric((cpu(b)-begin)*1e6/float64(b.N), "cpu-µs/op")
}

// cpu is the processor time of this process in seconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
