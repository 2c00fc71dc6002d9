package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/switchyard/switchyard/internal/quantile"
)

// Pair is what something costs: pairs of turns of two pipelines, without it and with it.
type Pair struct {
	// Without and With are tokens a second; Share is the median of the turns' own
	// quotients, and Low and High a quarter of them are below and above.
	Without float64 `json:"without_tokens_per_s"`
	With    float64 `json:"with_tokens_per_s"`
	Share   float64 `json:"share"`
	Low     float64 `json:"share_low_quartile"`
	High    float64 `json:"share_high_quartile"`
	// Whole is the share of tokens a second from the first prompt to the last chunk.
	Whole float64 `json:"share_of_whole_turns"`
	// CPU is how much more processor time the same tokens take, a share: the median
	// of the turns'.
	CPU float64 `json:"cpu_more"`
}

// pair takes turns of a pipeline without something and of one with it.
func (b *Bench) pair(ctx context.Context, what string, without, with *pipelineSide, batch, tokens int) (*Pair, error) {
	var turns [2][]turn // without, with
	for i := range b.settings.Rounds {
		b.settings.Progress("batch %d: turn %d of %d without and with %s…", batch, i+1, b.settings.Rounds, what)
		for j := range 2 {
			which := (i + j) % 2 // the first of a pair changes: what drifts hits both
			t, err := measureTurn(ctx, [2]*pipelineSide{without, with}[which], batch, tokens, b.turnWithin())
			if err != nil {
				return nil, err
			}
			turns[which] = append(turns[which], t)
		}
	}
	return pairOf(turns[0], turns[1]), nil
}

// turn is what a batch of requests took.
type turn struct {
	// rate is tokens a second while all sequences decode, and whole of the whole turn;
	// both are that where less than leastTogether of the tokens came while all decode.
	rate, whole float64
	// cpu is the processor time of all of it, in seconds.
	cpu float64
	// together is the share of the tokens that came while all decode.
	together float64
}

// turnWithin bounds a turn, which takes about Seconds: where nobody keeps token logs, a
// message that is lost leaves its request without an end.
func (b *Bench) turnWithin() time.Duration {
	return time.Minute + time.Duration(20*b.settings.Seconds*float64(time.Second))
}

func measureTurn(ctx context.Context, side *pipelineSide, batch, tokens int, within time.Duration) (t turn, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf(
		"a turn of %d requests did not end within %v: without token logs, or on a machine with too much other work, requests can be lost; run it again", batch, within))
	defer cancel()
	runtime.GC()
	before, err := side.read()
	if err != nil {
		return t, err
	}
	if t, err = side.decode(ctx, batch, tokens); err != nil {
		return t, cmp.Or(context.Cause(ctx), err)
	}
	after, err := side.read()
	t.cpu = after.since(before)["process_cpu_seconds_total"]
	return t, err
}

func pairOf(without, with []turn) *Pair {
	var rates [2][]float64
	var shares, wholes, more []float64
	for i, w := range with {
		wo := without[i]
		rates[0], rates[1] = append(rates[0], wo.rate), append(rates[1], w.rate)
		shares, wholes = append(shares, w.rate/wo.rate), append(wholes, w.whole/wo.whole)
		more = append(more, w.cpu/max(wo.cpu, 1e-9)-1)
	}
	slices.Sort(shares)
	return &Pair{
		Without: median(rates[0]), With: median(rates[1]),
		Share: median(shares), Low: quantile.Of(shares, 0.25), High: quantile.Of(shares, 0.75),
		Whole: median(wholes), CPU: median(more),
	}
}
