package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/compute"
)

// yard is a gate, a host with one expert and an aggregator, each on a connection of its own to a
// server, and nothing else.
type yard struct {
	s         TransferSettings
	shape     *wire.Shape
	layer     int
	streams   schemas.Streams
	gate      *party
	host      *party
	sum       *party
	computers *compute.Computers
	journeys  sync.Map // *journey by its step
	beside    sync.WaitGroup
	objects   *transfer.ObjectStore // the host's
	platform  *compute.RentedHost   // whose times functions have
	ends      []func()
	step      atomic.Uint64
	computed  map[int]float64
}

// journey is a transfer under way.
type journey struct {
	rows   atomic.Int64 // that the aggregator has not
	summed chan error
	served chan served
	nanos  atomic.Int64 // that were computed
	rented *invocation  // nil: the host takes its own time
}

// party is one of them.
type party struct {
	conn *bus.Conn
	hop  *bus.Hop
	link *transfer.Link
}

type served struct {
	took time.Duration
	err  error
}

// yardFunction is what the host has, and yardSum the aggregator.
const yardFunction, yardSum = "0000000000000001", "aggregator-yard"

// transferWithin bounds a transfer.
const transferWithin = time.Minute

func openYard(ctx context.Context, s TransferSettings) (y *yard, err error) {
	y = &yard{s: s, computed: map[int]float64{}}
	defer func() {
		if err != nil {
			y.close()
		}
	}()
	spec := s.Model.Spec
	y.shape = &wire.Shape{Hidden: spec.Hidden, Experts: spec.Experts, TopK: spec.TopK, MoE: make([]bool, len(spec.Layer)), MaxRows: func() int { return tensor.MaxRows }}
	y.layer = -1
	for l, layer := range spec.Layer {
		if y.shape.MoE[l] = layer.MoE; layer.MoE && y.layer < 0 {
			y.layer = l
		}
	}
	if err := y.load(ctx); err != nil {
		return nil, err
	}
	return y, y.connect(ctx)
}

// load loads the expert.
func (y *yard) load(ctx context.Context) error {
	on := device.NewCPU(y.s.Model, y.s.Pool, device.Settings{})
	id := forward.ExpertID{Layer: y.layer}
	ticket := on.Load(ctx, id, 0)
	y.ends = append(y.ends, on.Close, func() { ticket.Release(); _ = on.Evict(id) })
	y.computers = compute.New(on, y.shape, y.s.Wire, nil)
	return ticket.Wait(ctx)
}

// connect starts the server and the three parties.
func (y *yard) connect(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "switchyard-transfer-")
	if err != nil {
		return err
	}
	y.ends = append(y.ends, func() { _ = os.RemoveAll(dir) })
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: dir})
	if err != nil {
		return err
	}
	y.ends = append(y.ends, srv.Shutdown)
	y.streams = schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "bench"), Hops: y.s.Hops}
	for _, p := range []**party{&y.gate, &y.host, &y.sum} {
		conn, err := bus.Connect(ctx, bus.Config{}, bus.Settings{InProcess: srv, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		y.ends = append(y.ends, conn.Close)
		*p = y.party(conn)
	}
	y.objects = transfer.NewObjectStore(y.host.conn, y.streams)
	specs := append(y.streams.Tensors([]int{y.layer}), y.streams.Objects())
	if err := y.gate.conn.Ensure(ctx, 1, specs...); err != nil {
		return err
	}
	if err := y.receive(ctx, y.host, bus.Receiver{
		Stream: y.streams.Expert(y.layer), Name: yardFunction, Subject: y.streams.Subjects.Expert(y.layer, yardFunction),
	}, y.serve); err != nil {
		return err
	}
	return y.receive(ctx, y.sum, bus.Receiver{Stream: y.streams.Partial(), Name: yardSum, Subject: y.streams.Subjects.Partial(yardSum), Sole: true}, y.gather)
}

func (y *yard) party(conn *bus.Conn) *party {
	hop := bus.NewHop(conn, y.s.Hops)
	return &party{conn, hop, transfer.New(transfer.Settings{
		Sender: hop, Objects: transfer.NewObjectStore(conn, y.streams), Shape: y.shape, RowBytes: y.rowBytes(), Payload: func() int { return int(conn.MaxPayload()) },
	})}
}

func (y *yard) receive(ctx context.Context, p *party, r bus.Receiver, h bus.Handler) error {
	receiving, err := p.hop.Receive(ctx, r, h)
	if err == nil {
		y.ends = append(y.ends, func() { receiving.Stop(); <-receiving.Closed() })
	}
	return err
}

func (y *yard) close() {
	y.beside.Wait()
	for i := len(y.ends) - 1; i >= 0; i-- {
		y.ends[i]()
	}
}

func (y *yard) rowBytes() int { return y.shape.Hidden * y.s.Wire.ElementBytes() }

func (y *yard) fits(rows int) bool {
	return int64(proto.Size(y.dispatch(rows)))+wire.Headroom <= y.gate.conn.MaxPayload()
}

// dispatch is rows for the expert.
func (y *yard) dispatch(rows int) *pb.Dispatch {
	d := &pb.Dispatch{
		Key:  &pb.Key{Version: schemas.Version, Owner: "attention-yard", Epoch: 1, Step: y.step.Add(1), Layer: uint32(y.layer), Rows: uint32(rows), Aggregator: yardSum},
		Kind: plan.Routed, Place: make([]uint32, rows), Expert: make([]uint32, rows), Weight: make([]float32, rows),
	}
	x := make([]float32, rows*y.shape.Hidden)
	for i := range x {
		x[i] = float32(i%97)/97 - 0.5
	}
	for row := range rows {
		d.Place[row], d.Weight[row] = uint32(row*y.shape.TopK), 1
	}
	d.Tensor = tensor.Encode(y.s.Wire, x, y.shape.Hidden, nil)
	return d
}

// move moves rows once, on a host that may be rented, and leaves nothing in the store.
func (y *yard) move(ctx context.Context, w way, rows int, rented *invocation) (t carriage, err error) {
	ctx, cancel := context.WithTimeout(ctx, transferWithin)
	defer cancel()
	d := y.dispatch(rows)
	group, step := transfer.Group(d.Key), d.Key.Step
	now := &journey{summed: make(chan error, 1), served: make(chan served, 1), rented: rented}
	now.rows.Store(int64(rows))
	y.journeys.Store(step, now)
	defer y.journeys.Delete(step)
	began := time.Now()
	to := transfer.Address{Subject: y.streams.Subjects.Expert(y.layer, yardFunction), Function: yardFunction}
	if err := y.gate.link.By(w.mode, w.minibatch).Scatter(ctx, to, d); err != nil {
		return t, err
	}
	select {
	case err = <-now.summed:
		t.whole = time.Since(began)
	case <-ctx.Done():
		return t, fmt.Errorf("a transfer of %d rows took longer than %v", rows, transferWithin)
	}
	s := <-now.served
	t.host, t.compute = s.took, time.Duration(now.nanos.Load())
	if w.mode != plan.Direct {
		err = errors.Join(err, y.sum.link.Forget(ctx, group))
	}
	return t, errors.Join(err, s.err)
}

// of is the turn of a message; nil: it is over.
func (y *yard) of(k *pb.Key) *journey {
	now, _ := y.journeys.Load(k.GetStep())
	of, _ := now.(*journey)
	return of
}

// serve is the host's part of a turn. Functions that are rented compute beside each other.
func (y *yard) serve(ctx context.Context, m *bus.Msg) error {
	began, d := time.Now(), &pb.Dispatch{}
	if err := proto.Unmarshal(m.Data, d); err != nil {
		return err
	}
	now := y.of(d.Key)
	switch {
	case now == nil:
	case now.rented != nil:
		y.beside.Go(func() { now.served <- y.rent(ctx, now.rented, d, began) })
	default:
		err := y.host.link.Of(d.Parcel).Serve(ctx, y.streams.Subjects.Partial(yardSum), d, false,
			func(_ context.Context, d *pb.Dispatch, _ time.Duration, then func(*pb.Partial) error) error {
				began := time.Now()
				return y.compute(d, func(p *pb.Partial) error {
					now.nanos.Add(int64(time.Since(began)))
					return then(p)
				})
			})
		now.served <- served{time.Since(began), err}
	}
	return nil
}

func (y *yard) compute(d *pb.Dispatch, then func(*pb.Partial) error) error {
	c := y.computers.Take(time.Now())
	defer y.computers.Give(c)
	p, err := c.Compute(d, &pb.FunctionTime{})
	if err != nil {
		return err
	}
	return then(p)
}

// gather is the aggregator's part of a turn.
func (y *yard) gather(ctx context.Context, m *bus.Msg) error {
	p := &pb.Partial{}
	if err := proto.Unmarshal(m.Data, p); err != nil {
		return err
	}
	now := y.of(p.Key)
	if now == nil {
		return nil
	}
	p, err := y.sum.link.Of(p.Parcel).Gather(ctx, p)
	if err == nil {
		_, err = y.shape.CheckPartial(p)
	}
	if err == nil && now.rows.Add(-int64(len(p.Place))) > 0 {
		return nil
	}
	select {
	case now.summed <- err:
	default: // one error is enough
	}
	return nil
}

// computes is what the expert takes for so many rows alone: a median.
func (y *yard) computes(ctx context.Context, rows int) (float64, error) {
	if seconds, known := y.computed[rows]; known {
		return seconds, nil
	}
	d, times := y.dispatch(rows), []float64{}
	for range 2*y.s.Rounds + 1 {
		began := time.Now()
		if err := y.compute(d, func(*pb.Partial) error { return nil }); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began).Seconds())
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	y.computed[rows] = median(times[1:])
	return y.computed[rows], nil
}

// sizes are the rows by which the store and messages are measured.
var sizes = []int{1, 16, 128, 512, 2048, 8192}

// costs measures the store, as a host uses it, and messages.
func (y *yard) costs(ctx context.Context) (c TransferCosts, err error) {
	c.RowBytes = y.rowBytes()
	var puts, gets, messages []point
	for _, rows := range sizes {
		put, get, err := y.stored(ctx, rows*c.RowBytes)
		if err != nil {
			return c, err
		}
		puts, gets = append(puts, put), append(gets, get)
		if y.fits(rows) {
			m, err := y.message(ctx, rows)
			if err != nil {
				return c, err
			}
			messages = append(messages, m)
		}
	}
	put, perPut := line(puts)
	get, perGet := line(gets)
	c.Put, c.Get, c.Itself.Access, c.Itself.StoreBytes = put, get, (put+get)/2, 2/(1/perPut+1/perGet)
	c.Itself.Message, c.Itself.MessageBytes = line(messages)
	return c, nil
}

// stored puts and gets an object of so many bytes a few times: medians.
func (y *yard) stored(ctx context.Context, bytes int) (put, get point, err error) {
	data, objects := make([]byte, bytes), y.objects
	var puts, gets []float64
	for range 2*y.s.Rounds + 1 {
		began := time.Now()
		if err := objects.Put(ctx, "cost.0.0.i.0.0", data, sha256.Sum256(data)); err != nil {
			return put, get, err
		}
		between := time.Now()
		if _, _, err := objects.Get(ctx, "cost.0.0.i.0.0", bytes); err != nil {
			return put, get, err
		}
		puts, gets = append(puts, between.Sub(began).Seconds()), append(gets, time.Since(between).Seconds())
	}
	return pointOf(bytes, puts[1:]), pointOf(bytes, gets[1:]), objects.Remove(ctx, "cost")
}

// message is what a host takes to decode a dispatch and to send a partial of so many rows: a median.
func (y *yard) message(ctx context.Context, rows int) (point, error) {
	d := y.dispatch(rows)
	body, err := proto.Marshal(d)
	if err != nil {
		return point{}, err
	}
	p, to, times := &pb.Partial{Key: d.Key, Place: d.Place, Tensor: d.Tensor}, y.streams.Subjects.Partial("nobody"), []float64{}
	for range 2*y.s.Rounds + 1 {
		began := time.Now()
		if err := proto.Unmarshal(body, &pb.Dispatch{}); err != nil {
			return point{}, err
		}
		if err := y.host.hop.Send(ctx, to, p); err != nil {
			return point{}, err
		}
		times = append(times, time.Since(began).Seconds())
	}
	return pointOf(rows*y.rowBytes(), times[1:]), nil
}
