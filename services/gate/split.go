package gate

import (
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// splitter turns hidden rows and their routes into one message a function and
// warm replica. It keeps its buffers; one goroutine uses it.
type splitter struct {
	d   int
	out []outgoing
	// spreads[f] says how the rows of function f are shared among messages.
	spreads []spread
	// shares has a place for each part of the functions that have rows; one that got
	// none is nil. order are those that got some, the first first.
	shares []*share
	order  []*share
	routed int         // rows and slots in all shares
	each   int         // rows and slots of a share if all functions get as many
	cuts   int         // messages that a bound of rows has added
	bundle plan.Bundle // of united experts among the routes
	// decision is the group's, as fates.Hash makes it.
	decision uint64
}

// ways is how a function's rows go to its hosts.
type ways struct {
	parts int      // messages at most; 0: not asked for yet
	hosts []string // of each part, by name; none: all go to the function's group
	rows  []int    // of each part, in the rows' order; none: they are dealt in turn, so that no part gets two more than another
	// experts has the part of each expert, whose rows it gets all; none: parts get rows whole.
	experts []int32
	most    int // rows of a message: a part that has more is several; 0: no bound
}

// spread deals a function's rows out to its parts.
type spread struct {
	ways
	first int // of its places in shares
	taken int // rows so far: in all, or of part at
	last  int // the newest row
	at    int // the part whose turn it is
}

// outgoing is a dispatch, its function, and the addressed host (empty: the group). replica is which of the function's dispatches it is, mode and minibatch
// how its rows travel.
type outgoing struct {
	*pb.Dispatch
	function, host     string
	replica, minibatch int
	mode               pb.TransferMode
}

// share is the routing of one message under construction.
type share struct {
	outgoing
	rows []int32 // token rows in the tensor, in order
}

func newSplitter(d int) *splitter { return &splitter{d: d} }

// split makes the dispatches of hidden rows. of says how a function's rows, by its place
// among the targets, go to its hosts; it is called once a function. A token row goes into a
// message once, whatever number of its experts are there.
func (s *splitter) split(h *pb.Hidden, routes *forward.Routes, to *plan.Routes, of func(int) ways) []outgoing {
	s.spreads = reuse.Slice(s.spreads, len(to.Targets))
	clear(s.spreads)
	s.shares, s.order, s.out, s.routed, s.cuts = s.shares[:0], s.order[:0], s.out[:0], 0, 0
	s.each = len(routes.Expert)/max(1, len(to.Targets)) + 1
	for row := range routes.Rows() {
		for slot := range routes.K {
			at := row*routes.K + slot
			if routes.Expert[at] == forward.NoExpert {
				continue
			}
			f := to.Target(routes.Expert[at], s.bundle)
			sp := &s.spreads[f]
			if sp.parts == 0 {
				s.open(sp, of(f))
			}
			sh := s.share(sp, sp.part(row, routes.Expert[at]), int32(row), h.Key, to.Targets[f].Function)
			expert := routes.Expert[at]
			if to.Targets[f].Kind == plan.United {
				sh.Kind, sh.Way = plan.United, to.Targets[f].Way
				expert -= int32(to.Experts())
			}
			sh.add(int32(row), at, expert, routes.Weight[at])
			s.routed++
		}
	}
	return s.finish(h.Tensor, s.awaits(routes))
}

// open makes places for the parts of a function whose first row has come.
func (s *splitter) open(sp *spread, w ways) {
	w.parts = max(1, w.parts)
	*sp = spread{ways: w, first: len(s.shares), last: -1}
	for range w.parts {
		s.shares = append(s.shares, nil)
	}
}

// awaits says what the group is made of; nothing if that is all, as usual.
func (s *splitter) awaits(routes *forward.Routes) wire.Awaits {
	if s.routed == len(routes.Expert) {
		return nil
	}
	a := wire.NewAwaits(len(routes.Expert))
	for at, e := range routes.Expert {
		if e != forward.NoExpert {
			a.Add(at)
		}
	}
	return a
}

// part returns where a row for an expert goes; rows come in ascending order. A row's experts in one
// function stay together, unless parts have experts of their own.
func (s *spread) part(row int, expert int32) int {
	if s.experts != nil {
		return int(s.experts[expert])
	}
	if row != s.last {
		s.last = row
		s.turn()
	}
	return s.at
}

// turn moves on to the part that gets the next row.
func (s *spread) turn() {
	switch {
	case s.rows == nil:
		s.at = s.taken % s.parts
	case s.taken == s.rows[s.at]:
		s.at, s.taken = s.at+1, 0
	}
	s.taken++
}

func (s *splitter) share(of *spread, part int, row int32, key *pb.Key, f *pb.Function) *share {
	at := &s.shares[of.first+part]
	full := *at != nil && of.most > 0 && len((*at).rows) >= of.most && (*at).rows[len((*at).rows)-1] != row
	if full {
		s.cuts++
	}
	if *at == nil || full {
		*at = &share{rows: make([]int32, 0, s.each), outgoing: outgoing{
			Dispatch: &pb.Dispatch{
				Key: key, Decision: s.decision, Place: make([]uint32, 0, s.each), Expert: make([]uint32, 0, s.each), Weight: make([]float32, 0, s.each),
			},
			function: f.Id, replica: part, mode: f.Transfer, minibatch: int(f.Minibatch),
		}}
		if part < len(of.hosts) {
			(*at).host = of.hosts[part]
		}
		s.order = append(s.order, *at)
	}
	return *at
}

func (sh *share) add(row int32, place int, expert int32, weight float32) {
	if n := len(sh.rows); n == 0 || row != sh.rows[n-1] {
		sh.rows = append(sh.rows, row)
	}
	d := sh.Dispatch
	d.Place = append(d.Place, uint32(place))
	d.Expert = append(d.Expert, uint32(expert))
	d.Weight = append(d.Weight, weight)
}

// finish cuts the rows out of the tensor; a message with all rows shares it.
func (s *splitter) finish(t *pb.Tensor, awaits wire.Awaits) []outgoing {
	stride := len(t.Data) / int(t.Rows)
	for _, sh := range s.order {
		sh.Tensor, sh.Awaits = t, awaits
		if len(sh.rows) < int(t.Rows) {
			sh.Tensor = cut(t, sh.rows, stride)
		}
		s.out = append(s.out, sh.outgoing)
	}
	return s.out
}

func cut(t *pb.Tensor, rows []int32, stride int) *pb.Tensor {
	data := make([]byte, 0, len(rows)*stride)
	for _, r := range rows {
		data = append(data, t.Data[int(r)*stride:(int(r)+1)*stride]...)
	}
	return &pb.Tensor{Dtype: t.Dtype, Rows: uint32(len(rows)), Cols: t.Cols, Data: data}
}

// markPrefill says of dispatches which have rows of prompts, of so many slots each.
func markPrefill(phases []*pb.PhaseRange, slots int, all []outgoing) {
	first := 0
	for _, p := range phases {
		end := first + int(p.Rows)*slots
		for i := range all {
			if p.Phase == pb.Phase_PHASE_PREFILL && hasPlace(all[i].Place, first, end) {
				all[i].Prefill = true
			}
		}
		first = end
	}
}

// hasPlace reports whether one of the places, which ascend, is in [first, end).
func hasPlace(places []uint32, first, end int) bool {
	at, _ := slices.BinarySearch(places, uint32(first))
	return at < len(places) && int(places[at]) < end
}

// zeros returns the block of a group of which nothing is dispatched.
func zeros(w tensor.Wire, k *pb.Key, d int) *pb.Block {
	return &pb.Block{Key: k, Tensor: tensor.Encode(w, make([]float32, int(k.Rows)*d), d, nil)}
}

// decode checks hidden rows and returns them as (R, D) in buf's memory.
func decode(shape *wire.Shape, h *pb.Hidden, buf []float32) ([]float32, error) {
	rows, err := shape.CheckHidden(h)
	if err != nil {
		return nil, err
	}
	buf = reuse.Slice(buf, rows*shape.Hidden)
	return buf, tensor.Decode(buf, h.Tensor, shape.Hidden)
}
