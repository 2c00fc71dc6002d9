// Package upgrade replaces the services of an earlier version by those of the working
// tree, and the other way round, while requests run: each that was accepted has to end in
// its full answer or in one typed error, which replay has to repeat.
//
//	SWITCHYARD_UPGRADE=short go test -v ./loadtest/upgrade   # one server, from each version in one way, and users
//	SWITCHYARD_UPGRADE=1 go test -v ./loadtest/upgrade       # all ways, one server and three
package upgrade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/workload"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// oldest is the first version that is upgraded from. Releases follow, from v0.1.0 on.
const oldest = "8c2cc0d"

// way is one to replace the services of a version by those of another.
type way struct {
	name string
	from string
	// whole says that no request may end by an error.
	whole bool
	short bool // part of the short run
	// reweighed says that the services that come have other weights.
	reweighed bool
	run       func(*site)
}

// Where short is, the way is part of the short run.
var ways = []way{
	{"other weights", oldest, false, true, true, (*site).otherWeights},
	{"all stopped", oldest, true, true, false, (*site).stopped},
	{"killed at once", oldest, true, false, false, (*site).killed},
	{"new ones killed, too", oldest, true, false, false, (*site).interrupted},
	{"one after the other", oldest, true, false, false, (*site).rolling},
	{"one after the other, and killed", oldest, true, false, false, (*site).rollingKilled},
	{"one after the other, and back", oldest, true, false, false, (*site).back},
}

func TestUpgrade(t *testing.T) {
	mode := wantsUpgrade(t)
	programs := fleet.Build(t)
	for _, servers := range []int{1, 3} {
		for _, w := range ways {
			t.Run(fmt.Sprintf("%s/%s/%d", w.from, w.name, servers), func(t *testing.T) {
				if mode == "short" && (servers > 1 || !w.short) {
					t.Skip("the short run leaves this out")
				}
				upgrade(t, w, servers, programs)
			})
		}
	}
}

func wantsUpgrade(t *testing.T) (mode string) {
	t.Helper()
	mode = os.Getenv("SWITCHYARD_UPGRADE")
	if mode == "" {
		t.Skip("SWITCHYARD_UPGRADE is not set: this takes minutes; set it to 1, or to short for fewer scenarios")
	}
	return mode
}

// site is the services of two versions, one after the other, under load.
type site struct {
	*fleet.Fleet
	load     *asking.Load
	old, new string // folders of programs
}

const (
	workers  = 8
	variants = 12
	// lostAfter is longer than a version waits for replicas of another one.
	lostAfter = time.Minute
	// replicas are how many there are of each service.
	replicas = 2
)

func upgrade(t *testing.T, w way, servers int, programs string) {
	old := fleet.BuildAt(t, programs, w.from)
	s := &site{Fleet: fleet.New(t, fleet.Settings{Programs: old, Servers: servers, ServerConfig: fleet.Deployed}), old: old, new: programs}
	s.begin()
	s.load = dial(t, w, s.URL())
	if err := s.load.Reference(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.whileAsking(func() {
		s.progress(2 * workers)
		w.run(s)
		s.progress(2 * workers)
	})
	s.load.Again(t.Context())
	s.CheckAlive()
	judge(t, s.load)
}

// judge wants no request to have broken a promise.
func judge(t *testing.T, l *asking.Load) {
	t.Helper()
	r := l.Result()
	t.Logf("ends %v, %d tokens, %d repeated chunks, %d replays, %d read again", r.Ends, r.Tokens, r.Repeats, r.Replays, r.Again)
	for i, v := range r.Violations {
		if t.Errorf("%s: %s at %v: %.2000s", v.Request, v.What, v.At.Round(time.Millisecond), v.Detail); i == 9 {
			break
		}
	}
}

func dial(t *testing.T, w way, url string) *asking.Load {
	t.Helper()
	settings := asking.Settings{
		URL: url, Prefix: "switchyard", Model: "demo", Inbox: "_INBOX", Run: fmt.Sprintf("upgrade-%d", time.Now().UnixMilli()),
		Workers: workers, Workload: workload.New(1, variants), Hang: lostAfter, Plain: true, Mixed: true, Reweighed: w.reweighed,
	}
	if !w.whole {
		settings.Ends = []string{"internal", "model_not_ready"}
	}
	l, err := asking.Dial(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// whileAsking has requests run until the upgrade is over, and waits for their ends.
func (s *site) whileAsking(change func()) {
	ctx, stop := context.WithCancel(s.T.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	asking.Go(func() { s.load.Run(ctx) })
	change()
}

// progress waits until so many more requests have ended.
func (s *site) progress(requests int) {
	s.T.Helper()
	progress(s.T, s.load, requests)
}

func progress(t *testing.T, l *asking.Load, requests int) {
	t.Helper()
	want := ended(l) + requests
	await(t, fmt.Sprintf("%d requests more", requests), func() bool { return ended(l) >= want })
}

func ended(l *asking.Load) (n int) {
	for _, ends := range l.Result().Ends {
		n += ends
	}
	return n
}

// await polls for a condition.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * lostAfter); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Errorf("waited in vain for %s", what)
			return
		}
	}
}

// beginTries are several: the earlier versions end when a cluster of servers takes
// longer than five seconds to make their streams.
const beginTries = 20

// begin starts the services of the earlier version, until all stay.
func (s *site) begin() {
	s.T.Helper()
	s.Launch(replicas, replicas)
	for range beginTries {
		failed := 0
		for _, kind := range fleet.Kinds {
			for _, p := range s.All(kind) {
				if p.Says("ready") != nil {
					failed++
				}
			}
			s.Replace(kind)
		}
		if failed == 0 {
			return
		}
	}
	s.T.Fatal("the earlier version does not start")
}

// start starts all services of a version, and waits until they are ready.
func (s *site) start(programs string, flags ...string) {
	s.T.Helper()
	s.Use(programs, flags...)
	s.Scale(replicas, replicas)
}

// drain ends all processes of a kind.
func (s *site) drain(kind string) {
	s.T.Helper()
	for s.Count(kind) > 0 {
		s.Drain(kind)
	}
}

func (s *site) drainAll() {
	s.T.Helper()
	for _, kind := range fleet.Kinds {
		s.drain(kind)
	}
}

// otherWeights goes over to a model of another hash that has the same tokens. Requests that
// the services before had accepted may end by an error.
func (s *site) otherWeights() {
	dir := filepath.Join(s.T.TempDir(), "demo")
	if err := os.CopyFS(dir, os.DirFS("../../models/demo")); err != nil {
		s.T.Fatal(err)
	}
	config := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, append(text, '\n'), 0o600)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	s.drain("tokenizer")
	await(s.T, "an answer that nobody delivers", func() bool { return s.sequences() < workers })
	s.Clear()
	s.start(s.new, "--model", dir)
}

func (s *site) stopped() {
	s.drainAll()
	s.start(s.new)
}

func (s *site) killed() {
	s.Clear()
	s.start(s.new)
}

// interrupted has the new ones killed as soon as they are there.
func (s *site) interrupted() {
	s.Clear()
	s.start(s.new)
	s.Clear()
	s.start(s.new)
}

func (s *site) rolling() { s.roll(s.new, func(kind string) { s.Drain(kind) }) }

func (s *site) rollingKilled() { s.roll(s.new, s.Kill) }

func (s *site) back() {
	s.rolling()
	s.progress(workers)
	s.roll(s.old, func(kind string) { s.Drain(kind) })
}

// roll replaces one process after the other.
func (s *site) roll(programs string, end func(kind string)) {
	s.T.Helper()
	s.Use(programs)
	for _, kind := range fleet.Kinds {
		for range replicas {
			s.Add(kind).Await(s.T, "ready")
			end(kind)
			s.progress(2)
		}
	}
}

// sequences are the requests that attention has.
func (s *site) sequences() uint64 {
	nc, err := nats.Connect(s.URL())
	if err != nil {
		s.T.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		s.T.Fatal(err)
	}
	stream, err := js.Stream(s.T.Context(), "switchyard_SEQUENCES_demo")
	if err != nil {
		return 1 // asked again
	}
	return stream.CachedInfo().State.Msgs
}
