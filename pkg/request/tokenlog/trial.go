package tokenlog

import (
	"errors"
	"fmt"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A sequence whose step takes its owner's process down would take one after the other.
// The log tells it from those that were only beside it:
//
//	claim ─▶ claim ─▶ claim, doubtful ─▶ trial ─▶ token: nothing is wrong
//	                                     trial ─▶ over: no token yet, and no crash
//	                                     trial ─▶ claim: it alone was stepped when its owner went
//
// Claims without a token between them say little: all that a process had in hand share
// them, and whoever hands over claims nothing wrong.

const (
	// doubtAfter owners in a row that made nothing of a request, the next one tries it alone.
	doubtAfter = 2
	// maxCrashes is how many owners may go away in trials.
	maxCrashes = 2
)

// ErrCrashed says that owners went away while a request was all that they stepped.
var ErrCrashed = errors.New("the request was given up: replicas that worked on it alone went away")

// Doubtful says that the owner is to step the request alone, and to say so before.
func (c *Chain) Doubtful() bool { return c.claims > doubtAfter }

// Crashed says that nobody is to step the request any more.
func (c *Chain) Crashed() bool { return c.trials >= maxCrashes }

// checkTrial wants one trial after the other.
func (c *Chain) checkTrial(epoch uint64, t *pb.Trial) error {
	if err := c.checkEpoch(epoch); err != nil {
		return err
	}
	if t.GetOver() != c.trying {
		return fmt.Errorf("a trial, over: %v, while one goes on: %v", t.GetOver(), c.trying)
	}
	return nil
}

func (c *Chain) tried(t *pb.Trial) {
	if c.trying = !t.GetOver(); c.trying {
		c.trials++
	} else {
		c.trials--
	}
}

// progress ends all doubt: a token or a score has come.
func (c *Chain) progress() { c.claims, c.trials, c.trying = 0, 0, false }

// begins reports whether a record is a trial's beginning.
func begins(r *pb.Record) bool { t := r.GetTrial(); return t != nil && !t.Over }
