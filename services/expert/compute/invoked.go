package compute

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// RentedHost has dispatches run as invocations of a serverless platform's functions
// (pkg/policy/cost/scatter): each starts, gets its parameters, fetches, computes and stores in the
// platform's time, or in its own where that is longer, and is billed its memory from its message to
// the end of its last upload.
//
//	message ─▶ starts ─▶ fetch ─▶ compute ─▶ store ─▶ billed
//	                     fetch ─▶ compute ─▶ store       of each minibatch, each beside the others
type RentedHost struct {
	system *scatter.System
	alarms *paced.Alarms

	mu     sync.Mutex
	state  uint64 // of draws
	rented map[function]float64
}

// function is one of a layer, by its id.
type function struct {
	layer int
	id    string
}

// NewRentedHost returns a host of a system, which outlives it. A seed makes what invocations take to start.
func NewRentedHost(y *scatter.System, seed uint64) *RentedHost {
	return &RentedHost{system: y, alarms: paced.NewAlarms(), state: splitmix.Mix(seed), rented: map[function]float64{}}
}

// Close frees what the host keeps.
func (h *RentedHost) Close() { h.alarms.Close() }

// Rent says how much memory a layer's function has here from now on. What a plan has no more keeps
// what it had: rows come for it until gates have gone over.
func (h *RentedHost) Rent(layer int, id string, memory float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rented[function{layer, id}] = memory
}

// Invoke returns an invocation of a function that began with its message; nil: no plan has rented it.
func (h *RentedHost) Invoke(layer int, id string, began time.Time) *RentedCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	memory, rented := h.rented[function{layer, id}]
	if !rented {
		return nil
	}
	starts := h.system.Begin() - h.system.Start() + h.system.Functions.Invocation(splitmix.Unit(splitmix.Next(&h.state)))
	return h.Call(memory, starts, began)
}

// Call returns an invocation with so much memory that computes so many seconds behind its beginning.
func (h *RentedHost) Call(memory, starts float64, began time.Time) *RentedCall {
	return &RentedCall{host: h, memory: memory, starts: starts, began: began}
}

// RentedCall is one invocation. It fetches, computes and stores one thing after the other, each of them
// beside the others.
type RentedCall struct {
	host           *RentedHost
	memory, starts float64
	began          time.Time
	by             transfer.Settings // what really moves rows

	mu                         sync.Mutex
	fetched, computed, storing time.Time
	reached                    time.Time // when the last of these, or the start, was due that is over
}

// Serve is a transfer's, by what moves rows.
func (c *RentedCall) Serve(ctx context.Context, by transfer.Settings, to string, d *pb.Dispatch, again bool, compute transfer.Compute) error {
	c.reached = c.began.Add(seconds(c.starts))
	if err := c.host.alarms.Until(ctx, c.reached); err != nil {
		return err
	}
	c.by, by.Sender, by.Objects = by, c, c
	return transfer.New(by).Of(d.Parcel).Serve(ctx, to, d, again, func(ctx context.Context, d *pb.Dispatch, waited time.Duration, then func(*pb.Partial) error) error {
		return c.compute(ctx, d, waited, compute, then)
	})
}

// Bill returns what the invocation is billed if it ends now, and what the formulas say for rows that
// came so, in gigabyte-seconds.
func (c *RentedCall) Bill(p *pb.Parcel, rows int) (billed, model float64) {
	y := c.host.system
	says := y.Replica(modeOf(p), int(p.GetMinibatch()), rows, c.memory)
	return meter.Invocation(time.Since(c.began).Seconds(), c.memory, 1), meter.Invocation(says, c.memory, 1)
}

func modeOf(p *pb.Parcel) scatter.Mode {
	switch p.GetMode() {
	case plan.Pipelined:
		return scatter.Pipelined
	case plan.Indirect:
		return scatter.Indirect
	}
	return scatter.Direct
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// paced does something that takes so many seconds at least, behind what is done there already. It begins when what was before it was
// due, and not when this host had woken for that and handed it on: a host's processors are others than a platform's. What the work itself
// takes longer than the platform counts, and so does what could not be done.
func (c *RentedCall) paced(ctx context.Context, at *time.Time, work func() error, takes func() float64) error {
	c.mu.Lock()
	from := c.reached
	c.mu.Unlock()
	err := work()
	now := time.Now()
	c.mu.Lock()
	if err != nil {
		c.reached = now
		c.mu.Unlock()
		return err
	}
	*at = later(later(*at, from).Add(seconds(takes())), now)
	due := *at
	c.mu.Unlock()
	if err := c.host.alarms.Until(ctx, due); err != nil {
		return err
	}
	c.mu.Lock()
	c.reached = later(c.reached, due)
	c.mu.Unlock()
	return nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// Put implements transfer.Objects.
func (c *RentedCall) Put(ctx context.Context, name string, data []byte, sum transfer.Sum) error {
	y := c.host.system
	return c.paced(ctx, &c.storing, func() error { return c.by.Objects.Put(ctx, name, data, sum) }, func() float64 {
		return y.Delay() + y.Store(float64(len(data)))
	})
}

// Get implements transfer.Objects.
func (c *RentedCall) Get(ctx context.Context, name string, most int) (data []byte, sum transfer.Sum, err error) {
	y := c.host.system
	err = c.paced(ctx, &c.fetched, func() (err error) {
		data, sum, err = c.by.Objects.Get(ctx, name, most)
		return err
	}, func() float64 { return y.Delay() + y.Store(float64(len(data))) })
	return data, sum, err
}

// Remove implements transfer.Objects.
func (c *RentedCall) Remove(ctx context.Context, group string) error {
	return c.by.Objects.Remove(ctx, group)
}

// Send implements transfer.Sender: rows in a message take their time, and what names objects none.
func (c *RentedCall) Send(ctx context.Context, subject string, m proto.Message) error {
	p, _ := m.(*pb.Partial)
	rows := len(p.GetTensor().GetData())
	if rows == 0 {
		return c.by.Sender.Send(ctx, subject, m)
	}
	return c.paced(ctx, &c.storing, func() error { return c.by.Sender.Send(ctx, subject, m) }, func() float64 { return c.host.system.Message(float64(rows)) })
}

// compute computes, and hands on what comes of it when a function with this memory would have it.
// What computed is free meanwhile.
func (c *RentedCall) compute(ctx context.Context, d *pb.Dispatch, waited time.Duration, by transfer.Compute, then func(*pb.Partial) error) error {
	var out *pb.Partial
	err := c.paced(ctx, &c.computed, func() error {
		return by(ctx, d, waited, func(p *pb.Partial) error {
			out = proto.CloneOf(p)
			return nil
		})
	}, func() float64 { return c.host.system.Computes(len(d.Place), c.memory) })
	if err != nil {
		return err
	}
	return then(out)
}
