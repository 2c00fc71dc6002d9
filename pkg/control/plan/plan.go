// Package plan is the desired state of the expert hosts: which experts form a
// function, and which hosts run it. It is pure; services write and watch it.
package plan

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Grouping says which experts share a function.
type Grouping string

// The groupings.
const (
	// ByHost makes one function a layer and host: experts that share a host
	// share their fate, and one message carries all their rows.
	ByHost Grouping = "planner"
	// ByExpert makes one function an expert.
	ByExpert Grouping = "expert"
)

// Host is a place for experts. Budget is bytes; 0 is no limit.
type Host struct {
	ID     string
	Budget uint64
}

// Static is what the static planner is asked.
type Static struct {
	MoELayers   []int
	Experts     int
	ExpertBytes uint64
	Grouping    Grouping
	// Replicas is how many hosts run each function, bounded by the hosts there
	// are and by what their budgets leave once every expert has one.
	Replicas int
}

// ErrNoRoom says that the hosts' budgets do not hold all experts.
var ErrNoRoom = errors.New("the expert hosts' memory budgets do not hold the model")

// Plan spreads every layer's experts over the hosts round robin, skipping
// hosts that are full. The same hosts give the same plan in whatever order
// they are named.
func (s Static) Plan(hosts []Host) ([]*pb.LayerPlan, error) {
	if len(hosts) == 0 {
		return nil, errors.New("no expert host is present")
	}
	hosts = slices.SortedFunc(slices.Values(hosts), func(a, b Host) int { return cmp.Compare(a.ID, b.ID) })
	room := newRoom(hosts, s.ExpertBytes, len(s.MoELayers)*s.Experts)
	layers := make([]*pb.LayerPlan, 0, len(s.MoELayers))
	for _, l := range s.MoELayers {
		fs, err := s.layer(l, room)
		if err != nil {
			return nil, err
		}
		layers = append(layers, &pb.LayerPlan{Layer: uint32(l), Functions: fs})
	}
	return layers, nil
}

// layer places each expert on Replicas hosts and groups experts with the same hosts.
func (s Static) layer(l int, room *room) ([]*pb.Function, error) {
	groups := map[string]*pb.Function{}
	for e := range s.Experts {
		on, err := room.take(e, s.Replicas)
		if err != nil {
			return nil, fmt.Errorf("layer %d, expert %d: %w", l, e, err)
		}
		key := fmt.Sprintf("%q", on)
		if s.Grouping == ByExpert {
			key = fmt.Sprint(e)
		}
		f := groups[key]
		if f == nil {
			f = &pb.Function{Hosts: on}
			groups[key] = f
		}
		f.Experts = append(f.Experts, uint32(e))
	}
	return named(l, groups), nil
}

func named(layer int, groups map[string]*pb.Function) []*pb.Function {
	fs := slices.Collect(maps.Values(groups))
	slices.SortFunc(fs, func(a, b *pb.Function) int { return cmp.Compare(a.Experts[0], b.Experts[0]) })
	for _, f := range fs {
		f.Id = FunctionID(layer, f.Experts)
	}
	return fs
}

// room counts what hosts still hold.
type room struct {
	hosts []Host
	left  []uint64
	bytes uint64
	// spare is how many replicas fit beside the first one of every expert.
	spare int
}

func newRoom(hosts []Host, expertBytes uint64, experts int) *room {
	r := &room{hosts: hosts, bytes: max(1, expertBytes), spare: -experts}
	for _, h := range hosts {
		r.left = append(r.left, h.Budget)
		if h.Budget == 0 {
			r.spare = math.MaxInt / 2
		}
		r.spare += int(min(h.Budget/r.bytes, math.MaxInt32))
	}
	return r
}

func (r *room) take(expert, replicas int) ([]string, error) {
	var on []string
	for i := range r.hosts {
		if len(on) > 0 && (len(on) >= replicas || r.spare <= 0) {
			break
		}
		at := (expert + i) % len(r.hosts)
		if h := r.hosts[at]; h.Budget == 0 || r.left[at] >= r.bytes {
			r.left[at] -= min(r.left[at], r.bytes)
			r.spare -= min(len(on), 1)
			on = append(on, h.ID)
		}
	}
	if len(on) == 0 {
		return nil, ErrNoRoom
	}
	slices.Sort(on)
	return on, nil
}

// FunctionID is a hash of a layer and a set of experts: the same set has the
// same subject and consumer group in every plan.
func FunctionID(layer int, experts []uint32) string {
	h := fnv.New64a()
	buf := binary.LittleEndian.AppendUint32(nil, uint32(layer))
	for _, e := range slices.Sorted(slices.Values(experts)) {
		buf = binary.LittleEndian.AppendUint32(buf, e)
	}
	_, _ = h.Write(buf) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// Same says whether two plans ask for the same, whatever their versions.
func Same(a, b []*pb.LayerPlan) bool {
	return slices.EqualFunc(a, b, func(x, y *pb.LayerPlan) bool {
		return x.Layer == y.Layer && slices.EqualFunc(x.Functions, y.Functions, func(f, g *pb.Function) bool {
			return f.Id == g.Id && slices.Equal(f.Hosts, g.Hosts)
		})
	})
}
