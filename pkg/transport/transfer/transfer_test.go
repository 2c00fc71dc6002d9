package transfer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// Every mode passes the suite over a store in memory.
func TestSuite(t *testing.T) {
	Run(t, func(*testing.T) Backend {
		m := &Memory{}
		return Backend{Objects: m, Count: m.Count}
	})
}

// Every mode passes the suite over JetStream.
func TestSuiteOverJetStream(t *testing.T) {
	conn, streams := testserver.Connect(t), schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "m"), Moved: true}
	stream := streams.Objects()
	if err := conn.Ensure(t.Context(), 1, stream); err != nil {
		t.Fatal(err)
	}
	Run(t, func(t *testing.T) Backend {
		if err := conn.Empty(t.Context(), stream.Name); err != nil {
			t.Fatal(err)
		}
		return Backend{Objects: transfer.NewObjectStore(conn, streams), Count: func() int {
			state, err := conn.State(t.Context(), stream.Name)
			if err != nil {
				t.Fatal(err)
			}
			return int(state.Messages)
		}}
	})
}

// A dispatch that no message takes goes by an object, and where nothing is stored in several messages; the
// answer is the same.
func TestOutgrows(t *testing.T) {
	for name, store := range map[string]error{"stored": nil, "nothing is stored": transfer.ErrNoStore} {
		t.Run(name, func(t *testing.T) {
			m := &Memory{}
			r := NewRig(t, m)
			r.Payload, r.Objects.Putting = 8000, func(string) error { return store }
			const rows = 600
			d := DispatchOf(1, rows)
			places := len(d.Place)
			if err := r.Scatter(Ways[0], d); err != nil {
				t.Fatal(err)
			}
			fell, all := r.Fell(), r.Dispatches()
			if fell["3 to 2: payload"] != 1 || (store == nil) != (len(all) == 1 && len(fell) == 1) || (store != nil) != (fell["2 to 3: unavailable"] == 1) {
				t.Errorf("%d messages; fell back %v", len(all), fell)
			}
			r.Payload = 0
			if _, err := r.Host(all, false, -1); err != nil {
				t.Fatal(err)
			}
			if a, err := r.Gather(); err != nil || len(a.Rows) != places || a.Told != 1 {
				t.Errorf("%d rows, told %d times; %v", len(a.Rows), a.Told, err)
			}
		})
	}
}

// Spans of a pipelined dispatch stand beside each other: rows are fetched while outputs of others are stored.
func TestSpansOverlap(t *testing.T) {
	r := NewRig(t, &Memory{})
	if err := r.Scatter(Way{Mode: plan.Pipelined, Minibatch: 3}, Dispatch(1)); err != nil {
		t.Fatal(err)
	}
	storing, fetching := make(chan struct{}), make(chan struct{})
	await := func(other chan struct{}, what string) {
		select {
		case <-other:
		case <-time.After(testkit.Patience):
			t.Errorf("%s did not begin beside the other", what)
		}
	}
	r.Span = func(_ context.Context, stage string, _ *pb.Key, minibatch int) func() {
		switch {
		case stage == transfer.Store && minibatch == 0:
			close(storing)
		case stage == transfer.Fetch && minibatch == 2:
			await(storing, "storing outputs")
			close(fetching)
		}
		return func() {}
	}
	r.Objects.Putting = func(string) error { await(fetching, "fetching rows"); return nil }
	if n, err := r.Host(r.Dispatches(), false, -1); err != nil || n != 4 {
		t.Fatalf("%d minibatches, %v", n, err)
	}
}

// A message that names objects says nothing that cannot be.
func TestMalformed(t *testing.T) {
	for name, change := range map[string]func(*pb.Dispatch){
		"no key":            func(d *pb.Dispatch) { d.Key = nil },
		"another model":     func(d *pb.Dispatch) { d.Key.Model++ },
		"no tensor":         func(d *pb.Dispatch) { d.Tensor = nil },
		"rows in it":        func(d *pb.Dispatch) { d.Tensor.Data = []byte{1} },
		"too many rows":     func(d *pb.Dispatch) { d.Tensor.Rows++ },
		"a row fewer":       func(d *pb.Dispatch) { d.Tensor.Rows-- },
		"no rows":           func(d *pb.Dispatch) { d.Tensor.Rows = 0 },
		"no places":         func(d *pb.Dispatch) { d.Place, d.Expert, d.Weight = nil, nil, nil },
		"fewer experts":     func(d *pb.Dispatch) { d.Expert = d.Expert[1:] },
		"no minibatch":      func(d *pb.Dispatch) { d.Parcel.Minibatch = 0 },
		"other minibatches": func(d *pb.Dispatch) { d.Parcel.Minibatch = 4 },
		"direct":            func(d *pb.Dispatch) { d.Parcel.Mode = plan.Direct },
		"indirect":          func(d *pb.Dispatch) { d.Parcel.Mode = plan.Indirect },
		"fewer objects":     func(d *pb.Dispatch) { d.Parcel.Pieces = d.Parcel.Pieces[1:] },
		"a huge object":     func(d *pb.Dispatch) { d.Parcel.Pieces[0].Size = 1 << 31 },
		"half a digest":     func(d *pb.Dispatch) { d.Parcel.Pieces[0].Sha256 = d.Parcel.Pieces[0].Sha256[:16] },
		"another's name":    func(d *pb.Dispatch) { d.Parcel.Pieces[0].Name = "*.0.i.0.00" },
		"a short name":      func(d *pb.Dispatch) { d.Parcel.Pieces[0].Name = "0.0" },
	} {
		r := NewRig(t, &Memory{})
		if err := r.Scatter(Way{Mode: plan.Pipelined, Minibatch: 3}, Dispatch(1)); err != nil {
			t.Fatal(err)
		}
		all := r.Dispatches()
		change(all[0])
		var other *wire.IdentityError
		if n, err := r.Host(all, false, -1); n != 0 || !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &other) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// A partial that names objects says nothing that cannot be either.
func TestMalformedPartial(t *testing.T) {
	for name, change := range map[string]func(*pb.Partial){
		"two objects":   func(p *pb.Partial) { p.Parcel.Pieces = append(p.Parcel.Pieces, p.Parcel.Pieces[0]) },
		"a huge object": func(p *pb.Partial) { p.Parcel.Pieces[0].Size = 1 << 31 },
		"another name":  func(p *pb.Partial) { p.Parcel.Pieces[0].Name = ">" },
		"no key":        func(p *pb.Partial) { p.Key = nil },
		"no layer":      func(p *pb.Partial) { p.Key.Layer = 9 },
	} {
		r := NewRig(t, &Memory{})
		p := &pb.Partial{
			Key:    Dispatch(1).Key,
			Parcel: &pb.Parcel{Mode: plan.Indirect, Pieces: []*pb.Piece{{Name: "0f.0.o.0.00", Sha256: make([]byte, 32), Size: 9}}},
		}
		change(p)
		if _, err := r.Of(p.Parcel).Gather(t.Context(), p); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a dispatch claims, a host refuses it or fails to find the objects: nothing panics or waits.
func FuzzServe(f *testing.F) {
	f.Add(uint32(3), uint32(10), uint32(24), "0f.0.i.0.00", uint32(4), true)
	f.Add(uint32(0), uint32(0), uint32(1<<31), ">", uint32(0), false)
	f.Fuzz(func(t *testing.T, minibatch, rows, size uint32, name string, pieces uint32, pipelined bool) {
		r, d := NewRig(t, &Memory{}), Dispatch(1)
		d.Tensor.Data, d.Tensor.Rows = nil, rows
		d.Parcel = &pb.Parcel{Mode: plan.Indirect, Minibatch: minibatch}
		if pipelined {
			d.Parcel.Mode = plan.Pipelined
		}
		for range pieces % 16 {
			d.Parcel.Pieces = append(d.Parcel.Pieces, &pb.Piece{Name: name, Size: size, Sha256: make([]byte, 32)})
		}
		if n, err := r.Host([]*pb.Dispatch{d}, true, -1); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}
