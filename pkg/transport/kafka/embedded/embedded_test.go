package embedded

import (
	"bytes"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// What is too much goes, the oldest first: memory is bounded.
func TestTrim(t *testing.T) {
	b, err := Start(Settings{Listen: "127.0.0.1:0", Topics: []string{"a"}, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafkago.Client{Addr: kafkago.TCP(b.Addr()), Transport: transport}
	if _, err := client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: "a", NumPartitions: 1, ReplicationFactor: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	const messages, size = 100, 100 << 10
	for range messages {
		answer, err := client.Produce(t.Context(), &kafkago.ProduceRequest{
			Topic: "a", RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(kafkago.Record{Value: kafkago.NewBytes(bytes.Repeat([]byte{7}, size))}),
		})
		if err != nil || answer.Error != nil {
			t.Fatal(err, answer)
		}
	}
	b.cluster.ApplyRetention()
	offsets, err := client.ListOffsets(t.Context(), &kafkago.ListOffsetsRequest{
		Topics: map[string][]kafkago.OffsetRequest{"a": {kafkago.FirstOffsetOf(0), kafkago.LastOffsetOf(0)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := offsets.Topics["a"][0]
	if n := kept.LastOffset - kept.FirstOffset; kept.LastOffset != messages || n == 0 || n > keepBytes/size+1 {
		t.Errorf("offsets %d to %d are kept", kept.FirstOffset, kept.LastOffset)
	}
}

func TestStartRefuses(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "example.org:9092", "127.0.0.1", ":9092"} {
		if b, err := Start(Settings{Listen: listen, Topics: []string{"a"}}); err == nil {
			b.Close()
			t.Errorf("%q was taken", listen)
		}
	}
	b, err := Start(Settings{Listen: "127.0.0.1:0", Topics: []string{"a"}, Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := Start(Settings{Listen: b.Addr(), Topics: []string{"a"}}); err == nil {
		t.Error("a taken port was taken again")
	}
}
