package door

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// rounds of both clients alternate, with so many requests at a time of so many tokens.
	rounds, atOnce, told64 = 24, 32, 64
	// alone is how many requests one after the other time their first tokens, of each client.
	alone = 200
)

// asker streams so many tokens of one answer.
type asker func(ctx context.Context, tokens int) (told, error)

// byNATS asks with the Go client.
func byNATS(nc *nats.Conn) asker {
	c := client.New(nc, client.Settings{})
	return func(ctx context.Context, tokens int) (s told, err error) {
		began := time.Now()
		stream, err := c.Ask(ctx, &pb.Prompt{Text: "Once upon a time", MaxTokens: new(int32(tokens)), IgnoreEos: true})
		if err != nil {
			return s, err
		}
		for chunk, err := range stream.Chunks() {
			if err == nil {
				err = client.Failure(chunk)
			}
			if err != nil {
				return s, err
			}
			if s.tokens++; s.tokens == 1 {
				s.first = time.Since(began)
			}
		}
		s.whole = time.Since(began)
		return s, nil
	}
}

// TestOverhead says what the gateway adds: to the first token of one request after the other,
// and to the rate of a batch. Rounds of both clients alternate, so that both have the same machine.
func TestOverhead(t *testing.T) {
	y := start(t)
	asks := []asker{byNATS(y.connect(t)), y.stream}
	var more, ratios []float64
	for i := range alone + 10 {
		var first [2]float64
		for _, which := range order(i) {
			s, err := asks[which](t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			first[which] = s.first.Seconds() * 1000
		}
		if i >= 10 { // it gets warm
			more = append(more, first[1]-first[0])
		}
	}
	var spent [2]processors
	for i := range rounds + 2 {
		var rate [2]float64
		for _, which := range order(i) {
			before := y.processors(t)
			rate[which] = batch(t, asks[which])
			if i >= 2 {
				spent[which].add(before, y.processors(t))
			}
		}
		if i >= 2 {
			ratios = append(ratios, rate[1]/rate[0])
		}
	}
	low, middle, high := median(more)
	t.Logf("first token by HTTP minus by NATS, %d pairs: median %+.2f ms (95%% interval %+.2f to %+.2f)", len(more), middle, low, high)
	low, middle, high = median(ratios)
	t.Logf("tokens/s by HTTP over by NATS, batch %d, %d pairs: median %.3f (95%% interval %.3f to %.3f)", atOnce, len(ratios), middle, low, high)
	for which, door := range []string{"NATS", "HTTP"} {
		t.Logf("processors' time a token by %s: %s", door, spent[which].over(len(ratios)*atOnce*told64))
	}
}

// order is who goes first in a round.
func order(round int) []int {
	if round%2 == 0 {
		return []int{0, 1}
	}
	return []int{1, 0}
}

// batch is the tokens a second of requests that begin together.
func batch(t *testing.T, ask asker) float64 {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			if s, err := ask(t.Context(), told64); err != nil || s.tokens < told64 {
				t.Errorf("%d tokens: %v", s.tokens, err)
			}
		})
	}
	all.Wait()
	return atOnce * told64 / time.Since(began).Seconds()
}

// median is the median of numbers, and an interval that has that of all such numbers 95 times in
// a hundred: by order alone, whatever their distribution.
func median(all []float64) (low, middle, high float64) {
	slices.Sort(all)
	n := float64(len(all))
	half := 1.96 * math.Sqrt(n) / 2
	return quantile.Of(all, max(0, n/2-half)/n), quantile.Of(all, 0.5), quantile.Of(all, min(n-1, n/2+half)/n)
}
