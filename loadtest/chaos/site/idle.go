package site

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
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

// held adds what a replica's metrics say.
func (p *place) held(ctx context.Context, out Idle) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("reading the metrics of %v: %w", p.target, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	gauges := read(response.Body)
	wanted := map[string]string{goroutines: "goroutines"}
	if p.target.Service == "attention" {
		wanted[pages] = "pages"
	}
	for gauge, name := range wanted {
		value, ok := gauges[gauge]
		if !ok {
			return fmt.Errorf("the metrics of %v have no %s", p.target, gauge)
		}
		out[name+" of "+p.target.String()] = value
	}
	return nil
}

// The gauges that are looked at.
const (
	goroutines = "go_goroutines"
	pages      = "switchyard_kv_pages"
)

// read takes the gauges out of metrics in Prometheus' text form; of pages, those
// in use.
func read(text io.Reader) map[string]float64 {
	out := map[string]float64{}
	for lines := bufio.NewScanner(text); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == goroutines:
			out[goroutines] = number
		case strings.HasPrefix(name, pages+"{") && strings.Contains(name, `state="used"`):
			out[pages] += number
		}
	}
	return out
}

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
