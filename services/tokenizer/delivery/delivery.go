package delivery

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// Delivery is what one replica delivers.
type Delivery struct {
	Sender  *Sender
	Kinds   *Kinds
	Endings *Endings
	Shards  *Shards
	Replays *Replays

	common *common
}

// New returns a delivery that has not begun.
func New(s Settings) *Delivery {
	c := newCommon(s)
	sender := newSender(c, s.InboxPrefixes, s.Tracer)
	kinds := &Kinds{own: s.Deployment.Identity.Model}
	endings := newEndings(c, sender)
	return &Delivery{
		Sender: sender, Kinds: kinds, Endings: endings, common: c,
		Shards:  newShards(c, newOwner(c, s, sender, endings), kinds, s.Presence),
		Replays: newReplays(c, s.Now, sender, kinds, endings),
	}
}

// Begin has what is noted be done until ctx ends, beside the members that are seen.
func (v *Delivery) Begin(ctx context.Context, all Members) {
	v.common.ctx, v.Kinds.members, v.Shards.members = ctx, all, all
	for _, t := range []*timers{v.Endings.soon, v.Endings.overdue, v.Endings.owned, v.Replays.deserted} {
		v.common.tasks.Go(func() { t.run(ctx) })
	}
}

// Run serves shards and packs logs until ctx ends.
func (v *Delivery) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { v.Shards.serve(ctx) })
	running.Go(func() { v.Shards.owner.packing.run(ctx) })
}

// Listener is a subject on which this replica listens, and in which queue group; "": in none.
type Listener struct {
	Subject, Group string
	Handle         nats.MsgHandler
}

// Listeners are what tokenizers hear from each other.
func (v *Delivery) Listeners() []Listener {
	s := v.common.d.Subjects
	return []Listener{
		{s.AnyCancelled(), "", v.Endings.onCancelled},
		{s.AnyCancelledOf(), "", v.Endings.onCancelledOf},
		{s.AnyCancelled(), "tokenizer", v.Endings.onCancelledOne},
		{s.AnyStop(), "tokenizer", v.Endings.onStop},
		{s.AnyInterest(interestAsked), "", v.Replays.onInterestAsked},
		{s.AnyInterest(interestHeld), "", v.Replays.onInterestHeld},
		{s.AnyInterest(interestTaken), "", v.Replays.onInterestTaken},
		{s.AnyInterest(interestHanded), v.Kinds.Group(), v.Replays.onInterestHanded},
	}
}
