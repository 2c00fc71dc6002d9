package overload

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
)

// shareOf are the weights of tenants that all have more to ask than there is time for, and off is by what part
// of it a tenant may have more or less than its share of the tokens.
var shareOf = map[string]int{"a": 1, "b": 1, "c": 8}

const (
	off = 0.1
	// backlog is how many requests each tenant has at a time: more than run of all.
	backlog = 64
	// leastAlone is what part of all tokens one tenant makes alone.
	leastAlone = 0.9
)

// Under backlog tenants have tokens by weight, over NATS and over HTTP; and one alone has all.
func TestWeights(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SWITCHYARD_OVERLOAD"))
	if err != nil {
		t.Skip("set SWITCHYARD_OVERLOAD to a duration such as 2m to run it")
	}
	length = min(length, time.Minute)
	w := startWeighted(t)
	for _, way := range []struct {
		name string
		ask  func(ctx context.Context, tenant string, had *atomic.Int64) error
	}{{"NATS", w.overNATS}, {"HTTP", w.overHTTP}} {
		all := w.backlog(t, length, way.ask, "a", "b", "c")
		alone := w.backlog(t, length/2, way.ask, "a")
		sum := all["a"] + all["b"] + all["c"]
		t.Logf("over %s: %.0f tokens/s, of which a has %.3f, b %.3f and c %.3f; a alone has %.0f tokens/s", way.name, sum, all["a"]/sum, all["b"]/sum, all["c"]/sum, alone["a"])
		for tenant, weight := range shareOf {
			if want := float64(weight) / 10; math.Abs(all[tenant]/sum-want) > off*want {
				t.Errorf("over %s: %s has %.3f of the tokens, want %.2f", way.name, tenant, all[tenant]/sum, want)
			}
		}
		if alone["a"] < leastAlone*sum {
			t.Errorf("over %s: one tenant alone has %.0f tokens/s, and three have %.0f", way.name, alone["a"], sum)
		}
	}
}

// weighted is a pipeline with tenants of weights, and who asks.
type weighted struct {
	t    *testing.T
	door string
	nc   *nats.Conn
	http *http.Client
}

func startWeighted(t *testing.T) *weighted {
	t.Helper()
	addr, keys := testkit.FreeAddr(t), filepath.Join(t.TempDir(), "keys")
	w := &weighted{t: t, door: testkit.FreeAddr(t), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * backlog}}}
	args := []string{"up", "--http", w.door, "--http-keys", keys, "--scaling", "none", "--listen", addr, "--max-sequences", strconv.Itoa(places), "--max-queued", strconv.Itoa(8 * backlog)}
	lines := ""
	for tenant, weight := range shareOf {
		args = append(args, "--tenant", fmt.Sprintf("%s:weight=%d", tenant, weight))
		lines += fmt.Sprintf("%x %s\n", sha256.Sum256([]byte(tenant)), tenant)
	}
	if err := os.WriteFile(keys, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	fleet.Launch(t, "up", fleet.Build(t)+"/switchyard", args...).Await(t, "ready")
	var err error
	if w.nc, err = nats.Connect("nats://" + addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.nc.Close)
	t.Cleanup(w.http.CloseIdleConnections)
	return w
}

// warm is for how long nothing is counted: until all have a backlog.
const warm = 10 * time.Second

// backlog keeps so many requests of each tenant under way, and says how many tokens a second each has.
func (w *weighted) backlog(t *testing.T, length time.Duration, ask func(context.Context, string, *atomic.Int64) error, tenants ...string) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sending sync.WaitGroup
	had, before := map[string]*atomic.Int64{}, map[string]int64{}
	for _, tenant := range tenants {
		n := &atomic.Int64{}
		had[tenant] = n
		for range backlog {
			sending.Go(func() {
				for ctx.Err() == nil {
					if err := ask(ctx, tenant, n); err != nil && ctx.Err() == nil {
						t.Errorf("%s: %v", tenant, err)
						return
					}
				}
			})
		}
	}
	pause(ctx, warm)
	begun := time.Now()
	for tenant, n := range had {
		before[tenant] = n.Load()
	}
	pause(ctx, length)
	rates := map[string]float64{}
	for tenant, n := range had {
		rates[tenant] = float64(n.Load()-before[tenant]) / time.Since(begun).Seconds()
	}
	cancel()
	sending.Wait()
	return rates
}

func (w *weighted) overNATS(ctx context.Context, tenant string, had *atomic.Int64) error {
	y := &yard{t: w.t}
	s, err := client.New(w.nc, client.Settings{Tenant: tenant}).Ask(ctx, y.prompt(small(0)))
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer s.Close()
	for chunk, err := range s.Until(ctx) {
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		had.Add(int64(len(chunk.TokenIds)))
	}
	return nil
}

func (w *weighted) overHTTP(ctx context.Context, tenant string, had *atomic.Int64) error {
	y := &yard{t: w.t}
	ids := fmt.Sprint(y.prompt(small(0)).InputIds) // as JSON but for the commas
	body := fmt.Sprintf(`{"model":"demo","prompt":%s,"max_tokens":%d,"ignore_eos":true,"stream":true}`, strings.ReplaceAll(ids, " ", ","), answerTokens)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+w.door+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+tenant)
	answer, err := w.http.Do(r)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // it is read only
	if answer.StatusCode != http.StatusOK {
		page, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("%s: %s", answer.Status, page)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"finish_reason":"length"`) {
			had.Add(answerTokens) // an event may have several
		}
	}
	return lines.Err()
}
