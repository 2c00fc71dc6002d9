package tokenizer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

func TestDeaths(t *testing.T) {
	for record, want := range map[string]int{
		"": 0, "1 a": 1, "2 a": 2, "3 a": 3, "1 own": 0, "3 own": 2,
		"4 a": 0, "0 a": 0, "-1 a": 0, "1": 0, "x a": 0, "1 a b": 0, "1 a.b": 0,
	} {
		if got := parseAttempt([]byte(record)).deaths("own"); got != want {
			t.Errorf("%q: %d deaths, want %d", record, got, want)
		}
	}
}

func FuzzParseAttempt(f *testing.F) {
	f.Add([]byte("1 tokenizer-abc"))
	f.Fuzz(func(t *testing.T, record []byte) {
		a := parseAttempt(record)
		if a == (attempt{}) {
			return
		}
		if again := parseAttempt([]byte(a.String())); again != a || a.number > maxDeaths+1 {
			t.Errorf("%q became %v, and that %v", record, a, again)
		}
	})
}

// What is done with a prompt that came again follows from how many went away while
// they tried it.
func TestTrials(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		record string // of who tried it before
		taken  bool
		said   string
		reason string
	}{
		{"", true, "", ""},
		{"1 tokenizer-x", true, "", ""},
		{"2 tokenizer-x", false, "2 replicas that worked on it alone went away", "crash"},
		{"3 tokenizer-x", false, "3 replicas that worked on it alone went away", "crash"},
	} {
		t.Run(tc.record, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			got := r.inbox()
			header := nats.Header{schemas.HeaderReplyTo: {got.subject}}
			if _, err := r.d.Conn.StoreBytes(r.ctx(), r.d.Subjects.Prompt(), []byte(`{"request_id":"a","text":"x"}`), header); err != nil {
				t.Fatal(err)
			}
			key := trialKey(r.deliver(1))
			if tc.record != "" {
				if _, err := r.d.Trials.PutString(r.ctx(), key, tc.record); err != nil {
					t.Fatal(err)
				}
			}
			r.replica()
			if tc.taken {
				r.opened("a")
				if e, err := r.d.Trials.Get(r.ctx(), key); !errors.Is(err, jetstream.ErrKeyNotFound) {
					t.Errorf("a record is left: %v, %v", e, err)
				}
				return
			}
			if e := got.end().Error; e.GetCode() != "internal" || !strings.Contains(e.GetMessage(), tc.said) {
				t.Errorf("ended in %v", e)
			}
			if l := r.dead(); l.Reason != tc.reason {
				t.Errorf("dead letter %v", l)
			}
		})
	}
}

// stuck is a bucket of which some accesses do not end before the test says so.
type stuck struct {
	jetstream.KeyValue
	reading, writing bool
	met              chan struct{} // closed when one of them has begun
	gate             chan struct{}
	once             sync.Once
}

func (b *stuck) wait(here bool) {
	if here {
		b.once.Do(func() { close(b.met) })
		<-b.gate
	}
}

func (b *stuck) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	b.wait(b.reading)
	return b.KeyValue.Get(ctx, key)
}

func (b *stuck) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	b.wait(b.writing)
	return b.KeyValue.Create(ctx, key, value, opts...)
}

func (b *stuck) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	b.wait(b.writing)
	return b.KeyValue.Update(ctx, key, value, revision)
}

// While the bucket of trials does not answer, other prompts are taken; what came again is
// when it answers.
func TestStuckTrials(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		reading, writing bool
		record           string // that is there already
	}{{"reading", true, false, ""}, {"creating", false, true, ""}, {"updating", false, true, "1 tokenizer-x"}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0)
			r.prompt(`{"request_id":"again","text":"x"}`)
			key := trialKey(r.deliver(1))
			d := r.deployment()
			if tc.record != "" {
				if _, err := d.Trials.PutString(r.ctx(), key, tc.record); err != nil {
					t.Fatal(err)
				}
			}
			b := &stuck{KeyValue: d.Trials, reading: tc.reading, writing: tc.writing, met: make(chan struct{}), gate: make(chan struct{})}
			open := sync.OnceFunc(func() { close(b.gate) })
			d.Trials = b
			r.start(New(d, Config{MaxQueued: DefaultMaxQueued}))
			t.Cleanup(open)
			<-b.met
			r.prompt(`{"request_id":"first","text":"x"}`)
			r.opened("first")
			open()
			r.opened("again")
		})
	}
}

// doubtful is a bucket whose updates end without a word, if they should.
type doubtful struct {
	jetstream.KeyValue
	stores, answers bool
	meanwhile       func() // before an update
}

var errNoAnswer = errors.New("no answer")

func (b *doubtful) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	b.meanwhile()
	answers := b.answers
	b.answers = true
	if !b.stores && !answers {
		return 0, errNoAnswer
	}
	revision, err := b.KeyValue.Update(ctx, key, value, revision)
	if !answers && err == nil {
		err = errNoAnswer
	}
	return revision, err
}

// A prompt is tried under its record, also by who stops. One that is not known to be stored
// leaves nothing behind that counts, and takes nothing away that does.
func TestRecordInDoubt(t *testing.T) {
	t.Parallel()
	const key, before, sibling = "1-1", "1 tokenizer-x", "2 tokenizer-y"
	r := newRig(t, 0)
	d := r.deployment()
	for _, tc := range []struct {
		name               string
		stores, answers    bool
		stopped, overtaken bool
		tried              bool
		left               string // in the bucket; "": the replica's own record
	}{
		{name: "stored", stores: true, answers: true, tried: true},
		{name: "stored by who stops", stores: true, answers: true, stopped: true, tried: true},
		{name: "stored without an answer", stores: true, left: before},
		{name: "stored without an answer, by who stops", stores: true, stopped: true, left: before},
		{name: "not stored", left: before},
		{name: "another replica came between", stores: true, answers: true, overtaken: true, left: sibling},
		{name: "it came between, and nobody says so", overtaken: true, left: sibling},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(r.ctx())
			defer cancel()
			put := func(record string) uint64 {
				revision, err := r.d.Trials.PutString(r.ctx(), key, record)
				if err != nil {
					t.Fatal(err)
				}
				return revision
			}
			d.Trials = &doubtful{KeyValue: r.d.Trials, stores: tc.stores, answers: tc.answers, meanwhile: sync.OnceFunc(func() {
				if tc.stopped {
					cancel()
				}
				if tc.overtaken {
					put(sibling)
				}
			})}
			s := New(d, Config{})
			a, tried := attempt{2, s.id}, false
			err := s.alone(ctx, kept{key, []byte(before), put(before)}, a, func() error { tried = true; return nil })
			if tried != tc.tried || (err == nil) != tc.tried {
				t.Errorf("tried: %v, error %v", tried, err)
			}
			left, err := r.d.Trials.Get(r.ctx(), key)
			if err != nil {
				t.Fatal(err)
			}
			if want := cmp.Or(tc.left, a.String()); string(left.Value()) != want {
				t.Errorf("%q is left, want %q", left.Value(), want)
			}
		})
	}
}

// doomed is set for a process of this test's own, which is a tokenizer that
// ends when it is to tokenize the text that the variable says.
const doomed = "SWITCHYARD_TEST_DOOMED"

// TestDoomedReplica is such a process.
func TestDoomedReplica(t *testing.T) {
	url, fatal, ok := strings.Cut(os.Getenv(doomed), " ")
	if !ok {
		t.Skip("it is run by TestPromptThatKillsItsTokenizers")
	}
	r := &rig{t: t, url: url}
	s := New(r.deployment(), Config{MaxQueued: DefaultMaxQueued})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	encode := s.model.EncodeText
	s.model.EncodeText = func(text string, special bool) ([]uint32, error) {
		if text == fatal {
			die()
		}
		return encode(text, special)
	}
	_ = s.Run(t.Context())
}

// die ends this process at once.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

// A prompt that ends whatever process tokenizes it is given up after three of them,
// and those beside it are taken.
func TestPromptThatKillsItsTokenizers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	got := r.inbox()
	const innocents = 20
	for i := range innocents {
		if i == innocents/3 {
			r.prompt(`{"request_id":"killer","text":"fatal","reply_to":"` + got.subject + `"}`)
		}
		r.prompt(fmt.Sprintf(`{"request_id":"r%d","text":"harmless %d"}`, i, i))
	}
	ended := r.restart(t, url(r.url, "fatal"))
	if e := got.end().Error; e.GetCode() != "internal" || !strings.Contains(e.GetMessage(), "2 replicas that worked on it alone went away") {
		t.Errorf("ended in %v", e)
	}
	for i := range innocents {
		r.opened(fmt.Sprintf("r%d", i))
	}
	r.eventually("all are settled", r.settled)
	if n := ended(); n != 1+maxDeaths {
		t.Errorf("%d processes ended, want %d", n, 1+maxDeaths)
	}
	if all := r.letters(); len(all) != 1 || all[0].Reason != "crash" || !strings.Contains(string(all[0].Body), "killer") {
		t.Errorf("dead letters %v", all)
	}
}

func url(url, fatal string) string { return doomed + "=" + url + " " + fatal }

// restart runs a doomed replica, and another one whenever that has ended, until the
// test ends; ended is how many have ended by themselves.
func (r *rig) restart(t *testing.T, env string) (ended func() int) {
	t.Helper()
	ends, stop, done := make(chan struct{}, 100), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for runDoomed(env, stop) {
			ends <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return func() int { return len(ends) }
}

// runDoomed runs one; false: it was stopped, or could not be run.
func runDoomed(env string, stop <-chan struct{}) (died bool) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestDoomedReplica$")
	cmd.Env = append(os.Environ(), env)
	if cmd.Start() != nil {
		return false
	}
	exit := make(chan struct{})
	go func() { defer close(exit); _ = cmd.Wait() }() // ProcessState says how it ended
	select {
	case <-stop:
		_ = cmd.Process.Kill()
		<-exit
		return false
	case <-exit:
		return cmd.ProcessState.ExitCode() == -1 // by a signal
	}
}
