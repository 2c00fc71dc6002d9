package bench

import (
	"context"
	"errors"
	"fmt"
)

// Loads is what it costs to tell Kafka of experts' loads: the pipeline in turns
// with another one that tells them.
type Loads struct {
	*Pair
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
	pair, err := b.pair(ctx, "loads on Kafka", b.pipeline, telling, batch, tokens)
	if err != nil {
		return nil, err
	}
	told, err := telling.read()
	return &Loads{
		Pair: pair,
		Sent: told["switchyard_load_samples_total{outcome=sent}"], Dropped: told["switchyard_load_samples_total{outcome=dropped}"],
	}, err
}

// String is the result for people.
func (l *Loads) String() string {
	return fmt.Sprintf("    with loads on Kafka %.0f tokens/s, without %.0f: %.3f of it (quartiles %.3f to %.3f), and %.1f %% more processor time; %.0f samples sent, %.0f dropped\n",
		l.With, l.Without, l.Share, l.Low, l.High, 100*l.CPU, l.Sent, l.Dropped)
}
