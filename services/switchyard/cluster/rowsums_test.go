package cluster_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A host that has all experts sends the aggregator one row a token row.
func TestRowSums(t *testing.T) {
	y := ready(t, settings(t))
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	heard := make(chan *nats.Msg, 1000)
	if _, err = conn.NATS().ChanSubscribe(schemas.NewSubjects(schemas.DefaultPrefix, "tiny").Partial("*"), heard); err != nil {
		t.Fatal(err)
	}
	if err := conn.NATS().FlushTimeout(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	ask(t, y)
	if err := conn.NATS().FlushTimeout(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	k, layers := y.Settings.Node.Shared.Model.Spec.TopK, map[uint32]bool{}
	for range len(heard) {
		p := &pb.Partial{}
		if err := proto.Unmarshal((<-heard).Data, p); err != nil {
			t.Fatal(err)
		}
		layers[p.Key.Layer] = true
		for row, place := range p.Place {
			if p.Key.RowSums || len(p.Place) != int(p.Key.Rows) || int(place) != k*int(p.Key.Rows)+row {
				t.Fatalf("a partial of %d rows has places %v", p.Key.Rows, p.Place)
			}
		}
	}
	if len(layers) < 2 {
		t.Errorf("partials of %d layers were heard", len(layers))
	}
}
