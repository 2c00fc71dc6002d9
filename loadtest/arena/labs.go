package arena

import (
	"context"
	"errors"
	"sync"

	"github.com/switchyard/switchyard/internal/parallel"
)

// eachLab makes the lab of every shape and seed, several at a time: seeds of a shape side by side, in
// the shapes' order. Progress is told as each is done.
func eachLab[L any](ctx context.Context, threads int, shapes []string, seeds int, first uint64, progress func(string, ...any), lab func(ctx context.Context, shape string, seed uint64) (L, error)) ([]L, error) {
	n := len(shapes) * seeds
	labs, failed, done, one := make([]L, n), error(nil), 0, sync.Mutex{}
	parallel.Each(max(1, threads), 0, n, func(i int) {
		if ctx.Err() != nil {
			return
		}
		l, err := lab(ctx, shapes[i/seeds], first+uint64(i%seeds))
		one.Lock()
		defer one.Unlock()
		labs[i], failed = l, errors.Join(failed, err)
		done++
		progress("%d of %d shapes and seeds…", done, n)
	})
	return labs, errors.Join(failed, ctx.Err())
}
