package limits

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// Requests that are cancelled, at once or in the middle of their answers, or refused,
// leave one record each if they were accepted, and nothing else: no page, consumer,
// message or goroutine. loadtest/soak does the same with a thousand of them.
func TestCancelsLeaveNothing(t *testing.T) {
	s := startLogged(t)
	if err := s.small("first"); err != nil { // what is made once is there now
		t.Fatal(err)
	}
	testkit.Eventually(t, "the first answer is packed", func() bool { return s.pagesFree() && s.held()[s.names.Tokens().Name] == 1 })
	const count = 12
	want, _ := s.most()
	cancel := func(name string) {
		t.Helper()
		s.cancelMany(name, count)
		want[s.names.Tokens().Name] += count
		s.returns(want)
	}
	cancel("first") // what is made for several at once is there now
	_, goroutines := s.most()
	cancel("then")
	testkit.Eventually(t, "all goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines+goroutines/20 })
}

// cancelMany cancels so many requests, four at a time, has one refused, and waits until all pages are free.
func (s *logged) cancelMany(name string, count int) {
	s.t.Helper()
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for n := worker; n < count; n += 4 {
				if end := s.cancelled(fmt.Sprint(name, "-", n), n%5-1); end != "cancelled" {
					s.t.Errorf("request %d ended with %q", n, end)
				}
			}
		})
	}
	all.Wait()
	if err := s.whole(&pb.Prompt{RequestId: name + "-refused", InputIds: []uint32{1}, MaxTokens: proto.Int32(1 << 20)}); err == nil {
		s.t.Error("too many tokens were not refused")
	}
	testkit.Eventually(s.t, "all pages are free", s.pagesFree)
}

// most is the most that there is in several looks: what follows a stream may be between two consumers
// at any of them.
func (s *logged) most() (held map[string]int, goroutines int) {
	held = map[string]int{}
	for range 20 {
		for name, n := range s.held() {
			held[name] = max(held[name], n)
		}
		goroutines = max(goroutines, runtime.NumGoroutine())
		time.Sleep(20 * time.Millisecond)
	}
	return held, goroutines
}

// Load goes on for longer than its log has room for: what is old leaves it, so none
// stays refused, and in the end nothing is left.
func TestGenerations(t *testing.T) {
	if testkit.Race {
		t.Skip("it waits for looks at streams, a second each; other tests have the same code raced")
	}
	t.Parallel()
	const bound, generations = 1 << 20, 3
	s := startLogged(t, logOf(bound))
	log, taken := s.names.Tokens(), uint64(0)
	before := s.held()
	for g := range generations {
		for i := range 4 {
			id := fmt.Sprint(g, "-", i)
			s.room("large one", func() *client.Error { return s.score("score-"+id, 3) })
			s.room("small one", func() *client.Error { return s.small("small-" + id) })
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
func (s *logged) returns(want map[string]int) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprint("streams are to have ", want), func() bool { return within(s.held(), want) })
}

// within reports whether nothing is more than wanted. Who follows a stream may be between
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
func (s *logged) keep(stream string, age time.Duration) {
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
func (s *logged) cancelled(request string, after int) string {
	stream, err := s.Producer.Prompt(s.t.Context(), &pb.Prompt{RequestId: request, InputIds: compared.PromptIDs(1, 11, 8192), MaxTokens: proto.Int32(400), IgnoreEos: true})
	if err != nil {
		return err.Error()
	}
	if after < 0 {
		err = s.Producer.Cancel(request)
	}
	for chunk, failed := range stream.Chunks() {
		switch {
		case failed != nil || err != nil:
			return fmt.Sprint(failed, err)
		case chunk.FinishReason != "":
			return chunk.FinishReason
		case int(chunk.Index) == after:
			err = s.Producer.Cancel(request)
		}
	}
	return "nothing"
}

// held counts, by stream, messages and consumers, buckets aside.
func (s *logged) held() map[string]int {
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

// pagesFree reports whether nobody has pages of keys and values.
func (s *logged) pagesFree() bool {
	return s.says(`switchyard_kv_pages{model="demo",state="used"} 0`)
}

// reports whether a line is among the metrics.
func (s *logged) says(line string) bool {
	page := httptest.NewRecorder()
	s.Settings.Node.Shared.Telemetry.Handler().ServeHTTP(page, httptest.NewRequestWithContext(s.t.Context(), "GET", "/metrics", nil))
	return strings.Contains(page.Body.String(), "\n"+line+"\n")
}
