package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// journal notes what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) has(line string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.lines, line)
}

// fake is a service whose three functions can be made to fail.
type fake struct {
	name                  string
	log                   *journal
	startErr, runErr      error
	stopErr, ready, alive error
	once                  bool          // Run returns nil at once
	stuck                 chan struct{} // Run waits for this instead of its context
}

func (f *fake) Name() string { return f.name }
func (f *fake) Ready() error { return f.ready }
func (f *fake) Live() error  { return f.alive }

func (f *fake) Start(context.Context) error {
	f.log.note("start " + f.name)
	return f.startErr
}

func (f *fake) Run(ctx context.Context) error {
	f.log.note("run " + f.name)
	switch {
	case f.runErr != nil || f.once:
		return f.runErr
	case f.stuck != nil:
		<-f.stuck
	default:
		<-ctx.Done()
	}
	f.log.note("end " + f.name)
	return nil
}

func (f *fake) Stop(context.Context) error {
	f.log.note("stop " + f.name)
	return f.stopErr
}

// trio is three services that share a journal.
func trio() (a, b, c *fake, log *journal) {
	log = &journal{}
	return &fake{name: "a", log: log}, &fake{name: "b", log: log}, &fake{name: "c", log: log}, log
}

// runUntilAll runs a group, ends its context once all its services run, and returns Run's result.
func runUntilAll(t *testing.T, g *Group, log *journal) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- Run(ctx, g, time.Minute) }()
	testkit.Eventually(t, "running", func() bool { return log.has("run a") && log.has("run b") && log.has("run c") })
	cancel()
	return <-result
}

func TestOrder(t *testing.T) {
	a, b, c, log := trio()
	if err := runUntilAll(t, NewGroup("g", a, b, c), log); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(log.lines[:3], ","); got != "start a,start b,start c" {
		t.Errorf("started as %s", got)
	}
	if got, want := strings.Join(log.lines[6:], ","), "end c,stop c,end b,stop b,end a,stop a"; got != want {
		t.Errorf("stopped as %s, want %s", got, want)
	}
}

func TestErrorsAreJoined(t *testing.T) {
	a, b, c, log := trio()
	b.runErr = errors.New("boom")
	a.stopErr = errors.New("stuck valve")
	err := Run(t.Context(), NewGroup("g", a, b, c), time.Minute)
	if want := "running b: boom\nstopping a: stuck valve"; err == nil || err.Error() != want {
		t.Fatalf("got %q, want %q", err, want)
	}
	for _, line := range []string{"stop a", "stop b", "stop c"} {
		if !log.has(line) {
			t.Errorf("%s is missing", line)
		}
	}
}

func TestStartFails(t *testing.T) {
	a, b, c, log := trio()
	b.startErr = errors.New("no disk")
	err := Run(t.Context(), NewGroup("g", a, b, c), time.Minute)
	if err == nil || err.Error() != "starting b: no disk" {
		t.Fatal(err)
	}
	if got := strings.Join(log.lines, ", "); got != "start a, start b, stop c, stop b, stop a" {
		t.Errorf("went %s", got)
	}
}

func TestAllDone(t *testing.T) {
	a, b, _, _ := trio()
	a.once, b.once = true, true
	if err := Run(t.Context(), NewGroup("g", a, b), time.Minute); err != nil {
		t.Fatal(err)
	}
}

func TestEndWhileStarting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, b, _, log := trio()
	if err := Run(ctx, NewGroup("g", a, b), time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(log.lines, ", "); got != "stop b, stop a" {
		t.Errorf("went %s", got)
	}
}

func TestStopIsBounded(t *testing.T) {
	a, b, c, log := trio()
	b.stuck = make(chan struct{})
	g := NewGroup("g", a, b, c)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- Run(ctx, g, 20*time.Millisecond) }()
	testkit.Eventually(t, "running", func() bool { return log.has("run b") })
	cancel()
	err := <-result
	if err == nil || !strings.Contains(err.Error(), "stopping b: its Run did not return") {
		t.Fatal(err)
	}
	if !log.has("stop a") {
		t.Error("a was not stopped")
	}
	close(b.stuck)
	<-g.member(b).done
}

func TestStopTwiceAndBeforeStart(t *testing.T) {
	a, _, _, log := trio()
	g := NewGroup("g", a)
	for range 2 {
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Start(t.Context()); err == nil {
		t.Error("a stopped group started")
	}
	if err := g.Run(t.Context()); err == nil {
		t.Error("a stopped group ran")
	}
	if got := strings.Join(log.lines, ", "); got != "stop a" {
		t.Errorf("went %s", got)
	}
}

func TestReady(t *testing.T) {
	a, b, _, log := trio()
	b.ready = errors.New("layer 3 is cold")
	g := NewGroup("g", a, b)
	if err := g.Ready(); !errors.Is(err, errStarting) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- Run(ctx, g, time.Minute) }()
	testkit.Eventually(t, "running", func() bool { return log.has("run b") })
	if err := g.Ready(); err == nil || err.Error() != "b: layer 3 is cold" {
		t.Error(err)
	}
	if err := g.Live(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if err := g.Ready(); !errors.Is(err, errStopping) {
		t.Error(err)
	}
}

func TestLive(t *testing.T) {
	a, b, _, _ := trio()
	a.alive = errors.New("device lost")
	b.runErr = errors.New("boom")
	g := NewGroup("g", a, b)
	if err := Run(t.Context(), g, time.Minute); err == nil {
		t.Fatal("no error")
	}
	if err := g.Live(); err == nil || err.Error() != "a: device lost\nrunning b: boom" {
		t.Error(err)
	}
}

// One service retires, the others go on; the group is ready without it, and does not stop
// it again.
func TestRetire(t *testing.T) {
	a, b, c, log := trio()
	b.stopErr = errors.New("it was late")
	g := NewGroup("group", a, b, c)
	if err := g.Retire(t.Context(), b); err == nil || !strings.Contains(err.Error(), "does not run it") {
		t.Errorf("before it runs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- Run(ctx, g, time.Minute) }()
	testkit.Eventually(t, "running", func() bool { return log.has("run a") && log.has("run b") && log.has("run c") })
	b.ready = errors.New("not ready any more")
	for range 2 {
		if err := g.Retire(t.Context(), b); !errors.Is(err, b.stopErr) {
			t.Errorf("retiring: %v", err)
		}
	}
	if !log.has("end b") || !log.has("stop b") || log.has("end a") || log.has("end c") || !g.Running() {
		t.Errorf("%v", log.lines)
	}
	if err := errors.Join(g.Ready(), g.Live()); err != nil {
		t.Errorf("without b: %v", err)
	}
	cancel()
	if err := <-result; !errors.Is(err, b.stopErr) {
		t.Errorf("the group: %v", err)
	}
	if n := len(slices.DeleteFunc(log.lines, func(l string) bool { return l != "stop b" })); n != 1 {
		t.Errorf("b was stopped %d times", n)
	}
}
