package gate

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/plan"
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
	// shares[f][r] collects the routed rows of replica r of function f.
	shares map[target]*share
	order  []target
	routed int // rows and slots in all shares
}

// spread deals a function's rows out to its parts in turn: no part gets two
// rows more than another.
type spread struct {
	parts int // 0: not asked for yet
	rows  int // so far
	last  int // the newest row
}

// outgoing is a dispatch and which part of its function's rows it has.
type outgoing struct {
	*pb.Dispatch
	function string
	part     int
}

// target is one message: a part of a function's rows.
type target struct{ function, part int }

// share is the routing of one message under construction.
type share struct {
	dispatch *pb.Dispatch
	function string
	rows     []int32 // token rows in the tensor, in order
}

func newSplitter(d int) *splitter {
	return &splitter{d: d, shares: map[target]*share{}}
}

// split makes the dispatches of hidden rows. parts says into how many messages a
// function's rows are split: as many as it has warm replicas; it is called once a
// function. A token row goes into a message once, whatever number of its experts
// are there.
func (s *splitter) split(h *pb.Hidden, routes *forward.Routes, to *plan.Routes, parts func(*plan.Target) int) []outgoing {
	s.begin(len(to.Targets))
	for row := range routes.Rows() {
		for slot := range routes.K {
			at := row*routes.K + slot
			if routes.Expert[at] == forward.NoExpert {
				continue
			}
			f := to.Of(routes.Expert[at])
			fn := &to.Targets[f]
			part := s.spreads[f].part(row, func() int { return parts(fn) })
			sh := s.share(target{f, part}, h, fn.Id)
			sh.add(int32(row), at, routes.Expert[at], routes.Weight[at])
			s.routed++
		}
	}
	return s.finish(h.Tensor, s.awaits(routes))
}

func (s *splitter) begin(functions int) {
	s.spreads = slices.Grow(s.spreads[:0], functions)[:functions]
	clear(s.spreads)
	clear(s.shares)
	s.order = s.order[:0]
	s.out = s.out[:0]
	s.routed = 0
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

// part is where a row goes; rows come in ascending order. A row's experts in one
// function stay together. The number of parts is asked for once a message.
func (s *spread) part(row int, parts func() int) int {
	if s.parts == 0 {
		s.parts, s.last = max(1, parts()), -1
	}
	if row != s.last {
		s.last = row
		s.rows++
	}
	return (s.rows - 1) % s.parts
}

func (s *splitter) share(t target, h *pb.Hidden, function string) *share {
	if sh := s.shares[t]; sh != nil {
		return sh
	}
	sh := &share{function: function, dispatch: &pb.Dispatch{Key: h.Key}}
	s.shares[t] = sh
	s.order = append(s.order, t)
	return sh
}

func (sh *share) add(row int32, place int, expert int32, weight float32) {
	if n := len(sh.rows); n == 0 || row != sh.rows[n-1] {
		sh.rows = append(sh.rows, row)
	}
	d := sh.dispatch
	d.Place = append(d.Place, uint32(place))
	d.Expert = append(d.Expert, uint32(expert))
	d.Weight = append(d.Weight, weight)
}

// finish cuts the rows out of the tensor; a message with all rows shares it.
func (s *splitter) finish(t *pb.Tensor, awaits wire.Awaits) []outgoing {
	stride := len(t.Data) / int(t.Rows)
	for _, to := range s.order {
		sh := s.shares[to]
		sh.dispatch.Tensor, sh.dispatch.Awaits = t, awaits
		if len(sh.rows) < int(t.Rows) {
			sh.dispatch.Tensor = cut(t, sh.rows, stride)
		}
		s.out = append(s.out, outgoing{sh.dispatch, sh.function, to.part})
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

// zeros is the block of a group of which nothing is dispatched.
func zeros(w tensor.Wire, k *pb.Key, d int) *pb.Block {
	return &pb.Block{Key: k, Tensor: tensor.Encode(w, make([]float32, int(k.Rows)*d), d, nil)}
}

// decode checks hidden rows and returns them as (R, D) in buf's memory.
func decode(shape *wire.Shape, h *pb.Hidden, buf []float32) ([]float32, error) {
	rows, err := shape.CheckHidden(h)
	if err != nil {
		return nil, err
	}
	buf = tensor.Resize(buf, rows*shape.Hidden)
	return buf, tensor.Decode(buf, h.Tensor, shape.Hidden)
}
