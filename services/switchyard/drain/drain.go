package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

const (
	// askAgain is how often a replica is asked: each answer says that it is there still.
	askAgain = 400 * time.Millisecond
	// unanswered is how often a replica may be asked in vain, and answerWithin how long that takes:
	// while this process stands still nobody is asked.
	unanswered   = 10
	answerWithin = unanswered * askAgain
	// absentWithin bounds the question if it has a connection.
	absentWithin = time.Second
)

// Result is how it went with one replica.
type Result struct {
	Replica string `json:"replica"`
	Service string `json:"service"`
	Host    string `json:"host"`
	PID     uint32 `json:"pid"`
	// Drained says that it has finished or handed over what it had, and is gone.
	Drained bool    `json:"drained"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error"`

	err error
}

// Settings say whom to ask, and how.
type Settings struct {
	Conn  *bus.Conn
	Names schemas.Streams
	// Name is a replica's id, or a host's name: then all replicas there are asked.
	Name string
	// Within bounds the draining of each replica.
	Within time.Duration
	// Tell is called with each replica that is done, as soon as it is.
	Tell func(Result)
}

// Run drains and returns the members that are left. Its error says what did not drain.
func Run(ctx context.Context, s Settings) (left *top.Snapshot, err error) {
	r := top.NewReader(s.Conn.NATS(), s.Conn.JetStream(), s.Names)
	defer r.Close()
	all, err := r.Live(ctx)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(all.Members, s.Names.Subjects.Model, s.Name)
	if err != nil {
		return nil, err
	}
	a := &asker{Settings: s, replicas: map[string]*asked{}}
	sub, err := s.Conn.Hear(s.Names.Subjects.Drained("*", "*"), "", a.heard)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails without a connection only
	var errs []error
	for _, stage := range stages(chosen) {
		errs = append(errs, a.drain(ctx, stage)...)
		if ctx.Err() != nil {
			return nil, errors.Join(append(errs, ctx.Err())...)
		}
	}
	left, err = a.left(ctx, r)
	return left, errors.Join(append(errs, err)...)
}

const (
	// leftWithin is longer than it takes until a replica whose farewell was lost is no
	// member any more.
	leftWithin = 5 * time.Second
	leftPoll   = 50 * time.Millisecond
)

// left returns who is still here, once those who said that they are gone are no members.
func (a *asker) left(ctx context.Context, r *top.Reader) (s *top.Snapshot, err error) {
	waiting, cancel := context.WithTimeout(ctx, leftWithin)
	defer cancel()
	for {
		if s, err = r.Live(ctx); err != nil {
			return nil, err
		}
		remains := slices.ContainsFunc(s.Members, func(m top.Member) bool { return a.isDone(m.ID) })
		if !remains || pause.For(waiting, leftPoll) != nil {
			return s, nil
		}
	}
}

func (a *asker) isDone(replica string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.replicas[replica]
	return r != nil && r.done
}

// asker asks replicas and hears their answers.
type asker struct {
	Settings
	mu       sync.Mutex
	replicas map[string]*asked // by id
}

// asked is a replica that was asked.
type asked struct {
	top.Member
	began    time.Time
	answered bool // once at least
	inVain   int  // how often it was asked since its last answer
	gone     chan error
	done     bool // gone has its value
}

// heard takes an answer in.
func (a *asker) heard(m *nats.Msg) {
	state := &pb.DrainState{}
	if proto.Unmarshal(m.Data, state) != nil || schemas.LastToken(m.Subject) != state.Replica {
		return // of nobody who was asked
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.replicas[state.Replica]
	if r == nil || r.done {
		return
	}
	if r.answered, r.inVain = true, 0; !state.Gone {
		return
	}
	r.done = true
	var err error
	if state.Error != "" {
		err = fmt.Errorf("it did not finish in time: %.300s; others take over what it had", state.Error)
	}
	r.gone <- err
}

// drain asks replicas of one service at once, so that none of them hands over to another.
func (a *asker) drain(ctx context.Context, all []top.Member) (errs []error) {
	results := make([]Result, len(all))
	var waiting sync.WaitGroup
	for i, m := range all {
		r := &asked{Member: m, began: time.Now(), gone: make(chan error, 1)}
		a.mu.Lock()
		a.replicas[m.ID] = r
		a.mu.Unlock()
		waiting.Go(func() { results[i] = a.result(r, a.await(ctx, r)) })
	}
	waiting.Wait()
	for _, r := range results {
		a.Tell(r)
		if r.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Replica, r.err))
		}
	}
	return errs
}

func (a *asker) result(r *asked, err error) Result {
	out := Result{Replica: r.ID, Service: r.Service, Host: r.Host, PID: r.PID, Drained: err == nil, Seconds: time.Since(r.began).Seconds(), err: err}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}

// await asks a replica until it is gone, or is not to be waited for any longer.
func (a *asker) await(ctx context.Context, r *asked) error {
	limit := time.After(a.Within)
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	subject := a.Names.Subjects.Drain(r.Service, r.ID)
	for {
		_ = a.Conn.Tell(subject, nil) // lost without a connection: it is asked again
		select {
		case err := <-r.gone:
			return err
		case <-ctx.Done():
			return fmt.Errorf("it goes on draining: %w", ctx.Err())
		case <-limit:
			return fmt.Errorf("it has not drained within %v (--timeout); it may go on. %s", a.Within, where(r.Member))
		case <-tick.C:
			if err := a.lost(ctx, r, subject); err != nil {
				return err
			}
		}
	}
}

// lost says why a replica will not answer any more; nil: it may.
func (a *asker) lost(ctx context.Context, r *asked, subject string) error {
	if denied := a.Conn.Denied(); denied != nil && (strings.Contains(denied.Error(), subject) || strings.Contains(denied.Error(), a.Names.Subjects.Drained("*", "*"))) {
		return denied
	}
	if !a.Conn.Connected() {
		return nil
	}
	a.mu.Lock()
	r.inVain++
	answered, waits := r.answered, r.done || r.inVain < unanswered
	a.mu.Unlock()
	if waits {
		return nil
	}
	absent, err := a.Conn.Absent(ctx, a.Names.Subjects.Here(r.ID), absentWithin)
	switch {
	case err != nil && !bus.IsDenied(err):
		return err
	case absent:
		return errors.New("it went without having drained, as when it is killed; others take over what it had")
	case !answered:
		return fmt.Errorf("it has a connection and has not answered for %v: it hangs, or its version knows no drain. %s", answerWithin, where(r.Member))
	}
	return nil // it works on, as far as can be seen; the limit is near enough
}

func where(m top.Member) string {
	if m.PID == 0 {
		return "Send SIGTERM to its process, or SIGKILL if that does not help"
	}
	return fmt.Sprintf("It is in process %d on host %s: send that SIGTERM, or SIGKILL if that does not help", m.PID, m.Host)
}

// String returns a line for people.
func (r Result) String() string {
	if r.Drained {
		return fmt.Sprintf("%s has drained and is gone, after %.1f s\n", r.Replica, r.Seconds)
	}
	return fmt.Sprintf("%s has NOT drained, after %.1f s\n", r.Replica, r.Seconds)
}
