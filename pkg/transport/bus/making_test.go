package bus

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// twoUsers is a server with a user who makes no streams, and one who may do everything.
func twoUsers(t *testing.T) (service, maker *Conn) {
	t.Helper()
	o := &server.Options{
		JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{
			{Username: "u", Password: "p", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>", "$JS.API.STREAM.DELETE.>"}},
			}},
			{Username: "maker", Password: "p"},
		},
	}
	service = connectTo(t, o, Settings{})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	maker, err := Connect(ctx, Config{URL: strings.Replace(service.nc.ConnectedUrl(), "//u:", "//maker:", 1)}, Settings{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(maker.Close)
	return service, maker
}

// Who makes no streams waits for who does, says so, and goes on.
func TestWaitsForMaker(t *testing.T) {
	service, maker := twoUsers(t)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	s := names(schemas.HopsUnacked)
	starting := make(chan error, 2)
	go func() { starting <- service.Ensure(ctx, 1, s.Tokens(), s.Hidden()) }()
	go func() { _, err := service.EnsureBucket(ctx, 1, s.Bucket("plans"), 0); starting <- err }()
	testkit.Eventually(t, "it says what is missing", func() bool {
		var missing *MissingError
		return errors.As(service.Ready(), &missing) && len(missing.Streams) == 2
	})
	if _, err := maker.Provide(ctx, Provision{Replicas: 1}, WantStream(s.Tokens()), WantStream(s.Hidden()), WantBucket(s.Bucket("plans"), 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-starting; err != nil {
			t.Error(err)
		}
	}
	if err := service.Ready(); err != nil {
		t.Error(err)
	}
	if err := service.Denied(); err != nil {
		t.Errorf("it is told as a missing right: %v", err)
	}
}

// Who makes no streams gives up a start in which nobody makes them, and a command at once.
func TestMakerNeverComes(t *testing.T) {
	service, _ := twoUsers(t)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	service.makers = 0
	var missing *MissingError
	s := names(schemas.HopsUnacked)
	if err := service.Ensure(ctx, 1, append(s.Durable(), s.Hidden())...); !errors.As(err, &missing) ||
		!strings.Contains(err.Error(), "test_PROMPTS_m, test_SEQUENCES_m, test_TOKENS_m and 2 more are missing") || !strings.Contains(err.Error(), "switchyard setup") {
		t.Errorf("streams: %v", err)
	}
	if err := service.EnsureObjects(ctx, 1, "b"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "OBJ_b is missing") {
		t.Errorf("an object store: %v", err)
	}
}

// What is missing is waited for so long, and other troubles in between do not count.
func TestLastsWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing, ends := &MissingError{Streams: []string{"s"}}, lastsWithout(time.Minute)
		for i, step := range []struct {
			after time.Duration
			err   error
			want  bool
		}{
			{0, missing, false},
			{59 * time.Second, missing, false},
			{0, context.DeadlineExceeded, false},
			{59 * time.Second, missing, false},
			{time.Minute, missing, true},
			{0, &MismatchError{}, true},
		} {
			time.Sleep(step.after)
			if got := ends(step.err); got != step.want {
				t.Errorf("step %d: %v", i, got)
			}
		}
	})
}

// A stream that goes under who receives from it is made again by its maker, and tensors
// flow again.
func TestReceiverWaitsForMaker(t *testing.T) {
	service, maker := twoUsers(t)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	s := names(schemas.HopsUnacked)
	want := WantStream(s.Hidden())
	if _, err := maker.Provide(ctx, Provision{Replicas: 1}, want); err != nil {
		t.Fatal(err)
	}
	var got atomic.Int64
	h := NewHop(service, schemas.HopsUnacked)
	running, err := h.Receive(ctx, receiver(s), func(context.Context, *Msg) error { got.Add(1); return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { running.Stop(); <-running.Closed() }()
	if err := maker.js.DeleteStream(ctx, want.Name); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it misses its stream", func() bool { return service.Ready() != nil })
	lost, err := maker.Lost(ctx, want)
	if err != nil || len(lost) != 1 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	if _, err := maker.Provide(ctx, Provision{Replicas: 1}, lost...); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "tensors flow again", func() bool {
		_ = h.Send(ctx, s.Subjects.Hidden(0), hidden(1)) // lost before the receiver is back
		return got.Load() > 0 && service.Ready() == nil
	})
}

// Who may not change a stream says how it is mended.
func TestMayNotMend(t *testing.T) {
	service, maker := twoUsers(t)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	now := names(schemas.HopsUnacked).Tokens()
	before := now
	before.Rollup = false
	if err := maker.Ensure(ctx, 1, before); err != nil {
		t.Fatal(err)
	}
	var mismatch *MismatchError
	if err := service.Ensure(ctx, 1, now); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "rollups allowed: false where true is wanted: switchyard setup") {
		t.Errorf("error %v", err)
	}
	if err := maker.Ensure(ctx, 1, now); err != nil {
		t.Errorf("who may: %v", err)
	}
	if err := service.Ensure(ctx, 1, now); err != nil {
		t.Errorf("then: %v", err)
	}
}

// A stream that a later release has made is left to that.
func TestNewerStream(t *testing.T) {
	r := newRig(t)
	now := names(schemas.HopsUnacked).Tokens()
	later := stamped(streamConfig(now, 1), "v9")
	later.AllowRollup, later.Metadata[metaSchema] = false, "99"
	if _, err := r.conn.js.CreateStream(r.ctx(), later); err != nil {
		t.Fatal(err)
	}
	var mismatch *MismatchError
	if err := r.conn.Ensure(r.ctx(), 1, now); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "switchyard v9 has made it") || strings.Contains(err.Error(), "switchyard setup") {
		t.Errorf("error %v", err)
	}
}

// A release that is gone back to leaves alone what it would mend for itself, and says of the
// rest which release to start.
func TestStreamOfALaterRelease(t *testing.T) {
	r := newRig(t)
	r.conn.release = "v1.2.3"
	now := names(schemas.HopsUnacked).Tokens()
	later := stamped(streamConfig(now, 1), "v1.3.0")
	later.Duplicates = time.Minute
	later.MaxAge = time.Hour
	if _, err := r.conn.js.CreateStream(r.ctx(), later); err != nil {
		t.Fatal(err)
	}
	var mismatch *MismatchError
	err := r.conn.Ensure(r.ctx(), 1, now)
	if !errors.As(err, &mismatch) || len(mismatch.Differences) != 1 || !strings.Contains(err.Error(), "start that") || strings.Contains(err.Error(), "switchyard setup") {
		t.Errorf("error %v", err)
	}
	later.MaxAge = now.MaxAge
	if _, err := r.conn.js.UpdateStream(r.ctx(), later); err != nil {
		t.Fatal(err)
	}
	if err := r.conn.Ensure(r.ctx(), 1, now); err != nil {
		t.Errorf("then: %v", err)
	}
}

func TestLater(t *testing.T) {
	for _, tc := range []struct {
		release, than string
		later         bool
	}{
		{"v1.2.4", "v1.2.3", true}, {"v1.10.0", "v1.9.9", true}, {"v1.2.3-4-gabc1234", "v1.2.3", true},
		{"v1.2.3-10-gabc1234-dirty", "v1.2.3-9-gabc1234", true}, {"v1.2.3", "v1.2.3", false}, {"v1.2.3", "v1.2.4", false},
		{"v1.2.3-dirty", "v1.2.3", false}, {"dev", "v1.2.3", false}, {"v9.0.0", "dev", false}, {"", "", false},
		{"abc1234", "v1.2.3", false}, {"v1.2.3-rc.1", "v1.2.2", false}, {"v99999999999999999999.0.0", "v1.0.0", false},
	} {
		if later(tc.release, tc.than) != tc.later {
			t.Errorf("%q is later than %q: %v", tc.release, tc.than, !tc.later)
		}
	}
}

// Provide makes what is missing, mends what loses nothing, and tells of the rest.
func TestProvide(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsUnacked)
	want := []jetstream.StreamConfig{WantStream(s.Tokens()), WantStream(s.Prompts()), WantStream(s.Hidden()), WantBucket(s.Bucket("plans"), 0, "a"), WantObjects(s.Bucket("weights"))}
	states := func(how Provision, want ...jetstream.StreamConfig) (text string) {
		t.Helper()
		all, err := r.conn.Provide(r.ctx(), how, want...)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			text += map[bool]string{true: "made ", false: ""}[p.Made]
			for _, d := range p.Mended {
				text += "mended " + d.Field + " "
			}
			for _, d := range p.Left {
				text += "left " + d.Field + " "
			}
		}
		return strings.TrimSpace(text)
	}
	if got := states(Provision{Replicas: 1}, want...); got != "made made made made made" {
		t.Errorf("at first: %s", got)
	}
	if got := states(Provision{Replicas: 1}, want...); got != "" {
		t.Errorf("the second time: %s", got)
	}
	s.LogAge, s.LogBytes = 3*time.Hour, 5<<30
	want[0], want[3] = WantStream(s.Tokens()), WantBucket(s.Bucket("plans"), 0, "b")
	if got := states(Provision{Replicas: 1}, want...); got != "mended maximum age mended maximum bytes mended subjects mended maximum bytes of a message" {
		t.Errorf("with more: %s", got)
	}
	s.LogAge, s.Hops = time.Hour, schemas.HopsAcked
	want[0], want[2] = WantStream(s.Tokens()), WantStream(s.Hidden())
	if got := states(Provision{Replicas: 1}, want...); got != "left maximum age left retention" {
		t.Errorf("with less: %s", got)
	}
	for _, tc := range []struct {
		how  Provision
		want string
	}{
		{Provision{Change: []string{s.Tokens().Name, s.Hidden().Name}}, "mended maximum age left retention"},
		{Provision{Remake: []string{Tensors, s.Tokens().Name}}, "made"},
		{Provision{}, ""},
	} {
		if got := states(tc.how, want...); got != tc.want {
			t.Errorf("%+v: %s", tc.how, got)
		}
	}
	if lost, err := r.conn.Lost(r.ctx(), append(want, WantStream(s.Gate()))...); err != nil || len(lost) != 1 || lost[0].Name != s.Gate().Name {
		t.Errorf("lost %v, %v", lost, err)
	}
}
