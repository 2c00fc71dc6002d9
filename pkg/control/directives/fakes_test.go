package directives

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

const testModel = 7

func testRules() Rules { return Rules{Model: testModel, MoELayers: []int{1, 2, 3}, Experts: 16} }

func testSettings() Settings {
	return Settings{
		Rules: testRules(), Strategy: brownout.Partial, Way: 8, Prefill: 0.25, Decode: 0.15, MaxLoss: 1, Exempt: []uint32{1},
		Bundle: func(way int) (Bundle, error) {
			if way != 4 && way != 8 {
				return Bundle{}, errors.New("there are none of it")
			}
			return Bundle{ID: uint64(way), Error: 0.5}, nil
		},
	}
}

// shelf is a bucket in memory. With err set nothing can be written.
type shelf struct {
	rules Rules

	mu        sync.Mutex
	err       error
	revision  uint64
	values    map[string][]byte
	at        map[string]uint64
	followers []chan func(func(*Written, *Wanted))
}

func newShelf() *shelf {
	return &shelf{rules: testRules(), values: map[string][]byte{}, at: map[string]uint64{}}
}

// put writes a key, whoever does.
func (s *shelf) put(key string, value []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.values[key], s.at[key] = value, s.revision
	r, store := s.revision, &Store{rules: s.rules}
	for _, f := range s.followers {
		f <- func(got func(*Written, *Wanted)) { store.read(key, value, r, got) }
	}
	return s.revision
}

func (s *shelf) want(w *pb.BrownoutSettings) uint64 {
	body, _ := proto.Marshal(w)
	return s.put(SettingsKey, body)
}

func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *shelf) Read(context.Context) (there Written, wanted Wanted, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.at[DirectiveKey]; r > 0 {
		there = s.rules.decode(s.values[DirectiveKey], r)
	}
	if r := s.at[SettingsKey]; r > 0 {
		wanted = s.rules.decodeSettings(s.values[SettingsKey], r)
	}
	return there, wanted, s.err
}

func (s *shelf) Follow(ctx context.Context, got func(*Written, *Wanted)) {
	mine := make(chan func(func(*Written, *Wanted)), 1024)
	s.mu.Lock()
	s.followers = append(s.followers, mine)
	s.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return
		case tell := <-mine:
			tell(got)
		}
	}
}

func (s *shelf) Write(_ context.Context, there Written, d *pb.Directive, by Writer) (Written, error) {
	s.mu.Lock()
	at, err, version := s.at[DirectiveKey], s.err, s.revision+1
	s.mu.Unlock()
	switch {
	case err != nil:
		return there, err
	case there.Epoch > by.Epoch:
		if holds, _ := by.Holds(context.Background()); !holds {
			return there, ErrFenced
		}
	case at != there.Revision:
		return there, ErrConflict
	}
	d = proto.CloneOf(d)
	if there.Directive != nil {
		version = there.Directive.Version + 1
	}
	d.Model, d.Writer, d.WriterEpoch, d.Version = testModel, by.ID, by.Epoch, version
	body, _ := proto.Marshal(d)
	return Written{Directive: d, Epoch: by.Epoch, Revision: s.put(DirectiveKey, body)}, nil
}

// directive is what lies there; nil: none.
func (s *shelf) directive() *pb.Directive {
	there, _, _ := s.Read(context.Background())
	return there.Directive
}

// turns is a lease that is lost when somebody says so.
type turns struct {
	epoch uint64
	lost  chan struct{}
	holds atomic.Bool
}

func (l *turns) Hold(ctx context.Context, fn func(context.Context, Writer) error) error {
	for {
		l.epoch++
		tenure, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case <-l.lost:
				cancel()
			case <-tenure.Done():
			}
		}()
		by := Writer{ID: "controller", Epoch: l.epoch, Holds: func(context.Context) (bool, error) { return l.holds.Load(), nil }}
		err := fn(tenure, by)
		lost := tenure.Err() != nil && ctx.Err() == nil
		cancel()
		<-done
		if !lost {
			return err
		}
	}
}

// world is a controller, what it writes into, and a replica that obeys it.
type world struct {
	shelf  *shelf
	lease  *turns
	obeyed *Obeyed
	meter  *Meter

	mu      sync.Mutex
	hear    func([]byte)
	ignored int
	moves   []string // of decode, up or down
}

// open runs a controller until ctx ends; the replica counts the lease as held meanwhile.
func open(ctx context.Context, all *sync.WaitGroup, s Settings) *world {
	w := &world{shelf: newShelf(), lease: &turns{lost: make(chan struct{})}, meter: NewMeter(testModel, "attention-1", 1)}
	w.lease.holds.Store(true)
	w.obeyed = NewObeyed(func(error) {})
	c := &Controller{
		Settings: s, Lease: w.lease, Bucket: w.shelf, Logger: slog.New(slog.DiscardHandler),
		Hear: func(handler func([]byte)) (func(), error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.hear = handler
			return func() {}, nil
		},
		Told: Told{
			Ignored: func(n int) { w.mu.Lock(); w.ignored += n; w.mu.Unlock() },
			Changed: func(phase string, ch brownout.Change, before int) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if phase == "decode" {
					w.moves = append(w.moves, map[bool]string{true: "up", false: "down"}[ch.Threshold > before])
				}
			},
		},
	}
	all.Go(func() { _ = c.Run(ctx) })
	all.Go(func() { w.obeyed.Follow(ctx, w.shelf) })
	all.Go(func() {
		for ctx.Err() == nil {
			w.obeyed.Renewed()
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	return w
}

// tell sends what was measured.
func (w *world) tell(l *pb.Latencies) {
	body, _ := proto.Marshal(l)
	w.send(body)
}

func (w *world) send(body []byte) {
	w.mu.Lock()
	hear := w.hear
	w.mu.Unlock()
	if hear != nil {
		hear(body)
	}
}

// load steps decode rows for a time; what a step takes depends on the threshold in force.
func (w *world) load(for_ time.Duration, takes func(threshold float64) float64) {
	begun, told := time.Now(), time.Now()
	for time.Since(begun) < for_ {
		_, _, decode := w.obeyed.Now()
		took := time.Duration(takes(float64(decode)/brownout.One) * float64(time.Second))
		time.Sleep(took)
		w.meter.Step(false, took)
		w.meter.Wait(0, true, 0)
		if time.Since(told) >= MeterEvery {
			w.tell(w.meter.Take())
			told = time.Now()
		}
	}
	w.meter.Wait(0, false, 0)
	if l := w.meter.Take(); l != nil {
		w.tell(l)
	}
}

func (w *world) threshold() float64 {
	_, _, decode := w.obeyed.Now()
	return float64(decode) / brownout.One
}

// reversals counts changes of direction.
func (w *world) reversals() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.moves {
		if i > 0 && w.moves[i] != w.moves[i-1] {
			n++
		}
	}
	return n
}

// latencies is a message with decode steps.
func latencies(number uint64, seconds ...float32) *pb.Latencies {
	return &pb.Latencies{Version: schemas.Version, Model: testModel, Replica: "attention-1", Life: 1, Number: number, DecodeSeconds: seconds, Busy: true}
}
