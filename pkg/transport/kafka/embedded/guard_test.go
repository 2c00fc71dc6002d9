package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/kafka/wire"
)

// topic is that of the tests.
const topic = "loads"

func start(t testing.TB, s Settings) *Broker {
	t.Helper()
	s.Listen, s.Topics = "127.0.0.1:0", []string{topic}
	b, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// raw is a connection without a client.
type raw struct {
	net.Conn
	t testing.TB
}

func connect(t testing.TB, b *Broker) *raw {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	return &raw{c, t}
}

// request is one with a client's name.
func request(key, version int16, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(append(b, 0, 0, 0, 7, 0, 2, 'm', 'e'), body...)
}

// ask returns the answer's body, or an error where the connection ends.
func (r *raw) ask(message []byte) ([]byte, error) {
	if _, err := r.Write(wire.Frame(message)); err != nil {
		return nil, err
	}
	size, err := wire.ReadSize(r, 8<<20)
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return b[4:], nil
}

// texts of the protocol.
func text(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func ints(n ...int32) (b []byte) {
	for _, v := range n {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// produce is a request's body.
func produce(to string, partition int32, acks int16, batch []byte) []byte {
	return slices.Concat([]byte{0xff, 0xff}, binary.BigEndian.AppendUint16(nil, uint16(acks)), ints(1000, 1), text(to), ints(1, partition, int32(len(batch))), batch)
}

func batchOf(t testing.TB, codec protocol.Attributes, values ...[]byte) []byte {
	t.Helper()
	var records []protocol.Record
	for _, v := range values {
		records = append(records, protocol.Record{Value: protocol.NewBytes(v)})
	}
	var b bytes.Buffer
	if _, err := (&protocol.RecordSet{Version: 2, Attributes: codec, Records: protocol.NewRecordReader(records...)}).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()[4:]
}

// works wants an ordinary client to be served.
func works(t testing.TB, b *Broker, mechanism sasl.Mechanism) error {
	t.Helper()
	transport := &kafkago.Transport{SASL: mechanism}
	defer transport.CloseIdleConnections()
	client := &kafkago.Client{Addr: kafkago.TCP(b.Addr()), Transport: transport, Timeout: testkit.Patience}
	if _, err := client.Metadata(t.Context(), &kafkago.MetadataRequest{}); err != nil {
		return err
	}
	answer, err := client.Produce(t.Context(), &kafkago.ProduceRequest{
		Topic: topic, RequiredAcks: kafkago.RequireAll, Records: kafkago.NewRecordReader(kafkago.Record{Value: kafkago.NewBytes([]byte("sample"))}),
	})
	if err == nil {
		err = answer.Error
	}
	return err
}

// joining is a JoinGroup of version 2's body.
func joining(group, kind string, protocols ...string) []byte {
	b := slices.Concat(text(group), ints(10000, 0x7fffffff), text(""), text(kind), ints(int32(len(protocols))))
	for _, p := range protocols {
		b = slices.Concat(b, text(p), ints(0))
	}
	return b
}

// What is not well-formed, not needed or above a bound ends the connection or gets an
// error, and nobody else notices.
func TestGuardRefuses(t *testing.T) {
	b := start(t, Settings{})
	good := batchOf(t, 0, []byte("sample"))
	claims := slices.Clone(good)
	copy(claims[57:], ints(0x7fffffff))
	for _, tt := range []struct {
		name    string
		message []byte
		code    int16 // of a Produce's only partition; 0: the connection ends
	}{
		{"kind 9999", request(9999, 0, nil), 0},
		{"kind -1", request(-1, 0, nil), 0},
		{"no header", []byte{0, 0, 0, 0}, 0},
		{"a client of 32767 bytes", slices.Concat(request(3, 1, nil)[:8], []byte{0x7f, 0xff}), 0},
		{"a client of -2 bytes", slices.Concat(request(3, 1, nil)[:8], []byte{0xff, 0xfe}), 0},
		{"a version that is not there", request(wire.Metadata, 9, ints(0)), 0},
		{"topics that are claimed", request(wire.Metadata, 1, ints(0x7fffffff)), 0},
		{"bytes after the end", request(wire.Metadata, 1, ints(0, 0)), 0},
		{"large, and no samples", request(wire.Metadata, 1, make([]byte, maxSmall)), 0},
		{"another topic", request(wire.Produce, 3, produce("mine", 0, 1, good)), codeUnknownTopic},
		{"another topic, no answer", request(wire.Produce, 3, produce("mine", 0, 0, good)), 0},
		{"claimed records", request(wire.Produce, 3, produce(topic, 0, 1, claims)), codeInvalidRecord},
		{"two batches", request(wire.Produce, 3, produce(topic, 0, 1, slices.Concat(good, good))), codeInvalidRecord},
		{"no batch", request(wire.Produce, 3, produce(topic, 0, 1, nil)), codeInvalidRecord},
		{"a bomb", request(wire.Produce, 3, produce(topic, 0, 1, batchOf(t, protocol.Zstd, make([]byte, 8<<20)))), codeTooLarge},
		{"a large batch", request(wire.Produce, 3, produce(topic, 0, 1, batchOf(t, 0, make([]byte, wire.MaxBatch+1)))), codeTooLarge},
		{"a partition that cannot be", request(wire.Produce, 3, produce(topic, 1<<30, 1, good)), 0},
		{"a partition before the first", request(wire.Produce, 3, produce(topic, -1, 1, good)), 0},
		{"two topics", request(wire.Produce, 3, slices.Concat([]byte{0xff, 0xff, 0, 1}, ints(1000, 2), text(topic), ints(0), text(topic), ints(0))), 0},
		{"no topic", request(wire.Produce, 3, slices.Concat([]byte{0xff, 0xff, 0, 1}, ints(1000, 0))), 0},
		{"deleting topics", request(20, 1, slices.Concat(ints(1), text(topic), ints(1000))), 0},
		{"altering settings", request(33, 0, ints(0)), 0},
		{"a producer's number", request(22, 0, slices.Concat(text("txn"), ints(1000))), 0},
		{"a transaction", request(24, 0, nil), 0}, {"its end", request(26, 0, nil), 0},
		{"users", request(51, 0, nil), 0}, {"groups of a later kind", request(68, 0, nil), 0}, {"deleting groups", request(42, 0, ints(0)), 0},
		{"a transaction's coordinator", request(wire.FindCoordinator, 1, append(text("t"), 1)), 0},
		{"a protocol twice", request(wire.JoinGroup, 2, joining("g", "consumer", "range", "range")), 0},
		{"a protocol of its own", request(wire.JoinGroup, 2, joining("g", "consumer", "mine")), 0},
		{"a group of another kind", request(wire.JoinGroup, 2, joining("g", "connect", "range")), 0},
		{"a group without a name", request(wire.JoinGroup, 2, joining("", "consumer", "range")), 0},
		{"an offset of another topic", request(wire.OffsetCommit, 2, slices.Concat(text("g"), ints(-1), text(""), ints(0, 0, 1), text("mine"), ints(0))), 0},
	} {
		answer, err := connect(t, b).ask(tt.message)
		switch {
		case tt.code == 0 && err == nil:
			t.Errorf("%s: got %x", tt.name, answer)
		case tt.code != 0 && (err != nil || !bytes.Contains(answer, binary.BigEndian.AppendUint16(nil, uint16(tt.code)))):
			t.Errorf("%s: got %x, %v, want code %d", tt.name, answer, err, tt.code)
		}
		if err := works(t, b, nil); err != nil {
			t.Fatalf("%s: nobody else is served: %v", tt.name, err)
		}
	}
}

// A topic that is not this broker's is not made, and the answer says which there are not.
func TestGuardMakesNone(t *testing.T) {
	b := start(t, Settings{})
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafkago.Client{Addr: kafkago.TCP(b.Addr()), Transport: transport, Timeout: testkit.Patience}
	answer, err := client.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: "mine", NumPartitions: 1, ReplicationFactor: 1}}})
	if err != nil || answer.Errors["mine"] == nil || !strings.Contains(answer.Errors["mine"].Error(), `no topic "mine"`) {
		t.Errorf("%v, %v", answer, err)
	}
	found, err := client.Metadata(t.Context(), &kafkago.MetadataRequest{})
	if err != nil || len(found.Topics) != 1 || len(found.Topics[0].Partitions) != defaultPartitions {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestLogin(t *testing.T) {
	b := start(t, Settings{User: "me", Password: "secret"})
	for _, tt := range []struct {
		name, user, password string
		algorithm            scram.Algorithm
		ok                   bool
	}{
		{"right", "me", "secret", scram.SHA256, true}, {"right by 512", "me", "secret", scram.SHA512, true},
		{"wrong password", "me", "secre", scram.SHA256, false}, {"wrong user", "you", "secret", scram.SHA256, false},
	} {
		mechanism, err := scram.Mechanism(tt.algorithm, tt.user, tt.password)
		if err != nil {
			t.Fatal(err)
		}
		if err := works(t, b, mechanism); (err == nil) != tt.ok || !tt.ok && !errors.Is(err, kafkago.SASLAuthenticationFailed) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := works(t, b, nil); err == nil {
		t.Error("nobody was asked")
	}
	for _, message := range [][]byte{request(wire.Metadata, 1, ints(0)), request(wire.Produce, 3, make([]byte, maxStrange)), request(wire.FindCoordinator, 0, text("g"))} {
		if answer, err := connect(t, b).ask(message); err == nil {
			t.Errorf("before a login: %x", answer)
		}
	}
}

// Those who do not say who they are keep nobody out who does.
func TestStrangersMakeRoom(t *testing.T) {
	b := start(t, Settings{User: "me", Password: "secret"})
	for range 2 * maxConns {
		connect(t, b)
	}
	mechanism, err := scram.Mechanism(scram.SHA256, "me", "secret")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a client is served", func() bool { return works(t, b, mechanism) == nil })
	b.guard.mu.Lock()
	defer b.guard.mu.Unlock()
	if n := len(b.guard.strange); n > maxConns {
		t.Errorf("%d strangers", n)
	}
}

// As many connections as there is room for, and no more; when they go there is room.
func TestConnections(t *testing.T) {
	b := start(t, Settings{})
	var all []*raw
	for range maxConns {
		all = append(all, connect(t, b))
	}
	for _, c := range all {
		if _, err := c.ask(request(wire.APIVersions, 0, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := connect(t, b).ask(request(wire.APIVersions, 0, nil)); err == nil {
		t.Error("one too many was served")
	}
	for _, c := range all {
		_ = c.Close() // to make room
	}
	testkit.Eventually(t, "a client is served", func() bool { return works(t, b, nil) == nil })
}

// There are so many consumer groups and members, and no more.
func TestGroups(t *testing.T) {
	b := start(t, Settings{})
	c := connect(t, b)
	commit := func(group string) error {
		_, err := c.ask(request(wire.OffsetCommit, 2, slices.Concat(text(group), ints(-1), text(""), ints(0, 0, 1), text(topic), ints(1, 0, 0, 5), text(""))))
		return err
	}
	for i := range maxGroups {
		if err := commit(fmt.Sprint("group-", i)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := commit("one more"); err == nil {
		t.Error("one more group was made")
	}
	c = connect(t, b)
	if err := commit("group-0"); err != nil {
		t.Errorf("a known group: %v", err)
	}
	for i := range 2 * maxMembers { // each gets an id and does not come back
		answer, err := c.ask(request(wire.JoinGroup, 4, joining("group-1", "consumer", "range")))
		if err != nil {
			t.Fatal(err)
		}
		const needsID, full = 79, 81
		if code := binary.BigEndian.Uint16(answer[4:]); (code == needsID) != (i < maxMembers) || code != needsID && code != full {
			t.Fatalf("member %d: code %d", i, code)
		}
	}
}

// A broker without a port is reached from this process alone.
func TestInProcess(t *testing.T) {
	b, err := Start(Settings{Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	transport := &kafkago.Transport{Dial: b.Dial}
	client := &kafkago.Client{Addr: kafkago.TCP(b.Addr()), Transport: transport, Timeout: testkit.Patience}
	if m, err := client.Metadata(t.Context(), &kafkago.MetadataRequest{}); err != nil || len(m.Topics) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	transport.CloseIdleConnections()
	b.Close()
	if c, err := b.Dial(context.Background(), "", ""); err == nil {
		_ = c.Close() // it should not be
		t.Error("a broker that has ended was reached")
	}
}
