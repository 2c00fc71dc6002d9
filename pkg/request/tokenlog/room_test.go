package tokenlog

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// bounded makes the logs' stream anew with a bound, and returns the logs as
// replicas have them that wait so long for room and look how much there is.
func (r *rig) bounded(bytes int64, replicas int, within time.Duration) (logs []*Log) {
	r.t.Helper()
	small := names
	small.LogBytes = bytes
	if err := r.conn.JetStream().DeleteStream(r.ctx(), names.Tokens().Name); err != nil {
		r.t.Fatal(err)
	}
	if err := r.conn.Ensure(r.ctx(), 1, small.Tokens()); err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	r.t.Cleanup(func() { stop(); watching.Wait() })
	for range replicas {
		s := r.as("a")
		s.RoomWithin = within
		l := New(r.connect(r.addr), names, s)
		l.look(ctx, int64(replicas))
		watching.Go(func() { l.WatchRoom(ctx, func() int { return replicas }) })
		logs = append(logs, l)
	}
	return logs
}

func noRoom(_ *Writer, why error) *pb.Terminal {
	return &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: "overloaded", Message: why.Error()}}
}

// Requests that together want far more than the log's bound, in large records
// or small ones: each ends soon, in the log, with both numbers, and the end of
// the stream stays free for ends, claims and packed logs.
func TestRoomForEnds(t *testing.T) {
	const bound, requests = 1 << 20, 12
	for name, logits := range map[string]int{"large records": 8192, "small records": 0} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			logs := r.bounded(bound, 2, 300*time.Millisecond)
			var work sync.WaitGroup
			ends := make([][]Entry, requests)
			for i := range requests {
				work.Go(func() { ends[i] = r.writeOn(logs[i%2], string(rune('a'+i)), logits) })
			}
			work.Wait()
			for i, all := range ends {
				end := all[len(all)-1].Record.GetTerminal()
				if m := end.GetError().GetMessage(); end.GetError().GetCode() != "overloaded" || !strings.Contains(m, names.Tokens().Name) || !strings.Contains(m, "of its 1048576 bytes") {
					t.Errorf("request %d ends with %v", i, end)
				}
			}
			state, err := r.conn.State(r.ctx(), names.Tokens().Name)
			if err != nil || state.Bytes < bound*8/10 || state.Bytes > bound*98/100 {
				t.Errorf("the stream has %d bytes of %d, error %v", state.Bytes, bound, err)
			}
		})
	}
}

// writeOn makes records of a request until it is ended, and returns its log.
func (r *rig) writeOn(l *Log, request string, logits int) []Entry {
	open := opening(0)
	open.PromptTokens, open.MaxTokens = 5000, 5000
	if _, err := l.Accept(r.ctx(), request, open); err != nil {
		r.t.Error(err)
	}
	w, _, err := l.Claim(r.ctx(), request, open, WriterSettings{Cut: noRoom})
	if err != nil {
		r.t.Error(err)
		return []Entry{{Record: &pb.Record{}}}
	}
	for i, ok := 0, true; ok; i++ {
		record := token(i)
		if logits > 0 {
			record = &pb.Record{Kind: &pb.Record_Score{Score: &pb.Score{Position: int32(i), Logits: make([]float32, logits)}}}
		}
		for ok = w.Append(record) == nil; ok && w.Full(); {
			time.Sleep(time.Millisecond)
		}
	}
	select {
	case <-w.Done():
	case <-time.After(testkit.Patience):
		r.t.Errorf("%s never ended", request)
	}
	return r.read(request)
}

// A request that waits for room goes on when there is some again, and one that
// has only its end to write needs none.
func TestRoomAgain(t *testing.T) {
	r := newRig(t)
	l := r.bounded(64<<10, 1, time.Hour)[0]
	for _, request := range []string{"waits", "ends"} {
		r.accept(request)
	}
	waits, _ := r.claim(l, "waits", WriterSettings{})
	ends, _ := r.claim(l, "ends", WriterSettings{})
	r.put("ballast", make([]byte, 61<<10))
	l.look(r.ctx(), 1)
	appendAll(t, waits, token(0), terminal("stop"))
	appendAll(t, ends, terminal("cancelled"))
	r.flush(ends)
	if got := kinds(r.read("waits")); got != "A C1" {
		t.Errorf("log %s", got)
	}
	last, err := r.log.Last(r.ctx(), "ballast")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.conn.JetStream().Stream(r.ctx(), names.Tokens().Name)
	if err == nil {
		err = stream.DeleteMsg(r.ctx(), last)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.flush(waits)
	if got := kinds(r.read("waits")); got != "A C1 0 T" {
		t.Errorf("log %s", got)
	}
}
