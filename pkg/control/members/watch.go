package members

import (
	"cmp"
	"maps"
	"slices"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// beginWithin is how long a deployment may take to come up before what is missing of
	// it is told.
	beginWithin = 10 * time.Second
	// flowWithin is how long tokens may pause before that is told: after a stage has come
	// back, a token is to be seen first.
	flowWithin = 3 * time.Second
)

// StageWatch follows what is missing for one replica, and says what that one is to tell. One
// of all replicas tells: of those that watch and do not leave, the one that was made first,
// since it knows what was told. Who becomes that one tells what is missing then, since
// the one before may not have; who told that a stage is missing tells its return, also where that stage's replica is
// the first one itself, which hung and knows of nothing. It does nothing itself.
type StageWatch struct {
	self  string
	begun time.Time
	// settled says that nothing was missing once, or that it took too long.
	settled bool
	served  bool // nothing was missing once
	speaks  bool
	since   map[string]time.Time // by stage that is missing
	told    map[string]bool      // of these, those that were told of
}

// NewStageWatch is of the replica of this id.
func NewStageWatch(self string, now time.Time) *StageWatch {
	return &StageWatch{self: self, begun: now, since: map[string]time.Time{}, told: map[string]bool{}}
}

// StageEvent is what is to be told: a stage is missing, or is back.
type StageEvent struct {
	Lack
	Back bool
	// Yet says that nothing was served before, as far as this replica knows.
	Yet bool
	// Away is how long it was missing, and Missing what still is.
	Away    time.Duration
	Missing string
}

// Look takes in the members and says what is to be told.
func (w *StageWatch) Look(all []*pb.Member, now time.Time) (events []StageEvent) {
	lacks := Lacking(all)
	if w.settled = w.settled || len(lacks) == 0 || now.Sub(w.begun) >= beginWithin; !w.settled {
		return nil
	}
	w.speaks = speaker(all) == w.self
	events = append(w.back(lacks, now), w.missing(lacks, now)...)
	w.served = w.served || len(lacks) == 0
	return events
}

// back forgets the stages that are missing no more.
func (w *StageWatch) back(lacks []Lack, now time.Time) (events []StageEvent) {
	for _, stage := range slices.Sorted(maps.Keys(w.since)) {
		if slices.ContainsFunc(lacks, func(l Lack) bool { return l.Stage == stage }) {
			continue
		}
		if w.told[stage] {
			events = append(events, StageEvent{Lack: Lack{Stage: stage}, Back: true, Yet: !w.served, Away: now.Sub(w.since[stage]), Missing: ListLacks(lacks)})
			if len(lacks) == 1 && lacks[0].Stage == TokenStage { // which this says, and so its return is to be told
				w.told[TokenStage] = true
			}
		}
		delete(w.since, stage)
		delete(w.told, stage)
	}
	return events
}

// missing notes what is missing. What is due to be told counts as told by whoever speaks:
// only that one sees it as told, so that who speaks next tells it again.
func (w *StageWatch) missing(lacks []Lack, now time.Time) (events []StageEvent) {
	for _, l := range lacks {
		if w.since[l.Stage].IsZero() {
			w.since[l.Stage] = now
		}
		due := l.Stage != TokenStage || now.Sub(w.since[l.Stage]) >= flowWithin
		switch {
		case due && !w.speaks:
			delete(w.told, l.Stage) // who speaks now tells it again, and its return
		case due && !w.told[l.Stage]:
			w.told[l.Stage] = true
			events = append(events, StageEvent{Lack: l, Yet: !w.served})
		}
	}
	return events
}

// speaker is the id of the member that tells; empty: none does. Members that do not say
// when they were made are of a version that tells nothing.
func speaker(all []*pb.Member) string {
	var first *pb.Member
	for _, m := range all {
		if m.GetDraining() || m.GetMadeUnixMs() == 0 {
			continue
		}
		if first == nil || before(m, first) < 0 {
			first = m
		}
	}
	return first.GetId()
}

// before orders members by when they were made, and those of the same moment by their
// places on a token's way.
func before(a, b *pb.Member) int {
	return cmp.Or(cmp.Compare(a.GetMadeUnixMs(), b.GetMadeUnixMs()), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.GetId(), b.GetId()))
}

// rank is a service's place on a token's way; what no token passes comes last.
func rank(m *pb.Member) int {
	names := StageNames()
	if i := slices.Index(names, m.GetService()); i >= 0 {
		return i
	}
	return len(names)
}
