package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/chaos/workload"
)

// What is asked while things go wrong.
const (
	workers  = 20
	variants = 24
	// lostAfter is when an answer that stands still counts as lost, and settleWithin
	// how long everything may take to be given back at the end. What the server does
	// by itself takes half a minute.
	lostAfter    = 2 * time.Minute
	settleWithin = 90 * time.Second
)

// wantedMinutes is the mode, and skips the test where there is no time for it.
func wantedMinutes(t *testing.T) string {
	t.Helper()
	mode := wanted(t)
	if mode == short {
		t.Skip("this takes minutes: set SWITCHYARD_CHAOS to 1 or long")
	}
	return mode
}

// TestSeededFaults has faults of all kinds at seeded times, while requests run.
// None may lose a token, get another one, or end otherwise than it should.
func TestSeededFaults(t *testing.T) {
	c := settingsOf(t, wantedMinutes(t))
	c.check(t, play(t, c, fmt.Sprintf("seed %d", c.Seed), c.plan(t)), ByKind)
}

// TestEachFaultAlone has one fault at a time, and tells what each costs.
func TestEachFaultAlone(t *testing.T) {
	if wanted(t) != "each" {
		t.Skip("set SWITCHYARD_CHAOS to each")
	}
	c := settingsOf(t, "each")
	c.check(t, play(t, c, fmt.Sprintf("one fault at a time, seed %d", c.Seed), schedule.Each(c.Settings)), ByService)
}

// TestRollingRestart ends every replica and every server, one after the other.
func TestRollingRestart(t *testing.T) {
	c := settingsOf(t, wantedMinutes(t))
	c.Every = restartEvery
	c.check(t, play(t, c, "a rolling restart", schedule.Rolling(c.Settings)), ByService)
}

// restartEvery leaves a replica the time to come back before the next one goes.
const restartEvery = 5 * time.Second

// TestKeptSchedules has what once went wrong go wrong again.
func TestKeptSchedules(t *testing.T) {
	mode := wantedMinutes(t)
	files, err := filepath.Glob("testdata/*.schedule")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no schedule is kept in testdata")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := settingsOf(t, mode)
			c.check(t, play(t, c, file, read(t, file)), ByKind)
		})
	}
}

func read(t *testing.T, file string) schedule.Schedule {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := schedule.Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return plan
}

// play runs a site under load while a schedule goes wrong.
func play(t *testing.T, c config, title string, plan schedule.Schedule) *Run {
	t.Helper()
	if len(plan) == 0 {
		t.Fatalf("%s: nothing goes wrong in this schedule", title)
	}
	s := newSite(t, siteSettings{Programs: c.programs, Replicas: c.Replicas, Flags: []string{"--log-level", "warn"}, Disks: plan.Has(schedule.Disk)})
	l := dial(t, c, s.URL())
	if err := l.Reference(t.Context()); err != nil {
		t.Fatalf("the reference run: %v", err)
	}
	before, err := s.Idle(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{Title: title}
	counts := follow(t, s.URL(), l.Now)
	t.Logf("%s: %d faults within %v begin %v after the first request", title, len(plan), plan.Length(), l.Now().Round(time.Second))
	whileAsking(t, l, func() { r.Hits = s.Play(t.Context(), plan, l.Now) })
	t.Logf("%s: nothing is asked any more after %v", title, l.Now().Round(time.Second))
	l.Again(t.Context())
	r.Left = s.Settle(t.Context(), before, settleWithin)
	t.Logf("%s: all is idle after %v", title, l.Now().Round(time.Second))
	r.Problems, r.Load = s.Problems(), l.Result()
	r.Attribute()
	counts.share(r)
	return r
}

func dial(t *testing.T, c config, url string) *asking.Load {
	t.Helper()
	l, err := asking.Dial(asking.Settings{
		URL: url, Prefix: c.prefix, Model: c.model, Run: fmt.Sprintf("chaos-%d-%d", c.Seed, time.Now().UnixMilli()),
		Workers: workers, Workload: workload.New(c.Seed, variants), Hang: lostAfter, Login: c.login, Inbox: variable("INBOX", "_INBOX"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// whileAsking has requests run until trouble returns, and waits for their ends.
func whileAsking(t *testing.T, l *asking.Load, trouble func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() { l.Run(ctx) })
	trouble()
	stop()
	asking.Wait()
}

// reissueCounts are what the members told of their re-issues, over time.
type reissueCounts struct {
	mu sync.Mutex
	at []time.Duration
	n  []float64
}

// follow notes the counts until the test ends.
func follow(t *testing.T, url string, clock func() time.Duration) *reissueCounts {
	t.Helper()
	r, s := &reissueCounts{}, listenStats(t, connect(t, url))
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			r.note(clock(), s.total().reissues)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { stop(); done.Wait() })
	return r
}

func (r *reissueCounts) note(at time.Duration, n float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.n = append(r.at, at), append(r.n, n)
}

// before is the count at a moment, or the newest.
func (r *reissueCounts) before(at time.Duration) (n float64) {
	for i := range r.at {
		if r.at[i] > at {
			break
		}
		n = r.n[i]
	}
	return n
}

// share gives each fault of a run what was sent again until the next one.
func (r *reissueCounts) share(run *Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	end := r.at[len(r.at)-1]
	for i := len(run.Hits) - 1; i >= 0; i-- {
		hit := &run.Hits[i]
		hit.Reissues = r.before(end) - r.before(hit.Began)
		end = hit.Began
	}
	run.Counted = true
}

// check prints and writes the report, and fails if anything was wrong.
func (c config) check(t *testing.T, r *Run, by func(Hit) string) {
	t.Helper()
	t.Log("\n" + r.Table(by))
	var plan schedule.Schedule
	for _, h := range r.Hits {
		plan = append(plan, h.Fault)
	}
	c.write(t, r, plan)
	if !r.Failed() {
		return
	}
	t.Error("the run failed; see above")
	if len(plan) == 0 {
		return
	}
	if c.shrink > 0 {
		plan = c.shorter(plan, r, func(title string, part schedule.Schedule) *Run { return c.playPart(t, title, part) })
	}
	t.Logf("To see it again, write this to a file and name it in SWITCHYARD_CHAOS_SCHEDULE, with SWITCHYARD_CHAOS_SEED=%d:\n%v", c.Seed, plan)
}

// playPart plays a part of a schedule by itself.
func (c config) playPart(t *testing.T, title string, part schedule.Schedule) *Run {
	t.Helper()
	r := &Run{} // of one that could not be played
	t.Run(title, func(t *testing.T) {
		r = play(t, c, title, part)
		t.Log("\n" + r.Table(ByKind))
	})
	return r
}

// shorter looks for a part of a schedule that fails as well as the whole did, and
// returns it as it was played.
func (c config) shorter(plan schedule.Schedule, r *Run, play func(title string, part schedule.Schedule) *Run) schedule.Schedule {
	tries := 0
	fails := func(part schedule.Schedule) bool {
		tries++
		return play(fmt.Sprintf("try %d: %d of %d faults", tries, len(part), len(plan)), part.Close(c.Every)).Failed()
	}
	rest := plan
	if early := r.Before(plan); len(early) < len(plan) && fails(early) {
		rest = early
	}
	if rest = schedule.Shrink(rest, c.shrink-tries, fails); len(rest) < len(plan) {
		return rest.Close(c.Every)
	}
	return plan
}

// write leaves the report in the folder that was named.
func (c config) write(t *testing.T, r *Run, plan schedule.Schedule) {
	t.Helper()
	if c.out == "" {
		return
	}
	figures, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	picture, err := r.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(r.Title)
	for ending, body := range map[string][]byte{
		".json": figures, ".svg": picture, ".schedule": []byte("# " + r.Title + "\n" + plan.String()),
	} {
		if err := os.WriteFile(filepath.Join(c.out, name+ending), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
