package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A day at the defaults is twelve times the log's age. So are twelve minutes here.
const (
	dayAge = time.Minute
	// dayBytes is what the load of some minutes takes when it is packed, so that the log
	// would be full before the day ends if nothing left it.
	dayBytes = 6 << 20
	// dayPace is the pause of a worker before its next request: the load must not
	// depend on how fast the machine is.
	dayPace = 100 * time.Millisecond
	// oddEvery is the pause between two requests of other kinds.
	oddEvery = 4 * time.Second
	// calm is the share of its bound that no stream may reach: beyond, services warn.
	calm = 0.8
)

// TestDay keeps a pipeline under load for many times the age of its log. No stream comes
// near its bound, nothing is refused, and in the end nothing is left of it.
func TestDay(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SWITCHYARD_SOAK_DAY"))
	if err != nil {
		t.Skip("set SWITCHYARD_SOAK_DAY to a duration such as 12m to run it")
	}
	y := startPipeline(t, "--log-age", dayAge.String(), "--log-bytes", strconv.Itoa(dayBytes))
	before := y.begin(t)
	load, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var work sync.WaitGroup
	for i := range streams {
		work.Go(func() { y.paced(load, i) })
	}
	work.Go(func() { y.oddOnes(load) })
	fullest := y.watchBounds(load, length)
	work.Wait()
	t.Logf("%v, %d requests, %d tokens; the fullest that streams were: %v", length, y.requests.Load(), y.tokens.Load(), fullest)
	for stream, share := range fullest {
		if share >= calm {
			t.Errorf("%s reached %.2f of its bound", stream, share)
		}
	}
	if taken := y.taken(t); length > 5*dayAge && taken < dayBytes {
		t.Errorf("the log took %d bytes in; its bound is %d: the load is too small to tell anything", taken, dayBytes)
	}
	y.returns(t, before, func(h holdings) bool { return h.log == 0 })
}

// TestCancels asks and cancels a thousand times, at different places of the answers. Each
// ends, and all that it leaves is one record, until that is old.
func TestCancels(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("SWITCHYARD_SOAK_CANCELS"))
	if err != nil {
		t.Skip("set SWITCHYARD_SOAK_CANCELS to a number such as 1000 to run it")
	}
	y := startPipeline(t)
	before := y.begin(t)
	began := time.Now()
	var work sync.WaitGroup
	for worker := range streams {
		work.Go(func() {
			for n := worker; n < count; n += streams {
				if err := y.cancelled(t.Context(), n); err != nil {
					t.Errorf("request %d: %v", n, err)
				}
			}
		})
	}
	work.Wait()
	t.Logf("%d asked and cancelled in %v, %d tokens", count, time.Since(began).Round(time.Second), y.tokens.Load())
	y.returns(t, before, func(h holdings) bool { return h.log == 1+uint64(count) }) // one of each, and of the first
}

// holdings is what a pipeline and its server have when nothing is under way.
type holdings struct {
	goroutines, pages float64
	log               uint64         // records
	streams           map[string]int // consumers and, of others than the log, messages
}

func (h holdings) String() string {
	all := 0
	for _, n := range h.streams {
		all += n
	}
	return fmt.Sprintf("%.0f goroutines, %.0f KV pages, %d records in the log, %d consumers and other messages", h.goroutines, h.pages, h.log, all)
}

// others lists what is not as it was before.
func (h holdings) others(before holdings) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(h.streams)) {
		if a, b := before.streams[name], h.streams[name]; a != b {
			out = append(out, fmt.Sprintf("%s: %d, before %d", name, b, a))
		}
	}
	return out
}

// begin has one request answered, so that everything that is made once is there.
func (y *pipeline) begin(t *testing.T) holdings {
	t.Helper()
	if err := y.prompt(t.Context(), y.newClient(), 1); err != nil {
		t.Fatal(err)
	}
	y.settle(t)
	h := y.holdings()
	t.Logf("before: %v", h)
	return h
}

func (y *pipeline) newClient() *client.Client {
	return client.New(y.nc, client.Settings{Prefix: "switchyard", Model: "demo"})
}

func (y *pipeline) holdings() holdings {
	m := y.scrape()
	h := holdings{
		goroutines: m["go_goroutines"], pages: m[`switchyard_kv_pages{model="demo",state="used"}`], streams: map[string]int{},
	}
	y.eachStream(func(info *jetstream.StreamInfo) {
		h.streams[info.Config.Name+" consumers"] = info.State.Consumers
		if strings.Contains(info.Config.Name, "_TOKENS_") {
			h.log = info.State.Msgs
		} else {
			h.streams[info.Config.Name+" messages"] = int(info.State.Msgs)
		}
	})
	return h
}

func (y *pipeline) eachStream(do func(*jetstream.StreamInfo)) {
	list := y.js.ListStreams(context.Background())
	for info := range list.Info() {
		do(info)
	}
	if err := list.Err(); err != nil {
		y.t.Errorf("listing the streams: %v", err)
	}
}

// paced sends one request after the other, like prompts, but no faster than the pace.
func (y *pipeline) paced(ctx context.Context, worker int) {
	c := y.newClient()
	for n := worker; ctx.Err() == nil; n++ {
		if err := y.prompt(context.WithoutCancel(ctx), c, n); err != nil {
			y.failures.Add(1)
			y.t.Errorf("request %d of worker %d: %v", n, worker, err)
		}
		pause(ctx, dayPace)
	}
}

// oddOnes sends requests that leave other things than tokens: scores, of which some stay
// large, and what is refused.
func (y *pipeline) oddOnes(ctx context.Context) {
	c := y.newClient()
	for n := 0; ctx.Err() == nil; n++ {
		p, want := &pb.Prompt{Text: "Once upon a time", MaxTokens: proto.Int32(2)}, ""
		switch n % 3 {
		case 0:
			p.Score = "logits"
		case 1:
			p.Score, p.Text = "logprobs", strings.Repeat(p.Text+" ", 40)
		default:
			p.MaxTokens, want = proto.Int32(1<<20), client.CodeBadRequest
		}
		if got := y.end(context.WithoutCancel(ctx), c, p); got != want {
			y.failures.Add(1)
			y.t.Errorf("a request with score %q and %d tokens ended with %q, want %q", p.Score, *p.MaxTokens, got, want)
		}
		pause(ctx, oddEvery)
	}
}

// end is the code with which a request ended; none if it was answered.
func (y *pipeline) end(ctx context.Context, c *client.Client, p *pb.Prompt) string {
	ctx, cancel := context.WithTimeout(ctx, endsWithin)
	defer cancel()
	s, err := c.Prompt(ctx, p)
	if err == nil {
		err = new(answer).read(s)
	}
	var typed *client.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &typed):
		return typed.Code
	}
	return err.Error()
}

// cancelled asks, and cancels at once or some tokens later.
func (y *pipeline) cancelled(ctx context.Context, n int) error {
	ctx, stop := context.WithTimeout(ctx, endsWithin)
	defer stop()
	c := y.newClient()
	s, err := c.Prompt(ctx, &pb.Prompt{Text: "Once upon a time there was", MaxTokens: proto.Int32(400), IgnoreEos: true})
	if err != nil {
		return err
	}
	defer s.Close()
	at := n%5 - 1 // of the tokens; -1: at once
	if at < 0 {
		err = c.Cancel(s.RequestID())
	}
	for chunk, failed := range s.Chunks() {
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		y.tokens.Add(int64(len(chunk.TokenIds)))
		switch {
		case chunk.FinishReason == "cancelled":
			return nil
		case chunk.FinishReason != "":
			return fmt.Errorf("it ended with %q", chunk.FinishReason)
		case int(chunk.Index) == at:
			err = c.Cancel(s.RequestID())
		}
	}
	return errors.New("its stream ended without an end")
}

// watchBounds looks at the streams until ctx ends, and says how full each was at most.
func (y *pipeline) watchBounds(ctx context.Context, length time.Duration) map[string]float64 {
	fullest := map[string]float64{}
	for told := time.Now(); ctx.Err() == nil; pause(ctx, time.Second) {
		y.eachStream(func(info *jetstream.StreamInfo) {
			if info.Config.Storage == jetstream.FileStorage {
				fullest[info.Config.Name] = max(fullest[info.Config.Name], float64(info.State.Bytes)/float64(info.Config.MaxBytes))
			}
		})
		if time.Since(told) > length/12 {
			told = time.Now()
			y.t.Log(y.look(nil))
		}
	}
	return fullest
}

// taken is less than what the log has taken in, by the records that it has numbered.
func (y *pipeline) taken(t *testing.T) (bytes uint64) {
	t.Helper()
	const record = 100
	y.eachStream(func(info *jetstream.StreamInfo) {
		if strings.Contains(info.Config.Name, "_TOKENS_") {
			bytes = record * info.State.LastSeq
		}
	})
	return bytes
}

// returns waits until everything is as it was, and the log as it should be.
func (y *pipeline) returns(t *testing.T, before holdings, log func(holdings) bool) {
	t.Helper()
	var h holdings
	for began := time.Now(); time.Since(began) < endsWithin; time.Sleep(time.Second) {
		h = y.holdings()
		if h.pages == 0 && maps.Equal(h.streams, before.streams) && h.goroutines <= before.goroutines*1.05 && log(h) {
			t.Logf("after:  %v", h)
			return
		}
	}
	t.Errorf("%v after the last request there are\n%v, before the first\n%v\n%s", endsWithin, h, before, strings.Join(h.others(before), "\n"))
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
