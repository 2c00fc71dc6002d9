package main

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Requests that are cancelled, at once or in the middle of their answers, or refused,
// leave one record each if they were accepted, and nothing else: no page, consumer,
// message or goroutine. loadtest/soak does the same with a thousand of them.
func TestCancelsLeaveNothing(t *testing.T) {
	s := newLogAdversary(t)
	s.ask("first", nil) // what is made once is there now
	testkit.Eventually(t, "the first answer is packed", func() bool { return s.pagesFree() && s.held()[s.names.Tokens().Name] == 1 })
	before, goroutines, count := s.held(), runtime.NumGoroutine(), 12
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for n := worker; n < count; n += 4 {
				if end := s.cancelled(fmt.Sprint("cancelled-", n), n%5-1); end != "cancelled" {
					t.Errorf("request %d ended with %q", n, end)
				}
			}
		})
	}
	all.Wait()
	if err := s.whole(&pb.Prompt{RequestId: "refused", InputIds: []uint32{1}, MaxTokens: proto.Int32(1 << 20)}); err == nil {
		t.Error("too many tokens were not refused")
	}
	before[s.names.Tokens().Name] += count
	testkit.Eventually(t, "all pages are free, and goroutines gone", func() bool {
		return s.pagesFree() && runtime.NumGoroutine() <= goroutines+goroutines/20
	})
	s.returns(before)
}

// Load goes on for longer than its log has room for: what is old leaves it, so nothing
// is ever refused, and in the end nothing is left.
func TestGenerations(t *testing.T) {
	if testkit.Race {
		t.Skip("it waits for looks at streams, a second each; other tests have the same code raced")
	}
	t.Parallel()
	const bound, generations = 1 << 20, 3
	s := newLogAdversary(t, func(up *UpCmd) { up.LogBytes = "1MiB" })
	log, taken := s.names.Tokens(), uint64(0)
	before := s.held()
	for g := range generations {
		for i := range 4 {
			id := fmt.Sprint(g, "-", i)
			if err := s.score("score-"+id, 3); err != nil {
				t.Errorf("score-%s: %v", id, err)
			}
			if err := s.small("small-" + id); err != nil {
				t.Errorf("small-%s: %v", id, err)
			}
		}
		if end := s.cancelled(fmt.Sprint("cancelled-", g), 2); end != "cancelled" {
			t.Errorf("a cancelled one ended with %q", end)
		}
		state, err := s.conn.State(t.Context(), log.Name)
		if err != nil {
			t.Fatal(err)
		}
		if state.Bytes > bound*8/10 {
			t.Errorf("generation %d: the log has %d bytes", g, state.Bytes)
		}
		taken += state.Bytes
		testkit.Eventually(t, "they are seen", func() bool { return !s.says(emptyLog) })
		s.keep(log.Name, 100*time.Millisecond)
		testkit.Eventually(t, "old records leave, and it is seen", func() bool { return s.says(emptyLog) })
		s.keep(log.Name, log.MaxAge)
	}
	if taken <= bound {
		t.Errorf("the log took only %d bytes in", taken)
	}
	s.returns(before)
}

const emptyLog = `switchyard_stream_fill_ratio{model="demo",stream="token"} 0`

// returns waits until the streams hold no more than they are to hold.
func (s *logAdversary) returns(want map[string]int) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprint("streams are to have ", want), func() bool { return within(s.held(), want) })
}

// within says whether nothing is more than wanted. Who follows a stream may be between
// two consumers, so one of these more is nobody's.
func within(have, want map[string]int) bool {
	for name, n := range have {
		if strings.HasSuffix(name, " consumers") {
			n--
		}
		if n > want[name] {
			return false
		}
	}
	return true
}

// keep changes how long a stream keeps records.
func (s *logAdversary) keep(stream string, age time.Duration) {
	s.t.Helper()
	js := s.conn.JetStream()
	have, err := js.Stream(s.t.Context(), stream)
	if err != nil {
		s.t.Fatal(err)
	}
	config := have.CachedInfo().Config
	config.MaxAge, config.Duplicates = age, min(age, config.Duplicates)
	if _, err := js.UpdateStream(s.t.Context(), config); err != nil {
		s.t.Fatal(err)
	}
}

// cancelled asks, cancels after some tokens, or at once, and says how it ended.
func (s *logAdversary) cancelled(request string, after int) string {
	c := client.New(s.conn.NATS(), client.Settings{Prefix: s.names.Subjects.Prefix, Model: s.names.Subjects.Model})
	stream, err := c.Prompt(s.t.Context(), &pb.Prompt{RequestId: request, InputIds: promptIDs(1, 11, 8192), MaxTokens: proto.Int32(400), IgnoreEos: true})
	if err != nil {
		return err.Error()
	}
	if after < 0 {
		err = c.Cancel(request)
	}
	for chunk, failed := range stream.Chunks() {
		switch {
		case failed != nil || err != nil:
			return fmt.Sprint(failed, err)
		case chunk.FinishReason != "":
			return chunk.FinishReason
		case int(chunk.Index) == after:
			err = c.Cancel(request)
		}
	}
	return "nothing"
}

// held counts, by stream, messages and consumers, buckets aside.
func (s *logAdversary) held() map[string]int {
	out := map[string]int{}
	list := s.conn.JetStream().ListStreams(s.t.Context())
	for info := range list.Info() {
		if strings.HasPrefix(info.Config.Name, "KV_") {
			continue // their keys say who is here, and come and go with the machine's speed
		}
		out[info.Config.Name] = int(info.State.Msgs)
		out[info.Config.Name+" consumers"] = info.State.Consumers
	}
	return out
}

// pagesFree says whether nobody has pages of keys and values.
func (s *logAdversary) pagesFree() bool {
	return s.says(`switchyard_kv_pages{model="demo",state="used"} 0`)
}

// says whether a line is among the metrics.
func (s *logAdversary) says(line string) bool {
	page := httptest.NewRecorder()
	s.y.Settings.Node.Shared.Telemetry.Handler().ServeHTTP(page, httptest.NewRequestWithContext(s.t.Context(), "GET", "/metrics", nil))
	return strings.Contains(page.Body.String(), "\n"+line+"\n")
}

// A server with less storage than the streams may take ends a service with the sum, what
// there is and what to change, and has none of the streams.
func TestLittleStorage(t *testing.T) {
	for _, tc := range []struct {
		name          string
		store, memory int64
		args          []string
		want          string
	}{
		{
			"file", 1 << 30, 1 << 30, []string{"--log-bytes", "2GiB"},
			"NATS has too little file storage for model demo: streams and buckets take 3264MiB, of which --log-bytes are 2GiB; " +
				"the server has 1GiB left of its max_file_store, other streams of this account take 0MiB; raise max_file_store by 2240MiB, or lower --log-bytes of all services",
		},
		{
			"memory", 8 << 30, 512 << 20, nil,
			"NATS has too little memory for model demo: the streams of tensors take 832MiB; " +
				"the server has 512MiB left of its max_memory_store, other streams of this account take 0MiB; raise max_memory_store by 320MiB, or give all services --hops core, which takes none",
		},
	} {
		srv := startNATS(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: tc.store, JetStreamMaxMemory: tc.memory})
		got := invoke("", append([]string{"aggregator", "--nats", srv.ClientURL()}, tc.args...)...)
		if got.code != exitFailed || !strings.Contains(got.err, tc.want) || strings.Count(got.err, "\n") > 1 {
			t.Errorf("%s: got %+v, want %q", tc.name, got, tc.want)
		}
		if left, err := srv.Jsz(nil); err != nil || left.Streams > 0 {
			t.Errorf("%s: %d streams are left, %v", tc.name, left.Streams, err)
		}
	}
}
