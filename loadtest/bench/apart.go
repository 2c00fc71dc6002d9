package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// Apart is the pipeline whose services are processes of their own.
type Apart struct {
	Client *client.Client
	// Conn reaches their server as they do; a process of theirs has Echo running there.
	Conn *bus.Conn
	// Bare is the address of that process's EchoBare.
	Bare string
	// Failure is why a process has ended; nil: all run.
	Failure func() error
	// Close ends them all.
	Close func() error
}

// Processes is what services as processes of their own make, beside the same in one process and by
// direct calls, in turns.
type Processes struct {
	// Direct, OneProcess and Apart are tokens a second.
	Direct     float64 `json:"direct_tokens_per_s"`
	OneProcess float64 `json:"one_process_tokens_per_s"`
	Apart      float64 `json:"tokens_per_s"`
	// Ratio is the median of the turns' own quotients with the direct path, Low and High the least
	// and the largest; OneRatio the median of one process.
	Ratio    float64  `json:"ratio"`
	Low      float64  `json:"ratio_least"`
	High     float64  `json:"ratio_largest"`
	OneRatio float64  `json:"one_process_ratio"`
	Hops     HopTimes `json:"hops"`
}

// apartWithin bounds the wait for the processes' first token.
const apartWithin = 10 * time.Minute

// processes starts the pipeline of processes, takes turns with it, and ends it.
func (b *Bench) processes(ctx context.Context, batch, tokens int) (r *Processes, err error) {
	b.settings.Progress("starting the services as processes…")
	a, err := b.settings.Apart(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	side := &pipelineSide{client: a.Client, vocab: b.settings.Model.Spec.Vocab, prompt: b.settings.prompt()}
	if err := side.await(ctx, a); err != nil {
		return nil, err
	}
	hops, err := b.openHops(ctx, a)
	defer hops.close()
	if err != nil {
		return nil, err
	}
	ways := []func(context.Context, int, int) (float64, error){
		func(ctx context.Context, batch, tokens int) (float64, error) {
			d, err := b.direct.decode(ctx, batch, tokens)
			return d.rate, err
		}, rateOf(b.pipeline), rateOf(side),
	}
	rates := make([][]float64, len(ways))
	for i := range b.settings.Rounds {
		b.settings.Progress("batch %d: turn %d of %d with the services as processes…", batch, i+1, b.settings.Rounds)
		for j := range ways {
			way := (i + j) % len(ways) // another one is first in each turn: what drifts hits all
			runtime.GC()
			rate, err := ways[way](ctx, batch, tokens)
			if err != nil {
				return nil, errors.Join(err, a.Failure())
			}
			rates[way] = append(rates[way], rate)
		}
		if err := hops.turn(ctx); err != nil {
			return nil, err
		}
	}
	return processesOf(rates, HopTimes{median(hops.ways[0].took), median(hops.ways[1].took), median(hops.ways[2].took), median(hops.ways[3].took)}), nil
}

func processesOf(rates [][]float64, hops HopTimes) *Processes {
	var apart, one []float64
	for i, direct := range rates[0] {
		one, apart = append(one, rates[1][i]/direct), append(apart, rates[2][i]/direct)
	}
	return &Processes{
		Direct: median(rates[0]), OneProcess: median(rates[1]), Apart: median(rates[2]),
		Ratio: median(apart), Low: slices.Min(apart), High: slices.Max(apart), OneRatio: median(one), Hops: hops,
	}
}

func rateOf(s *pipelineSide) func(context.Context, int, int) (float64, error) {
	return func(ctx context.Context, batch, tokens int) (float64, error) {
		t, err := s.decode(ctx, batch, tokens)
		return t.rate, err
	}
}

// awaitEvery is how long an attempt to get a token may take, and apartPoll the pause behind it.
const awaitEvery, apartPoll = 5 * time.Second, 50 * time.Millisecond

// await returns when a token flows.
func (s *pipelineSide) await(ctx context.Context, a *Apart) error {
	ctx, cancel := context.WithTimeout(ctx, apartWithin)
	defer cancel()
	for {
		attempt, end := context.WithTimeout(ctx, awaitEvery)
		_, err := s.decode(attempt, 1, 1)
		end()
		if err == nil {
			return nil
		}
		if failed := a.Failure(); failed != nil {
			return failed
		}
		if pause.For(ctx, apartPoll) != nil {
			return fmt.Errorf("no token comes from services as processes of their own: %w", err)
		}
	}
}

// String is the result for people.
func (p *Processes) String() string {
	return fmt.Sprintf("    services as processes: %.0f tokens/s, %.2f of direct (%.2f to %.2f); in one process %.0f, %.2f; direct %.0f\n    %v\n",
		p.Apart, p.Ratio, p.Low, p.High, p.OneProcess, p.OneRatio, p.Direct, p.Hops)
}
