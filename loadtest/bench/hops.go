package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// HopTimes are medians of what a hop of HopBytes takes one way, in seconds: half of a round trip, so
// that one clock measures both ends. It goes out as rows to any gate do, and back as a block does, to
// one receiver by name.
type HopTimes struct {
	// OneProcess is of two connections in this process, Apart of this process and another.
	OneProcess float64 `json:"one_process_p50_seconds"`
	Apart      float64 `json:"processes_p50_seconds"`
	// Bare are as many bytes over a TCP connection of the loopback, and nothing else.
	BareOneProcess float64 `json:"bare_one_process_p50_seconds"`
	BareApart      float64 `json:"bare_processes_p50_seconds"`
}

// HopBytes are those of rows in a measured hop.
const HopBytes = 16 << 10

// hopTurns is how many round trips a turn makes of each way.
const hopTurns = 100

// hopWithin bounds a round trip.
const hopWithin = 5 * time.Second

func hopStreams(prefix string, hops schemas.Hops) schemas.Streams {
	return schemas.Streams{Subjects: schemas.NewSubjects(prefix, "bench-hops"), Hops: hops}
}

func hopMessage() *pb.Hidden {
	return &pb.Hidden{Key: &pb.Key{Version: schemas.Version, Owner: "bench"}, Tensor: &pb.Tensor{Data: make([]byte, HopBytes)}}
}

// hopOwner is whom answers go to.
const hopOwner = "bench"

// Echo answers each hop of a measurement with one of as many bytes, until stop.
func Echo(ctx context.Context, conn *bus.Conn, prefix string, hops schemas.Hops) (stop func(), err error) {
	s := hopStreams(prefix, hops)
	if err := conn.Ensure(ctx, 1, s.Tensors([]int{0})...); err != nil {
		return nil, err
	}
	hop, to := bus.NewHop(conn, hops), s.Subjects.Block(hopOwner)
	r, err := hop.Receive(ctx, bus.Receiver{Stream: s.Hidden(), Name: "gate", Subject: s.Subjects.AnyHidden()}, func(ctx context.Context, m *bus.Msg) error {
		h := &pb.Hidden{}
		if err := proto.Unmarshal(m.Data, h); err != nil {
			return err
		}
		return hop.Send(ctx, to, h)
	})
	if err != nil {
		return nil, err
	}
	return func() { r.Stop(); <-r.Closed() }, nil
}

// EchoBare answers whoever connects with as many bytes as a hop's message has for each as many, until
// the listener is closed.
func EchoBare(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }() // who asked is gone
			b := make([]byte, proto.Size(hopMessage()))
			for {
				if _, err := io.ReadFull(c, b); err != nil {
					return
				}
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
	}
}

// pinger makes round trips.
type pinger struct {
	round func(ctx context.Context) error
	close func()
	took  []float64 // seconds, one way
}

// turn makes as many round trips as a turn has, behind one that does not count.
func (p *pinger) turn(ctx context.Context) error {
	for i := range hopTurns + 1 {
		began := time.Now()
		if err := p.round(ctx); err != nil {
			return err
		}
		if i > 0 {
			p.took = append(p.took, since(began)/2)
		}
	}
	return nil
}

// hopPinger asks whoever echoes; the connection stays open.
func hopPinger(ctx context.Context, conn *bus.Conn, prefix string, hops schemas.Hops) (*pinger, error) {
	s := hopStreams(prefix, hops)
	if err := conn.Ensure(ctx, 1, s.Tensors([]int{0})...); err != nil {
		return nil, err
	}
	hop, back := bus.NewHop(conn, hops), make(chan error, 1)
	r, err := hop.Receive(ctx, bus.Receiver{Stream: s.Block(), Name: hopOwner, Subject: s.Subjects.Block(hopOwner), Sole: true}, func(_ context.Context, m *bus.Msg) error {
		err := proto.Unmarshal(m.Data, &pb.Hidden{})
		select {
		case back <- err:
		default: // a late answer
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	msg, to := hopMessage(), s.Subjects.Hidden(0)
	round := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, hopWithin)
		defer cancel()
		if err := hop.Send(ctx, to, msg); err != nil {
			return err
		}
		select {
		case err := <-back:
			return err
		case <-ctx.Done():
			return fmt.Errorf("a hop of %d bytes has no answer: %w", HopBytes, ctx.Err())
		}
	}
	return &pinger{round: round, close: func() { r.Stop(); <-r.Closed() }}, nil
}

// barePinger asks an EchoBare.
func barePinger(ctx context.Context, addr string) (*pinger, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to who echoes: %w", err)
	}
	b := make([]byte, proto.Size(hopMessage()))
	round := func(context.Context) error {
		if err := c.SetDeadline(time.Now().Add(hopWithin)); err != nil {
			return err
		}
		_, err := c.Write(b)
		if err == nil {
			_, err = io.ReadFull(c, b)
		}
		return err
	}
	return &pinger{round: round, close: func() { _ = c.Close() }}, nil
}

// hopPingers are the four ways in the order of HopTimes.
type hopPingers struct {
	ways [4]*pinger
	ends []func() // the last begun first
}

func (h *hopPingers) close() {
	for i := len(h.ends) - 1; i >= 0; i-- {
		h.ends[i]()
	}
}

func (h *hopPingers) add(i int, p *pinger, err error) error {
	if err == nil {
		h.ways[i], h.ends = p, append(h.ends, p.close)
	}
	return err
}

// openHops connects all four ways. What it opened before an error is in h, too.
func (b *Bench) openHops(ctx context.Context, a *Apart) (h *hopPingers, err error) {
	h = &hopPingers{}
	prefix, hops := b.pipeline.cluster.Settings.Node.Shared.Prefix, schemas.Hops(b.settings.Hops)
	var ends [2]*bus.Conn
	for i := range ends {
		if ends[i], err = b.pipeline.cluster.Connect(ctx); err != nil {
			return h, err
		}
		h.ends = append(h.ends, ends[i].Close)
	}
	stop, err := Echo(ctx, ends[1], prefix, hops)
	if err != nil {
		return h, err
	}
	h.ends = append(h.ends, stop)
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return h, fmt.Errorf("listening on the loopback: %w", err)
	}
	h.ends = append(h.ends, func() { _ = l.Close() })
	go EchoBare(l)
	p, err := hopPinger(ctx, ends[0], prefix, hops)
	if err = h.add(0, p, err); err != nil {
		return h, err
	}
	p, err = hopPinger(ctx, a.Conn, prefix, hops)
	if err = h.add(1, p, err); err != nil {
		return h, err
	}
	one, err := barePinger(ctx, l.Addr().String())
	apart, err2 := barePinger(ctx, a.Bare)
	return h, errors.Join(h.add(2, one, err), h.add(3, apart, err2))
}

// turn has each way make its round trips.
func (h *hopPingers) turn(ctx context.Context) error {
	for _, p := range h.ways {
		if err := p.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// String is all of them in µs.
func (h HopTimes) String() string {
	return fmt.Sprintf("a hop of %d KB takes %.0f µs in one process and %.0f between two (medians, half a round trip); as many bare bytes over the loopback %.0f and %.0f",
		HopBytes>>10, h.OneProcess*1e6, h.Apart*1e6, h.BareOneProcess*1e6, h.BareApart*1e6)
}
