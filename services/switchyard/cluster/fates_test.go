package cluster_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What a gate says of a slot's fate comes through host, aggregator and attention to the
// record of the token that the row was computed for, and to the packed log.
func TestFates(t *testing.T) {
	s := settings(t)
	k := s.Node.Shared.Model.Spec.TopK
	s.Services.Gate.Fates = func(h *pb.Hidden) *pb.Fates { // the last slot of the last row
		shape := wire.FatesShape{Rows: int(h.Key.Rows), Layers: 1, Slots: k}
		codes := make([]wire.FateCode, shape.Rows*k)
		codes[len(codes)-1] = wire.FateUnited
		return wire.EncodeFates(shape, codes)
	}
	y := ready(t, s)
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard := make(chan *nats.Msg, 1000)
	if _, err = conn.NATS().ChanSubscribe(schemas.NewSubjects(schemas.DefaultPrefix, "tiny").AnyToken(), heard); err != nil {
		t.Fatal(err)
	}
	if err := conn.NATS().FlushTimeout(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	ask(t, y)
	tokens, packed := 0, (*pb.Packed)(nil)
	testkit.Eventually(t, "a packed log", func() bool {
		for range len(heard) {
			r := &pb.Record{}
			if err := proto.Unmarshal((<-heard).Data, r); err != nil {
				t.Fatal(err)
			}
			if token := r.GetToken(); token != nil {
				tokens++
				checkLast(t, token.Fates, k)
			}
			packed = r.GetPacked()
		}
		return packed != nil
	})
	if tokens == 0 || len(packed.Fates) != tokens || len(packed.TokenIds) != tokens {
		t.Fatalf("%d tokens, %d with fates in the packed log", tokens, len(packed.Fates))
	}
	for _, f := range packed.Fates {
		checkLast(t, f.Fates, k)
	}
}

// checkLast wants the newest row's last slot of each layer to be of a united expert.
func checkLast(t *testing.T, list []*pb.Fates, k int) {
	t.Helper()
	if len(list) == 0 {
		t.Fatal("no fates")
	}
	last := list[len(list)-1]
	codes, err := wire.DecodeFates(last)
	if err != nil || int(last.Slots) != k || codes[len(codes)-1] != wire.FateUnited || codes[len(codes)-2] != wire.FateOwn {
		t.Errorf("%v: %v, %v", last, codes, err)
	}
}
