package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/terminal"
)

func (f ModelFlags) open(ctx context.Context, e *cli.Env) (*model.Model, error) {
	return f.OpenBy(ctx, e, awaitStored)
}

// OpenModel opens the model of a command that is no service.
func OpenModel(ctx context.Context, e *cli.Env, path string) (*model.Model, error) {
	return ModelFlags{Model: []string{path}}.OpenBy(ctx, e, OpenStoredNow)
}

// OpenBy opens the model, warns of what is left aside of it, and checks the flags
// that are bounded by it.
func (f ModelFlags) OpenBy(ctx context.Context, e *cli.Env, stored openStored) (*model.Model, error) {
	m, err := f.find(ctx, e, stored)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, cli.ErrInterrupted
	case errors.Is(err, bus.ErrNoConnection), errors.Is(err, weights.ErrSlow):
		return nil, err
	case err != nil:
		return nil, cli.Usage(err)
	}
	if len(m.Unknown) > 0 {
		e.Log.Warn("config.json has keys that are unknown here; they are taken to change nothing", "keys", strings.Join(m.Unknown, ", "))
	}
	if n := len(m.Unused); n > 0 {
		e.Log.Warn("the weights have tensors that this architecture does not use", "count", n, "first", m.Unused[0])
	}
	if f.MaxModelLen > m.Spec.MaxPositions {
		return nil, errors.Join(cli.Usage(fmt.Errorf("--max-model-len is %d; model %s was made for at most %d positions",
			f.MaxModelLen, m.Name, m.Spec.MaxPositions)), m.Close())
	}
	if err := errors.Join(f.checkMixed(), f.SetPrecision(m)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// checkMixed refuses fewer bits a weight, key or value among replicas of mixed classes: those could have
// others, whose answers are outside the tolerance.
func (f ModelFlags) checkMixed() error {
	if f.MixedClasses && f.Kind().Rounds() {
		return cli.Usage(fmt.Errorf("--mixed-classes does not go with --kv-cache-dtype %s: replicas with others could join; leave one out", f.KVCacheDtype))
	}
	if f.MixedClasses && model.Precision(f.Precision).Own() {
		return cli.Usage(fmt.Errorf("--mixed-classes does not go with --precision %s: replicas of another precision could join; leave one out", f.Precision))
	}
	return nil
}

// find opens the model where the flags say that it is.
func (f ModelFlags) find(ctx context.Context, e *cli.Env, stored openStored) (*model.Model, error) {
	if f.synthetic != "" {
		return model.Synthetic(f.synthetic, model.SyntheticSeed)
	}
	if f.dir() == "" {
		return model.Demo()
	}
	if name, ok := f.InStore(); ok {
		if err := f.CheckStored(name); err != nil {
			return nil, err
		}
		return stored(ctx, e, name)
	}
	line := e.Progress()
	defer line.Clear()
	h := &hashing{line: line, log: e.Log, model: f.dir(), next: time.Now().Add(hashingPatience)}
	m, err := model.OpenWith(ctx, f.dir(), model.Settings{Progress: h.tell, Log: e.Log})
	if errors.Is(err, fs.ErrNotExist) && f.dir() == model.DemoName {
		return nil, fmt.Errorf("%w; the demo model is served without --model", err)
	}
	return m, err
}

const (
	// hashingPatience is how long hashing takes before the log says so, and
	// hashingPause how long before it says so again.
	hashingPatience, hashingPause = 3 * time.Second, 30 * time.Second
)

// hashing tells that weights are being hashed, which takes long once.
type hashing struct {
	line  *terminal.Progress
	log   *slog.Logger
	model string
	next  time.Time // when the log hears of it
	shown int64     // percent
}

// tell is called for each MiB.
func (h *hashing) tell(done, total int64) {
	percent := done * 100 / max(total, 1)
	if percent != h.shown {
		h.shown = percent
		h.line.Set("hashing the weights of %s: %d %% of %.1f GB…", h.model, percent, float64(total)/1e9)
	}
	if now := time.Now(); now.After(h.next) {
		h.next = now.Add(hashingPause)
		h.log.Info("hashing the weights; their digests are kept for the next start", "model", h.model, "done_bytes", done, "of_bytes", total)
	}
}
