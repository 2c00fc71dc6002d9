package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Bounds of a layer's plan, as multiples of its experts: an expert may be in
// several functions, but nobody needs so many.
const (
	functionsPerExpert = 4
	membersPerExpert   = 8
	// MaxPlacements bounds those of a layer: each expert on 64 hosts of 256.
	MaxPlacements = 1 << 14
)

// ErrKind says that a plan is of replicas of another version or model, as from before an upgrade.
var ErrKind = errors.New("another kind's")

// Rules say what a legal plan is.
type Rules struct {
	Kind      schemas.Kind
	MoELayers []int
	Experts   int
}

// Layer is a legal plan of one layer. It is not to be changed.
type Layer struct {
	*pb.LayerPlan
	of        [][]int32 // expert → indices in Functions, in their order
	stands    map[stand][]int32
	functions map[string]int32
}

// Function returns a function by its id, nil if the plan does not have it.
func (l *Layer) Function(id string) *pb.Function {
	if l == nil {
		return nil
	}
	if i, ok := l.functions[id]; ok {
		return l.Functions[i]
	}
	return nil
}

// Check reports whether a plan of a layer is legal: of this model, with every routed expert
// in at least one function, each of which is named after its experts, is there
// once, and names hosts that can be some, each once. Names become subjects and
// consumers, and counts loops. A layer of the same version and revision is legal
// or not for the writer and for every reader.
func (r Rules) Check(lp *pb.LayerPlan) (*Layer, error) {
	l, err := r.check(lp)
	if err != nil {
		return nil, fmt.Errorf("plan %d of layer %d: %w", lp.GetVersion(), lp.GetLayer(), err)
	}
	return l, nil
}

func (r Rules) check(lp *pb.LayerPlan) (*Layer, error) {
	if !slices.Contains(r.MoELayers, int(lp.GetLayer())) {
		return nil, fmt.Errorf("the model has no experts in this layer")
	}
	if there := schemas.KindOf(lp); !there.Joins(r.Kind) {
		return nil, fmt.Errorf("%w: it is for %v; this is %v", ErrKind, there, r.Kind)
	}
	if err := r.checkCounts(lp.GetFunctions()); err != nil {
		return nil, err
	}
	if err := Takes(lp.GetDivision()).Check(); err != nil {
		return nil, fmt.Errorf("its division: %w", err)
	}
	l := &Layer{LayerPlan: lp, of: make([][]int32, r.Experts), functions: make(map[string]int32, len(lp.Functions))}
	for i, f := range lp.Functions {
		if err := r.add(l, int32(i), f); err != nil {
			return nil, fmt.Errorf("function %.64q: %w", f.GetId(), err)
		}
	}
	for e, of := range l.of {
		if len(of) == 0 {
			return nil, fmt.Errorf("expert %d is in no function; one that is cold on purpose is in a function without placements", e)
		}
	}
	return l, nil
}

// checkCounts is done before any memory follows them.
func (r Rules) checkCounts(fs []*pb.Function) error {
	experts, placements := 0, 0
	for _, f := range fs {
		experts += len(f.GetExperts())
		placements += len(f.GetPlacements())
	}
	for _, c := range []struct {
		what       string
		have, most int
	}{
		{"functions", len(fs), functionsPerExpert * r.Experts},
		{"experts in functions", experts, membersPerExpert * r.Experts},
		{"placements", placements, MaxPlacements},
	} {
		if c.have > c.most {
			return fmt.Errorf("%d %s; a layer of %d experts has at most %d", c.have, c.what, r.Experts, c.most)
		}
	}
	return nil
}

// add checks a function and enters it.
func (r Rules) add(l *Layer, at int32, f *pb.Function) error {
	if err := r.checkKind(f); err != nil {
		return err
	}
	if err := cmp.Or(checkTransfer(f), checkRented(f)); err != nil {
		return err
	}
	if len(f.GetExperts()) == 0 {
		return fmt.Errorf("it has no experts")
	}
	members := r.addRouted
	if f.GetKind() == United {
		members = r.addUnited
	}
	if err := members(l, at, f); err != nil {
		return err
	}
	if id := IDOf(int(l.Layer), f); f.Id != id {
		return fmt.Errorf("its experts %v have the id %s", f.Experts, id)
	}
	if _, twice := l.functions[f.Id]; twice {
		return fmt.Errorf("it is there twice")
	}
	l.functions[f.Id] = at
	return r.checkPlacements(f.GetPlacements())
}

// addRouted enters a function of routed experts.
func (r Rules) addRouted(l *Layer, at int32, f *pb.Function) error {
	for _, e := range f.Experts {
		if int64(e) >= int64(r.Experts) {
			return fmt.Errorf("expert %d does not exist; there are %d", e, r.Experts)
		}
		if of := l.of[e]; len(of) > 0 && of[len(of)-1] == at {
			return fmt.Errorf("expert %d is in it twice", e)
		}
		l.of[e] = append(l.of[e], at)
	}
	return nil
}

func (r Rules) checkPlacements(ps []*pb.Placement) error {
	seen := make(map[string]bool, len(ps))
	for _, p := range ps {
		h := p.GetHost()
		switch {
		case !schemas.IsReplicaID(h):
			return fmt.Errorf("host %.64q is no replica's id", h)
		case seen[h]:
			return fmt.Errorf("host %q is there twice", h)
		case p.GetWant() < pb.Want_WANT_WARM || p.GetWant() > pb.Want_WANT_COLD:
			return fmt.Errorf("of host %q it wants %v, which is nothing", h, p.GetWant())
		}
		seen[h] = true
	}
	return nil
}

// Hosts lists the hosts that plans name, whatever is wanted of them.
func Hosts(layers map[int]*Layer) map[string]bool {
	hosts := map[string]bool{}
	for _, l := range layers {
		for _, f := range l.Functions {
			for _, p := range f.Placements {
				hosts[p.Host] = true
			}
		}
	}
	return hosts
}
