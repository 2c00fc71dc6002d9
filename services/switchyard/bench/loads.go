package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/switchyard/switchyard/internal/quantile"
)

// Loads is what it costs to tell Kafka of experts' loads: the pipeline in turns
// with another one that tells them.
type Loads struct {
	// Without and With are tokens a second; Share is the median of the turns' own
	// quotients, and Low and High a quarter of them are below and above.
	Without float64 `json:"without_tokens_per_s"`
	With    float64 `json:"with_tokens_per_s"`
	Share   float64 `json:"share"`
	Low     float64 `json:"share_low_quartile"`
	High    float64 `json:"share_high_quartile"`
	// CPU is how much more processor time the same tokens take, a share: the median
	// of the turns'.
	CPU float64 `json:"cpu_more"`
	// Sent and Dropped are samples, in all turns.
	Sent    float64 `json:"samples_sent"`
	Dropped float64 `json:"samples_dropped"`
}

// loads measures the pipeline that tells loads beside the one that does not.
func (b *Bench) loads(ctx context.Context, batch, tokens int) (l *Loads, err error) {
	telling, err := b.openBy(ctx, b.settings.Loads, b.settings.Hops)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, telling.close()) }()
	var turns [2][]turn // without, with
	for i := range b.settings.Rounds {
		b.settings.Progress("batch %d: turn %d of %d without and with loads on Kafka…", batch, i+1, b.settings.Rounds)
		for j := range 2 {
			which := (i + j) % 2 // the first of a pair changes: what drifts hits both
			t, err := b.turn(ctx, [2]*pipelineSide{b.pipeline, telling}[which], batch, tokens)
			if err != nil {
				return nil, err
			}
			turns[which] = append(turns[which], t)
		}
	}
	return loadsOf(turns, telling)
}

// turn is tokens a second, and the processor time of all of them.
type turn struct{ rate, cpu float64 }

func (b *Bench) turn(ctx context.Context, side *pipelineSide, batch, tokens int) (t turn, err error) {
	runtime.GC()
	before, err := side.read()
	if err != nil {
		return t, err
	}
	if t.rate, err = side.decode(ctx, batch, tokens); err != nil {
		return t, err
	}
	after, err := side.read()
	t.cpu = after.since(before)["process_cpu_seconds_total"]
	return t, err
}

func loadsOf(turns [2][]turn, telling *pipelineSide) (*Loads, error) {
	told, err := telling.read()
	if err != nil {
		return nil, err
	}
	var rates [2][]float64
	var shares, more []float64
	for i, with := range turns[1] {
		without := turns[0][i]
		rates[0], rates[1] = append(rates[0], without.rate), append(rates[1], with.rate)
		shares, more = append(shares, with.rate/without.rate), append(more, with.cpu/max(without.cpu, 1e-9)-1)
	}
	slices.Sort(shares)
	return &Loads{
		Without: median(rates[0]), With: median(rates[1]),
		Share: median(shares), Low: quantile.Of(shares, 0.25), High: quantile.Of(shares, 0.75), CPU: median(more),
		Sent: told["switchyard_load_samples_total{outcome=sent}"], Dropped: told["switchyard_load_samples_total{outcome=dropped}"],
	}, nil
}

// String is the result for people.
func (l *Loads) String() string {
	return fmt.Sprintf("    with loads on Kafka %.0f tokens/s, without %.0f: %.3f of it (quartiles %.3f to %.3f), and %.1f %% more processor time; %.0f samples sent, %.0f dropped\n",
		l.With, l.Without, l.Share, l.Low, l.High, 100*l.CPU, l.Sent, l.Dropped)
}
