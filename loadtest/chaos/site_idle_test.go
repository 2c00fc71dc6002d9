package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// Idle is what is held while nothing is asked: by name.
type Idle map[string]float64

// slack is how many more goroutines a process may have than it had.
const slack = 25

// Above says what is held that should not be: pages and messages at all, and of
// consumers and goroutines more than before.
func (i Idle) Above(before Idle) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(i)) {
		allowed := 0.0
		switch {
		case strings.HasPrefix(name, "goroutines"):
			allowed = before[name] + slack
		case strings.HasPrefix(name, "consumers"):
			allowed = before[name]
		}
		if i[name] > allowed {
			out = append(out, fmt.Sprintf("%s: %.0f, and %.0f may be", name, i[name], allowed))
		}
	}
	return out
}

// Settle looks again and again until nothing is held above what was before, or
// the time is up, and returns what still is.
func (s *Site) Settle(ctx context.Context, before Idle, within time.Duration) (left []string) {
	for deadline := time.Now().Add(within); ; time.Sleep(time.Second) {
		now, err := s.Idle(ctx)
		if left = now.Above(before); err != nil {
			left = append(left, err.Error())
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

// Idle looks at what is held now.
func (s *Site) Idle(ctx context.Context) (Idle, error) {
	out := Idle{}
	var errs []error
	for target, p := range s.places {
		if target.Service != schedule.Server {
			errs = append(errs, p.held(ctx, out))
		}
	}
	return out, errors.Join(append(errs, s.stored(ctx, out))...)
}

func (p *place) held(ctx context.Context, out Idle) error {
	metrics, err := fleet.Metrics(ctx, p.metrics)
	if err != nil {
		return fmt.Errorf("looking at %v: %w", p.target, err)
	}
	wanted := map[string]string{"go_goroutines": "goroutines"}
	if p.target.Service == "attention" {
		wanted[pagesInUse] = "pages"
	}
	for gauge, name := range wanted {
		value, ok := metrics[gauge]
		if !ok {
			return fmt.Errorf("the metrics of %v have no %s", p.target, gauge)
		}
		out[name+" of "+p.target.String()] = value
	}
	return nil
}

// pagesInUse is a gauge of the model that a site serves.
const pagesInUse = `switchyard_kv_pages{model="demo",state="used"}`

// stored adds what the streams hold. Token logs and buckets keep what they have.
func (s *Site) stored(ctx context.Context, out Idle) error {
	nc, err := nats.Connect(s.URL())
	if err != nil {
		return fmt.Errorf("looking at the streams: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("looking at the streams: %w", err)
	}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		name := info.Config.Name
		out["consumers of "+name] = float64(info.State.Consumers)
		if !strings.HasPrefix(name, "KV_") && !strings.Contains(name, "_TOKENS_") {
			out["messages of "+name] = float64(info.State.Msgs)
		}
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("listing the streams: %w", err)
	}
	return nil
}
