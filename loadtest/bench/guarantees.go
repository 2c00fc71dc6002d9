package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Guarantees is what it costs that no accepted request is lost: the pipeline in
// turns with one whose token logs nobody keeps.
type Guarantees struct{ *Pair }

func (b *Bench) guarantees(ctx context.Context, batch, tokens int) (g *Guarantees, err error) {
	without, err := b.openUnkept(ctx, &Unkept{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, without.close()) }()
	pair, err := b.pair(ctx, "guarantees", without, b.pipeline, batch, tokens)
	if err != nil {
		return nil, err
	}
	return &Guarantees{pair}, nil
}

// openUnkept opens the pipeline whose token logs nobody keeps.
func (b *Bench) openUnkept(ctx context.Context, logs *Unkept) (*pipelineSide, error) {
	s, err := b.openBy(ctx, func(ctx context.Context, hops string) (*cluster.Cluster, error) {
		return b.settings.Unkept(ctx, hops, logs)
	}, b.settings.Hops)
	if err != nil {
		return nil, err
	}
	if err := logs.await(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// String is the result for people.
func (g *Guarantees) String() string {
	return fmt.Sprintf("    with token logs %.0f tokens/s, without %.0f: %.3f of it (quartiles %.3f to %.3f; %.3f from the first prompt to the last chunk), and %.1f %% more processor time\n",
		g.With, g.Without, g.Share, g.Low, g.High, g.Whole, 100*g.CPU)
}
