package intake_test

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
	"github.com/switchyard/switchyard/services/tokenizer/intake"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

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
			r := rig.New(t, 0)
			got := r.Inbox()
			header := nats.Header{schemas.HeaderReplyTo: {got.Subject}}
			if _, err := r.D.Conn.StoreBytes(r.Ctx(), r.D.Subjects.Prompt(), []byte(`{"request_id":"a","text":"x"}`), header); err != nil {
				t.Fatal(err)
			}
			key := intake.TrialKey(deliverPrompt(r, 1))
			if tc.record != "" {
				if _, err := r.D.Trials.PutString(r.Ctx(), key, tc.record); err != nil {
					t.Fatal(err)
				}
			}
			r.Replica()
			if tc.taken {
				r.Opened("a")
				if e, err := r.D.Trials.Get(r.Ctx(), key); !errors.Is(err, jetstream.ErrKeyNotFound) {
					t.Errorf("a record is left: %v, %v", e, err)
				}
				return
			}
			if e := got.End().Error; e.GetCode() != "internal" || !strings.Contains(e.GetMessage(), tc.said) {
				t.Errorf("ended in %v", e)
			}
			if l := dead(r); l.Reason != tc.reason {
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
			r := rig.New(t, 0)
			r.Prompt(`{"request_id":"again","text":"x"}`)
			key := intake.TrialKey(deliverPrompt(r, 1))
			d := r.Deployment()
			if tc.record != "" {
				if _, err := d.Trials.PutString(r.Ctx(), key, tc.record); err != nil {
					t.Fatal(err)
				}
			}
			b := &stuck{KeyValue: d.Trials, reading: tc.reading, writing: tc.writing, met: make(chan struct{}), gate: make(chan struct{})}
			open := sync.OnceFunc(func() { close(b.gate) })
			d.Trials = b
			r.Start(r.Unstarted(d))
			t.Cleanup(open)
			<-b.met
			r.Prompt(`{"request_id":"first","text":"x"}`)
			r.Opened("first")
			open()
			r.Opened("again")
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
	r := rig.New(t, 0)
	d := r.Deployment()
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
			ctx, cancel := context.WithCancel(r.Ctx())
			defer cancel()
			put := func(record string) uint64 {
				revision, err := r.D.Trials.PutString(r.Ctx(), key, record)
				if err != nil {
					t.Fatal(err)
				}
				return revision
			}
			d.Trials = &doubtful{KeyValue: r.D.Trials, stores: tc.stores, answers: tc.answers, meanwhile: sync.OnceFunc(func() {
				if tc.stopped {
					cancel()
				}
				if tc.overtaken {
					put(sibling)
				}
			})}
			s := r.Unstarted(d)
			tried := false
			own, err := s.Intake.Prompts.Alone(ctx, key, before, put(before), 2, func() error { tried = true; return nil })
			if tried != tc.tried || (err == nil) != tc.tried {
				t.Errorf("tried: %v, error %v", tried, err)
			}
			left, err := r.D.Trials.Get(r.Ctx(), key)
			if err != nil {
				t.Fatal(err)
			}
			if want := cmp.Or(tc.left, own); string(left.Value()) != want {
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
	r := &rig.Rig{T: t, URL: url}
	s := r.Unstarted(r.Deployment())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	encode := s.Model.EncodeText
	s.Model.EncodeText = func(text string, special bool) ([]uint32, error) {
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
	r := rig.New(t, 0)
	got := r.Inbox()
	const innocents = 20
	for i := range innocents {
		if i == innocents/3 {
			r.Prompt(`{"request_id":"killer","text":"fatal","reply_to":"` + got.Subject + `"}`)
		}
		r.Prompt(fmt.Sprintf(`{"request_id":"r%d","text":"harmless %d"}`, i, i))
	}
	ended := restart(r, t, url(r.URL, "fatal"))
	if e := got.End().Error; e.GetCode() != "internal" || !strings.Contains(e.GetMessage(), "2 replicas that worked on it alone went away") {
		t.Errorf("ended in %v", e)
	}
	for i := range innocents {
		r.Opened(fmt.Sprintf("r%d", i))
	}
	r.Eventually("all are settled", r.Settled)
	if n := ended(); n != 1+intake.MaxDeaths {
		t.Errorf("%d processes ended, want %d", n, 1+intake.MaxDeaths)
	}
	if all := letters(r); len(all) != 1 || all[0].Reason != "crash" || !strings.Contains(string(all[0].Body), "killer") {
		t.Errorf("dead letters %v", all)
	}
}

func url(url, fatal string) string { return doomed + "=" + url + " " + fatal }

// restart runs a doomed replica, and another one whenever that has ended, until the
// test ends; ended is how many have ended by themselves.
func restart(r *rig.Rig, t *testing.T, env string) (ended func() int) {
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
