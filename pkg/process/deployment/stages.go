package deployment

import (
	"context"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
)

// tellStages logs what goes missing on a token's way, and what is back, until ctx ends. Of
// all replicas one does so (members.Lacking).
func (p *Presence) tellStages(ctx context.Context, v *members.View) {
	watch := members.NewStageWatch(p.id, time.Now())
	tick := time.NewTicker(members.Interval)
	defer tick.Stop()
	for {
		changed := v.Changed() // before the Snapshot: what comes between wakes us
		if v.Synced() && p.d.Conn.Connected() {
			for _, e := range watch.Look(v.Snapshot(), time.Now()) {
				p.tellStage(e)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-changed:
		}
	}
}

func (p *Presence) tellStage(e members.StageEvent) {
	switch {
	case p.draining.Load() || p.d.Ending != nil && p.d.Ending():
	case e.Back && e.Missing == "":
		p.d.Logger.Warn("SERVING again: no stage is missing on the way of the model's tokens", "stage", e.Stage, "away", e.Away.Round(time.Millisecond))
	case e.Back:
		p.d.Logger.Warn("a stage is back on the way of the model's tokens", "stage", e.Stage, "away", e.Away.Round(time.Millisecond), "missing", e.Missing)
	default:
		p.d.Logger.Warn("NOT SERVING: a stage is missing on the way of the model's tokens", "stage", e.Stage, "why", e.Why)
	}
}
