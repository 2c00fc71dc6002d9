package tokenlog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// begin accepts a request whose log may take so many bytes.
func (r *rig) begin(request string, bytes uint64) {
	r.t.Helper()
	accept := opening(0)
	accept.LogBytes = bytes
	if existing, err := r.log.Accept(r.ctx(), request, accept); err != nil || existing != nil {
		r.t.Fatalf("accepting %s: %v, error %v", request, existing, err)
	}
	w, _ := r.claim(r.log, request, WriterSettings{})
	appendAll(r.t, w, token(0))
	r.flush(w)
}

// reader follows a log and stands still at its first record until let on.
func (r *rig) reader(ctx context.Context, request string) (arrived chan struct{}, letOn func()) {
	arrived, on := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		first := true
		_ = r.log.FollowRequest(ctx, request, func(e Entry) bool {
			if first {
				close(arrived)
				<-on
			}
			first = false
			return e.Record.GetToken() == nil
		})
	}()
	return arrived, func() { close(on); <-done }
}

// However many ask for large answers again, few are read at once; small ones
// do not wait for them.
func TestFewLargeLogsAreReadAtOnce(t *testing.T) {
	r := newRig(t)
	r.begin("large", smallLog+1)
	r.begin("small", smallLog)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	var letOn []func()
	for range followsAtOnce {
		arrived, on := r.reader(ctx, "large")
		<-arrived
		letOn = append(letOn, on)
	}
	waiting, last := r.reader(ctx, "large")
	small, other := r.reader(ctx, "small")
	<-small
	select {
	case <-waiting:
		t.Error("more large logs are read at once than may")
	case <-time.After(200 * time.Millisecond):
	}
	letOn[0]()
	<-waiting
	for _, on := range append(letOn[1:], last, other) {
		on()
	}
}

func TestIsSmall(t *testing.T) {
	r := newRig(t)
	for name, tc := range map[string]struct {
		record *pb.Record
		want   bool
	}{
		"small":   {&pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{LogBytes: smallLog}}}, true},
		"large":   {&pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{LogBytes: smallLog + 1}}}, false},
		"unsaid":  {&pb.Record{Kind: &pb.Record_Accept{Accept: &pb.Accept{}}}, false},
		"packed":  {&pb.Record{Kind: &pb.Record_Packed{Packed: &pb.Packed{}}}, true},
		"nothing": {&pb.Record{}, false},
	} {
		data, err := r.log.encode("s", tc.record)
		if err != nil {
			t.Fatal(err)
		}
		m := bus.Stored{Data: data}
		if isSmall(m) != tc.want {
			t.Errorf("%s: %v, want %v", name, !tc.want, tc.want)
		}
	}
}

// A place that is left twice is one place, and a reader whose context ends takes none.
func TestPlaces(t *testing.T) {
	p, large := newPlaces(2), bus.Stored{}
	enter := func(ctx context.Context) func() {
		t.Helper()
		leave, err := p.enter(ctx, large)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, _ := enter(t.Context()), enter(t.Context())
	ended, end := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		_, err := p.enter(ended, large)
		waiting <- err
	}()
	end()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("it waited to %v", err)
	}
	first()
	first()
	enter(t.Context())
	if p.free.TryAcquire(1) {
		t.Error("there is a third place")
	}
}
