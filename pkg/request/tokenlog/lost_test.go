package tokenlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// goBack has the server come back with what it had when act began: what was acknowledged since is lost.
func (r *rig) goBack(act func()) {
	r.t.Helper()
	then := filepath.Join(r.t.TempDir(), "then")
	r.srv.Shutdown()
	if err := os.CopyFS(then, os.DirFS(r.dir)); err != nil {
		r.t.Fatal(err)
	}
	r.start()
	testkit.Eventually(r.t, "the connection is back", r.conn.Connected)
	act()
	r.srv.Shutdown()
	if err := errors.Join(os.RemoveAll(r.dir), os.CopyFS(r.dir, os.DirFS(then))); err != nil {
		r.t.Fatal(err)
	}
	r.start()
	testkit.Eventually(r.t, "the connection is back", r.conn.Connected)
}

// A reader whose place is in a part that was lost hears of it, and from where to go on, also when the numbers of what
// was lost have been given to others.
func TestLostEnd(t *testing.T) {
	for _, regrown := range []int{0, 1, 9} {
		t.Run(fmt.Sprint(regrown), func(t *testing.T) {
			r := newRig(t)
			for range 3 {
				r.put("r", []byte("kept"))
			}
			place := bus.Place{}
			read := func(m bus.Stored) bool { place = place.Behind(m); return place.Sequence < 6 }
			r.goBack(func() {
				for range 3 {
					r.put("r", []byte("lost"))
				}
				if err := r.conn.Follow(r.ctx(), names.Tokens().Name, []string{names.Subjects.AnyToken()}, bus.Place{}, read); err != nil {
					t.Fatal(err)
				}
			})
			for range regrown {
				r.put("r", []byte("new"))
			}
			err := r.conn.Follow(r.ctx(), names.Tokens().Name, []string{names.Subjects.AnyToken()}, place, func(bus.Stored) bool { return false })
			var lost *bus.LostEndError
			if !errors.As(err, &lost) || !errors.Is(err, bus.ErrReplaced) || lost.Left.Sequence != 3 || lost.Read.Sequence != 6 {
				t.Fatalf("%v", err)
			}
			if regrown > 0 {
				err := r.conn.Follow(r.ctx(), names.Tokens().Name, []string{names.Subjects.AnyToken()}, lost.Left, func(m bus.Stored) bool {
					if m.Sequence != 4 || string(m.Data) != "new" {
						t.Errorf("it goes on with %d, %q", m.Sequence, m.Data)
					}
					return false
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// An owner writes again what its log has lost, from wherever it was cut; readers get nothing twice.
func TestOwnerWritesAgain(t *testing.T) {
	r := newRig(t)
	r.accept("r")
	w, _ := r.claim(r.log, "r", WriterSettings{})
	appendAll(t, w, token(0))
	r.flush(w)
	r.goBack(func() {
		appendAll(t, w, token(1), token(2))
		r.flush(w)
	})
	appendAll(t, w, token(3), terminal("cancelled"))
	r.flush(w)
	if got := kinds(r.read("r")); got != "A C1 0 1 2 3 T" {
		t.Errorf("log %s", got)
	}
}

// An owner that another one has followed meanwhile writes nothing again, nor where the request has ended.
func TestOwnerIsLate(t *testing.T) {
	for name, tc := range map[string]struct {
		act  func(*rig)
		want error
	}{
		"another owner": {func(r *rig) { r.claim(New(r.conn, names, r.as("b")), "r", WriterSettings{}) }, ErrStale},
		"an end": {func(r *rig) {
			if err := r.log.Finish(r.ctx(), "r", terminal("cancelled").GetTerminal()); err != nil {
				r.t.Error(err)
			}
		}, ErrFinished},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.accept("r")
			s, lost := losing()
			w, _ := r.claim(r.log, "r", s)
			r.goBack(func() {
				appendAll(t, w, token(0))
				r.flush(w)
			})
			tc.act(r)
			_ = w.Append(token(1)) // what becomes of it is told
			if err := <-lost; !errors.Is(err, tc.want) {
				t.Errorf("lost by %v", err)
			}
		})
	}
}

// What is kept is bounded, and what is older than that cannot be written again.
func TestKeptIsBounded(t *testing.T) {
	var k kept
	for i := range 3000 {
		k.add(fmt.Appendf(nil, "%0*d", 100+i%300, i))
	}
	if len(k.data) > keptBytes || k.end != 3000 || k.from == 0 {
		t.Fatalf("%d bytes, from %d to %d", len(k.data), k.from, k.end)
	}
	for n := k.from; n <= k.end; n += 97 {
		records, ok := k.behind(n)
		if !ok || len(records) != k.end-n || len(records) > 0 && string(records[0]) != fmt.Sprintf("%0*d", 100+n%300, n) {
			t.Fatalf("behind %d: %d records, %v", n, len(records), ok)
		}
	}
	if _, ok := k.behind(k.from - 1); ok {
		t.Error("it has what it let go")
	}
	k.add(make([]byte, keptBytes))
	if records, ok := k.behind(k.end); !ok || len(records) > 0 || k.from != k.end {
		t.Errorf("%d records behind one that is too large, %v", len(records), ok)
	}
}

// A log with a gap, or without a beginning, begins anew; one that is whole stays, and none does that cannot be
// computed again.
func TestRestart(t *testing.T) {
	opened := opening(0)
	opened.Sequence = &pb.Sequence{PromptIds: []uint32{1, 2, 3, 4, 5}}
	for name, tc := range map[string]struct {
		spoil func(*rig)
		log   string
		err   error
	}{
		"whole":        {func(*rig) {}, "A C1 0 1", nil},
		"gap":          {func(r *rig) { r.put("r", bytesOf(r.t, tokenIn(1, 4, 5))) }, "A", nil},
		"no beginning": {func(r *rig) { r.purge("r", 2) }, "A", nil},
		"ended":        {func(r *rig) { _ = r.log.Finish(r.ctx(), "r", terminal("cancelled").GetTerminal()) }, "A C1 0 1 T", ErrFinished},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if _, err := r.log.Accept(r.ctx(), "r", opened); err != nil {
				t.Fatal(err)
			}
			w, _ := r.claim(r.log, "r", WriterSettings{})
			appendAll(t, w, token(0), token(1))
			r.flush(w)
			tc.spoil(r)
			if err := r.log.Restart(r.ctx(), "r", opened); !errors.Is(err, tc.err) {
				t.Errorf("restart: %v", err)
			}
			if got := kinds(r.read("r")); got != tc.log {
				t.Errorf("log %s, want %s", got, tc.log)
			}
		})
	}
}
