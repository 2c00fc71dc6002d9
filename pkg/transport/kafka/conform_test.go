package kafka_test

import (
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
)

func startEmbedded(t *testing.T) kafka.Config {
	b, err := embedded.Start(embedded.Settings{Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return kafka.Config{Brokers: []string{b.Addr()}}
}

func TestBasic(t *testing.T) {
	c := startEmbedded(t)
	w := write(t, kafka.WriterSettings{Config: c})
	r := read(t, kafka.ReaderSettings{Config: c})
	flows(t, w, r)
	const n = 1000
	for i := range n {
		w.Send(sample("a", uint32(i%10)))
	}
	testkit.Eventually(t, "all samples", func() bool {
		got := 0
		for _, s := range r.samples() {
			if s.Host == "a" {
				got++
			}
		}
		return got == n
	})
}
