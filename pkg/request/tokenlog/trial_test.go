package tokenlog

import (
	"errors"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func trial(over bool) *pb.Record {
	return &pb.Record{Kind: &pb.Record_Trial{Trial: &pb.Trial{Over: over}}}
}

// in is a record of an epoch.
func in(epoch uint64, r *pb.Record) *pb.Record { r.Epoch = epoch; return r }

// What a log says of its owners: c a claim, + and - a trial's beginning and end, t a
// token. Those that do not follow are x.
func TestDoubt(t *testing.T) {
	for _, tc := range []struct {
		log               string
		doubtful, crashed bool
	}{
		{"cc", false, false},
		{"ccc", true, false},
		{"ctcc", false, false},
		{"cctccc", true, false},
		{"ccct", false, false},
		{"ccc+", true, false},
		{"ccc+c+", true, true},
		{"ccc+-c+", true, false},
		{"ccc+-+c+-+", true, true},
		{"ccc+c+-", true, false},
		{"ccc+ct", false, false},
		{"ccc+c+tc", false, false},
		{"ccc+tx", false, false}, // a token ends a trial
		{"ccc+x", true, false},
		{"cccx", true, false},
		{"x", false, false},
	} {
		c, epoch, token := NewChain(rules), uint64(0), int32(0)
		if _, err := c.Take(accept(opening(0))); err != nil {
			t.Fatal(err)
		}
		for at, what := range tc.log {
			var r *pb.Record
			switch what {
			case 'c':
				epoch++
				r = claimOf(epoch)
			case '+', '-':
				r = in(epoch, trial(what == '-'))
			case 't':
				r = tokenIn(epoch, token, 1)
				token++
			case 'x': // the trial's record that does not follow
				r = in(epoch, trial(!c.trying))
			}
			if _, err := c.Take(r); (err != nil) != (what == 'x') {
				t.Errorf("%s at %d: %v", tc.log, at, err)
			}
		}
		if c.Doubtful() != tc.doubtful || c.Crashed() != tc.crashed {
			t.Errorf("%s: doubtful %v, crashed %v", tc.log, c.Doubtful(), c.Crashed())
		}
	}
}

// A trial's beginning closes its writer until it is stored, and two owners that leave one
// behind are the last.
func TestTrials(t *testing.T) {
	r := newRig(t)
	r.accept("q")
	for range doubtAfter {
		if w, _ := r.claim(r.log, "q", WriterSettings{}); w.Doubtful() {
			t.Error("doubtful at once")
		}
	}
	for again := range maxCrashes {
		room := make(chan struct{}, 1)
		w, _ := r.claim(r.log, "q", WriterSettings{Room: func() { room <- struct{}{} }})
		if !w.Doubtful() || w.Full() {
			t.Errorf("doubtful %v, full %v", w.Doubtful(), w.Full())
		}
		if again == 0 {
			r.srv.Shutdown()
		}
		appendAll(t, w, trial(false))
		if again == 0 && !w.Full() {
			t.Error("it may step before its trial is stored")
		}
		if again == 0 {
			r.start()
		}
		<-room
		if w.Full() {
			t.Error("it may not step though its trial is stored")
		}
	}
	if _, _, err := r.log.Claim(r.ctx(), "q", opening(0), WriterSettings{}); !errors.Is(err, ErrCrashed) {
		t.Errorf("claimed with %v", err)
	}
}
