package kafka_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	produceapi "github.com/segmentio/kafka-go/protocol/produce"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/wire"
)

// A topic in which somebody has put little batches that become much: a reader leaves
// them out, counts them, and goes on after them.
func testBombs(t *testing.T, s *scene) {
	client := s.client(t)
	made, err := client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: s.config.Topic, NumPartitions: 32, ReplicationFactor: 1}}, // with any compression
	})
	if err != nil || made.Errors[s.config.Topic] != nil {
		t.Fatal(err, made)
	}
	w := write(t, kafka.WriterSettings{Config: s.config})
	r := read(t, kafka.ReaderSettings{Config: s.config})
	flows(t, w, r)
	before := testkit.Memory()
	for p := range int32(4) {
		for _, codec := range []protocol.Attributes{protocol.Gzip, protocol.Zstd, protocol.Lz4} {
			bomb(t, client, s.config.Topic, p, codec)
		}
	}
	testkit.Eventually(t, "the bombs are refused", func() bool { return r.of(kafka.Refused) >= 12 })
	handled := r.of(kafka.Handled)
	testkit.Eventually(t, "samples after them come", func() bool {
		for layer := range uint32(64) {
			w.Send(sample("after", layer))
		}
		return r.of(kafka.Handled) > handled+64
	})
	if grown := testkit.Memory() - before; grown > 256<<20 {
		t.Errorf("memory has grown by %d MiB", grown>>20)
	}
}

// bomb is a batch of 100 MB; so many would be more than a gigabyte.
func bomb(t *testing.T, client *kafkago.Client, topic string, partition int32, codec protocol.Attributes) {
	t.Helper()
	records := make([]protocol.Record, 200)
	value := make([]byte, 500<<10)
	for i := range records {
		records[i].Value = protocol.NewBytes(value)
	}
	answer, err := client.Transport.RoundTrip(t.Context(), client.Addr, &produceapi.Request{Acks: -1, Timeout: 5000, Topics: []produceapi.RequestTopic{{
		Topic: topic, Partitions: []produceapi.RequestPartition{{Partition: partition, RecordSet: protocol.RecordSet{Attributes: codec, Records: protocol.NewRecordReader(records...)}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if stored, ok := answer.(*produceapi.Response); !ok || stored.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(answer)
	}
}

// hostile is a broker that begins as it should and then answers one kind of request with
// what it likes.
type hostile struct {
	net.Listener
	t      *testing.T
	key    int16
	answer []byte // with its length, but for the number; nil: there is none
	asked  chan struct{}
	conns  sync.WaitGroup
	addr   []byte // its own, as in answers
}

func newHostile(t *testing.T, key int16, answer []byte) *hostile {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{Listener: l, t: t, key: key, answer: answer, asked: make(chan struct{}, 1)}
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	h.addr = slices.Concat(ints(1), text(at.Addr().String()), ints(int32(at.Port())))
	h.conns.Go(h.accept)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		h.conns.Wait()
	})
	return h
}

func (h *hostile) accept() {
	for {
		c, err := h.Accept()
		if err != nil {
			return
		}
		h.conns.Go(func() { h.serve(c) })
	}
}

func (h *hostile) serve(c net.Conn) {
	defer func() { _ = c.Close() }() // it has said what it had to
	for {
		size, err := wire.ReadSize(c, 1<<20)
		if err != nil {
			return
		}
		message, err := wire.ReadBody(c, size)
		if err != nil {
			return
		}
		head, _, err := wire.ParseHeader(message)
		if err != nil {
			return
		}
		number := ints(head.Correlation)
		if head.Key == h.key {
			if h.answer != nil {
				_, err = c.Write(slices.Concat(h.answer[:4], number, h.answer[4:]))
			}
			select {
			case h.asked <- struct{}{}:
			default:
			}
		} else {
			_, err = c.Write(wire.Frame(append(number, h.usual(head)...)))
		}
		if err != nil {
			return
		}
	}
}

// usual is what a broker answers that has the topic, and nothing in it.
func (h *hostile) usual(head wire.Header) []byte {
	topic := text(kafka.DefaultTopic)
	switch head.Key {
	case wire.APIVersions:
		b := ints(0, 0)[:2]
		b = append(b, ints(int32(len(wire.Known())))...)
		for _, a := range wire.Known() {
			v := a.Min // the oldest one, whose answers are below
			b = binary.BigEndian.AppendUint16(b, uint16(a.Key))
			b = binary.BigEndian.AppendUint16(b, uint16(v))
			b = binary.BigEndian.AppendUint16(b, uint16(v))
		}
		return b
	case wire.Metadata:
		partition := slices.Concat([]byte{0, 0}, ints(0, 1, 1, 1, 1, 1))
		if head.Version == 0 {
			return slices.Concat(ints(1), h.addr, ints(1), []byte{0, 0}, topic, ints(1), partition)
		}
		return slices.Concat(ints(1), h.addr, text(""), ints(1, 1), []byte{0, 0}, topic, []byte{0}, ints(1), partition)
	case wire.FindCoordinator:
		return append([]byte{0, 0}, h.addr...)
	}
	return nil
}

func text(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func ints(n ...int32) (b []byte) {
	for _, v := range n {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// A broker's answers that claim what they do not have, or have no end, cost a gate or a
// scaler nothing but the connection.
func TestHostileBroker(t *testing.T) {
	const most = 0x7fffffff
	framed := func(body ...[]byte) []byte {
		b := slices.Concat(body...)
		return append(ints(int32(4+len(b))), b...)
	}
	for _, tt := range []struct {
		name   string
		key    int16
		answer []byte
	}{
		{"a long answer", wire.Metadata, ints(most)},
		{"a short answer", wire.Metadata, ints(0)},
		{"brokers that are claimed", wire.Metadata, framed(ints(most))},
		{"topics that are claimed", wire.Metadata, framed(ints(0, most))},
		{"a long text", wire.Metadata, framed(ints(1, 1), []byte{0x7f, 0xff})},
		{"versions that are claimed", wire.APIVersions, framed([]byte{0, 0}, ints(most))},
		{"a long answer of versions", wire.APIVersions, ints(most)},
		{"no coordinator", wire.FindCoordinator, framed([]byte{0, 0}, ints(1), []byte{0x7f, 0xff})},
		{"samples that are stored", wire.Produce, framed(ints(most))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHostile(t, tt.key, tt.answer)
			c := kafka.Config{Brokers: []string{h.Addr().String()}}
			log := &logged{}
			before := testkit.Memory()
			w := write(t, kafka.WriterSettings{Config: c, Logger: log.logger(), Waiting: 10})
			r := read(t, kafka.ReaderSettings{Config: c, Logger: slog.New(slog.DiscardHandler)})
			w.Send(sample("gate-1", 1))
			<-h.asked
			if tt.key != wire.FindCoordinator {
				testkit.Eventually(t, "it is told", func() bool { return strings.Contains(log.String(), "load samples are not sent") })
			}
			r.stop()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if err := w.Close(ctx); err == nil {
				t.Error("the sample was sent")
			}
			if grown := testkit.Memory() - before; grown > 64<<20 {
				t.Errorf("memory has grown by %d MiB", grown>>20)
			}
		})
	}
}

// A member whose group waits for somebody who does not come back ends all the same.
func TestLeavesAtOnce(t *testing.T) {
	h := newHostile(t, wire.JoinGroup, nil)
	r := read(t, kafka.ReaderSettings{Config: kafka.Config{Brokers: []string{h.Addr().String()}}, Session: time.Hour})
	<-h.asked // and there is no answer
	r.stop()
}
