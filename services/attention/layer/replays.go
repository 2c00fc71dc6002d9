package layer

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Replay is what became of rows of a step when they were computed before: of so many from the first on.
// The fates are of more rows, those to skip before them.
type Replay struct {
	First, Rows, Skip int
	Fates             *pb.Fates
}

// replays are those of a step, decoded. A message carries those of united experts of one bundle.
type replays struct {
	all  []replayed
	cuts []int // first rows of replays that cannot be in one message with those before
}

type replayed struct {
	Replay
	codes []wire.FateCode // (rows, layers, slots)
}

// replaysOf decodes replays that have been checked.
func replaysOf(all []Replay) (a replays) {
	last := (*pb.Fates)(nil)
	for _, r := range all {
		codes, err := wire.DecodeFates(r.Fates)
		if err != nil || len(codes) == 0 {
			continue
		}
		a.all = append(a.all, replayed{r, codes})
		if r.Fates.Way == 0 && r.Fates.Bundle == 0 {
			continue
		}
		if last != nil && !sameBundle(last, r.Fates) {
			a.cuts = append(a.cuts, r.First)
		}
		last = r.Fates
	}
	return a
}

type bundled interface {
	GetWay() uint32
	GetBundle() uint64
}

func sameBundle(a, b bundled) bool {
	return a.GetWay() == b.GetWay() && a.GetBundle() == b.GetBundle()
}

// of is what is to become of a part's rows in a layer, which is the at-th that has experts; nil: each
// slot has its own expert.
func (a *replays) of(p rowsPart, at, slots int) *pb.Fates {
	var codes []wire.FateCode
	way, bundle := uint32(0), uint64(0)
	for _, r := range a.all {
		from, to := max(p.first, r.First), min(p.first+p.rows, r.First+r.Rows)
		for row := from; row < to; row++ {
			first := ((row-r.First+r.Skip)*int(r.Fates.Layers) + at) * slots
			of := r.codes[first : first+slots]
			if !slices.ContainsFunc(of, func(c wire.FateCode) bool { return c != wire.FateOwn }) {
				continue
			}
			if codes == nil {
				codes = make([]wire.FateCode, p.rows*slots)
			}
			copy(codes[(row-p.first)*slots:], of)
			way, bundle = max(way, r.Fates.Way), max(bundle, r.Fates.Bundle)
		}
	}
	if codes == nil {
		return nil
	}
	f := wire.EncodeFates(wire.FatesShape{Rows: p.rows, Layers: 1, Slots: slots}, codes)
	f.Way, f.Bundle = way, bundle
	return f
}
