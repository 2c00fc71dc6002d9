// Package plan is the desired state of the expert hosts: which experts form a
// function, and what is wanted of which host. It says what a legal plan is, and
// which functions a gate uses under it. It is pure; services write and watch it.
package plan

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/policy/divide"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Routed is the kind of functions that have the model's own experts.
const Routed = pb.FunctionKind_FUNCTION_KIND_ROUTED

// United is the kind of functions that have united experts.
const United = pb.FunctionKind_FUNCTION_KIND_UNITED

// The transfer modes of functions.
const (
	Pipelined = pb.TransferMode_TRANSFER_MODE_PIPELINED
	Indirect  = pb.TransferMode_TRANSFER_MODE_INDIRECT
	Direct    = pb.TransferMode_TRANSFER_MODE_DIRECT
)

// FunctionID is a hash of a layer, a set of experts and a kind: the same have the
// same subject and consumer group in every plan.
func FunctionID(layer int, experts []uint32, kind pb.FunctionKind) string {
	return IDOf(layer, &pb.Function{Experts: experts, Kind: kind})
}

// IDOf is the id of a function by what it has: its kind, way, bundle and experts, however its
// rows reach it.
func IDOf(layer int, f *pb.Function) string {
	experts, kind := f.GetExperts(), f.GetKind()
	h := fnv.New64a()
	buf := binary.LittleEndian.AppendUint32(nil, uint32(layer))
	for _, e := range slices.Sorted(slices.Values(experts)) {
		buf = binary.LittleEndian.AppendUint32(buf, e)
	}
	if kind != Routed { // whose ids are in running systems
		buf = append(binary.LittleEndian.AppendUint32(buf, uint32(kind)), 'k')
		buf = binary.LittleEndian.AppendUint32(buf, f.GetWay())
		buf = binary.LittleEndian.AppendUint64(buf, f.GetBundle())
	}
	_, _ = h.Write(buf) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// Function makes a function of the model's own experts that is wanted warm on
// some hosts, or cold on purpose if there are none.
func Function(layer int, experts []uint32, warmOn ...string) *pb.Function {
	f := &pb.Function{Id: FunctionID(layer, experts, Routed), Kind: Routed, Experts: experts}
	for _, h := range warmOn {
		f.Placements = append(f.Placements, &pb.Placement{Host: h, Want: pb.Want_WANT_WARM})
	}
	return f
}

// UnitedFunction is Function for united experts of a bundle.
func UnitedFunction(layer int, of Bundle, groups []uint32, warmOn ...string) *pb.Function {
	f := Function(layer, groups, warmOn...)
	f.Kind, f.Way, f.Bundle = United, uint32(of.Way), of.ID
	f.Id = IDOf(layer, f)
	return f
}

// WantOn is what a plan wants of a host for a function, WANT_UNSPECIFIED for nothing.
func WantOn(f *pb.Function, host string) pb.Want {
	for _, p := range f.GetPlacements() {
		if p.GetHost() == host {
			return p.GetWant()
		}
	}
	return pb.Want_WANT_UNSPECIFIED
}

// Same reports whether two plans of a layer ask for the same, whatever their
// versions, writers and reasons.
func Same(a, b *pb.LayerPlan) bool {
	return a.GetLayer() == b.GetLayer() && sameAccess(a.GetDivision(), b.GetDivision()) && slices.EqualFunc(a.GetFunctions(), b.GetFunctions(), func(f, g *pb.Function) bool {
		return f.GetId() == g.GetId() && f.GetKind() == g.GetKind() && f.GetWay() == g.GetWay() && f.GetBundle() == g.GetBundle() &&
			f.GetTransfer() == g.GetTransfer() && f.GetMinibatch() == g.GetMinibatch() && f.GetMemoryBytes() == g.GetMemoryBytes() && f.GetBeside() == g.GetBeside() && f.GetForetold() == g.GetForetold() && slices.Equal(f.GetExperts(), g.GetExperts()) &&
			slices.EqualFunc(f.GetPlacements(), g.GetPlacements(), samePlacement)
	})
}

// Stands reports whether a plan of a layer need not be written again: it asks for what is wanted, and says that it does so
// under the settings that the wanted one says, if that says any.
func Stands(there, wanted *pb.LayerPlan) bool {
	return Same(there, wanted) && (wanted.GetSettings() == nil || proto.Equal(there.GetSettings(), wanted.GetSettings()))
}

func samePlacement(a, b *pb.Placement) bool {
	return a.GetHost() == b.GetHost() && a.GetWant() == b.GetWant()
}

// ForBatches is the policy of plans whose functions are rented for batches of tokens. Their
// transfers are their own, whatever settings say of others.
const ForBatches = "bo-ods"

// Deployed is how an expert's function is rented for batches, and the rows that were foretold for it.
type Deployed struct {
	Memory   uint64
	Replicas int
	Foretold float64
}

// Batch is a layer's plan with a function of each expert, rented as deployed, and replicas on hosts in
// turn.
func Batch(layer int, mode pb.TransferMode, minibatch int, deployed []Deployed, hosts []string) (*pb.LayerPlan, error) {
	lp := &pb.LayerPlan{Layer: uint32(layer), Policy: ForBatches, Reason: fmt.Sprintf("%s: a function an expert, %s", ForBatches, TransferName(mode))}
	for e, of := range deployed {
		if of.Replicas < 1 || of.Replicas > len(hosts) {
			return nil, fmt.Errorf("expert %d of layer %d has %d replicas, and there are %d expert hosts, each of which can have one: start %d more", e, layer, of.Replicas, len(hosts), max(1, of.Replicas-len(hosts)))
		}
		var on []string
		for i := range of.Replicas {
			on = append(on, hosts[(e+i)%len(hosts)])
		}
		slices.Sort(on)
		f := Function(layer, []uint32{uint32(e)}, on...)
		f.Transfer, f.MemoryBytes, f.Foretold = mode, of.Memory, of.Foretold
		if mode == Pipelined {
			f.Minibatch = uint32(minibatch)
		}
		lp.Functions = append(lp.Functions, f)
	}
	return lp, nil
}

// Group makes a layer's functions of what is wanted for each expert: one of all
// experts that are wanted alike, or one of each. Each expert's placements are in
// the order of their hosts. The functions are in the order of their experts.
func Group(layer int, by Grouping, wanted [][]*pb.Placement) (fs []*pb.Function) {
	of := map[string]*pb.Function{}
	for e, placements := range wanted {
		key := fmt.Sprint(e)
		if by != ByExpert {
			key = spell(placements)
		}
		f := of[key]
		if f == nil {
			f = &pb.Function{Kind: Routed, Placements: placements}
			of[key] = f
			fs = append(fs, f)
		}
		f.Experts = append(f.Experts, uint32(e))
	}
	for _, f := range fs {
		f.Id = FunctionID(layer, f.Experts, f.Kind)
	}
	slices.SortFunc(fs, func(a, b *pb.Function) int { return cmp.Compare(a.Experts[0], b.Experts[0]) })
	return fs
}

// spell is the same for the same placements.
func spell(placements []*pb.Placement) string {
	var b strings.Builder
	for _, p := range placements {
		fmt.Fprintf(&b, "%q %d ", p.Host, p.Want)
	}
	return b.String()
}

// Homes are the hosts that a layer's rows go to where hosts load experts for them, by function.
// Of several hosts that serve a function it is one, always the same: so that host holds its
// experts if any does, the others need not, and who foretells experts knows whom to tell. A
// function has none if one host serves it, or if all of its hosts hold it (Held).
func Homes(l *pb.LayerPlan) map[string]string {
	all, least := hostsOf(l), leastWarm(l)
	homes := map[string]string{}
	for _, f := range l.GetFunctions() {
		on := serving(f)
		if f.GetKind() != Routed || len(f.GetExperts()) == 0 || len(on) < 2 || warmOn(f) > least {
			continue
		}
		at := make([]int, len(on))
		for i, host := range on {
			at[i], _ = slices.BinarySearch(all, host)
		}
		divide.HomeFirst(at, int(slices.Min(f.Experts)), len(all))
		homes[f.Id] = all[at[0]]
	}
	return homes
}

// Held reports whether a plan gives a function more warm replicas than the least of its layer's: one
// that goes by load does so for what is wanted most, and hosts that offload hold it for as long.
func Held(l *pb.LayerPlan, f *pb.Function) bool { return warmOn(f) > leastWarm(l) }

// leastWarm is at least 1.
func leastWarm(l *pb.LayerPlan) int {
	least := 0
	for i, f := range l.GetFunctions() {
		if n := warmOn(f); i == 0 || n < least {
			least = n
		}
	}
	return max(1, least)
}

func warmOn(f *pb.Function) (n int) {
	for _, p := range f.GetPlacements() {
		if p.GetWant() == pb.Want_WANT_WARM {
			n++
		}
	}
	return n
}

// serving are the hosts that take a function's rows, by name.
func serving(f *pb.Function) (on []string) {
	for _, p := range f.GetPlacements() {
		if p.GetWant() != pb.Want_WANT_KEPT {
			on = append(on, p.GetHost())
		}
	}
	slices.Sort(on)
	return on
}

// hostsOf are the hosts that serve any function of a layer, by name.
func hostsOf(l *pb.LayerPlan) (all []string) {
	for _, f := range l.GetFunctions() {
		all = append(all, serving(f)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Known is all that a policy decides by.
type Known struct {
	Model    Model
	Settings Settings
	// Hosts are those that are here and do not leave.
	Hosts []Host
	// InForce are the layers' plans until now, by layer.
	InForce map[int]*Layer
}

// Decision is what a policy wants: layers with their functions and reasons. What
// else a plan says is its writer's.
type Decision struct {
	Layers []*pb.LayerPlan
}

// Model is what has to be planned.
type Model struct {
	MoELayers []int
	Experts   int
	// ExpertBytes is what an expert takes at most.
	ExpertBytes uint64
}

// Offer is united experts that a host can load.
type Offer struct {
	Bundle
	// Bytes is what one takes of a host's budget at most.
	Bytes uint64
	// Without says which groups have none, those of each layer with experts behind one another;
	// nil: all have one.
	Without []bool
	// Grouped says that which experts a group has is in the bundle alone.
	Grouped bool
}

// Host is a place for experts.
type Host struct {
	ID string
	// Budget is the bytes that it can hold; 0 is no limit.
	Budget uint64
	// United are the united experts that it can load.
	United []Offer
	// Throttles says that its device is slowed, so that rows pass it by where another
	// host has their function.
	Throttles bool
}

// Proto is an offer as a member makes it.
func (o Offer) Proto() *pb.UnitedExperts {
	u := &pb.UnitedExperts{Way: uint32(o.Way), Bundle: o.ID, Bytes: o.Bytes, Grouped: o.Grouped}
	for i, none := range o.Without {
		if i%8 == 0 {
			u.Without = append(u.Without, 0)
		}
		if none {
			u.Without[i/8] |= 1 << (i % 8)
		}
	}
	return u
}

// OfferOf is what a member offers for a layer's experts; false if that cannot be.
func OfferOf(u *pb.UnitedExperts, experts, layers int) (o Offer, ok bool) {
	if CheckWay(United, u.GetWay(), experts) != nil || u.GetBundle() == 0 || u.GetBytes() == 0 || u.GetBytes() > maxOffered {
		return o, false
	}
	o = Offer{Bundle: Bundle{Way: int(u.Way), ID: u.Bundle}, Bytes: u.Bytes, Grouped: u.Grouped}
	n := layers * Groups(experts, o.Way)
	if len(u.Without) == 0 {
		return o, true
	}
	if len(u.Without) != (n+7)/8 {
		return o, false
	}
	for i := range n {
		o.Without = append(o.Without, u.Without[i/8]&(1<<(i%8)) != 0)
	}
	return o, true
}

// maxOffered bounds the bytes that a host is believed to count for a united expert.
const maxOffered = 1 << 40

// Transfers are the modes that settings may name, by name.
var Transfers = map[string]pb.TransferMode{"pipelined": Pipelined, "indirect": Indirect, "direct": Direct}

// TransferName is a mode's; empty: none is said.
func TransferName(mode pb.TransferMode) string {
	if mode == pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(mode.String(), "TRANSFER_MODE_"))
}

// Moved is plans of layers whose rows travel as settings say: where these name a mode every function
// has it, whatever the policy said, and else they are as they were. Plans for batches keep their own.
func Moved(layers []*pb.LayerPlan, s Settings) []*pb.LayerPlan {
	if s.Transfer == pb.TransferMode_TRANSFER_MODE_UNSPECIFIED {
		return layers
	}
	out := slices.Clone(layers)
	for i, lp := range out {
		if lp.Policy != ForBatches {
			out[i] = moved(lp, s.Transfer, uint32(s.Minibatch))
		}
	}
	return out
}

// moved is a layer's plan with every function in a mode. The layer's own functions stay as they are.
func moved(lp *pb.LayerPlan, mode pb.TransferMode, minibatch uint32) *pb.LayerPlan {
	out := shallow(lp)
	out.Functions = make([]*pb.Function, len(lp.Functions))
	for i, f := range lp.Functions {
		out.Functions[i] = &pb.Function{
			Id: f.Id, Experts: f.Experts, Kind: f.Kind, Placements: f.Placements, Way: f.Way, Bundle: f.Bundle, Transfer: mode, Minibatch: minibatch,
			MemoryBytes: f.MemoryBytes, Beside: f.Beside, Foretold: f.Foretold,
		}
	}
	return out
}

// Unmoved is the layer's plan without what it says of transfers, for policies that decide nothing of
// them: what they would plan again is the same then. Plans for batches keep theirs.
func (l *Layer) Unmoved() *Layer {
	if l.Policy == ForBatches || !slices.ContainsFunc(l.Functions, func(f *pb.Function) bool { return f.Transfer != pb.TransferMode_TRANSFER_MODE_UNSPECIFIED }) {
		return l
	}
	out := *l
	out.LayerPlan = moved(l.LayerPlan, pb.TransferMode_TRANSFER_MODE_UNSPECIFIED, 0)
	return &out
}

// Stores reports whether rows of any function go through objects.
func Stores(layers []*pb.LayerPlan) bool {
	return slices.ContainsFunc(layers, func(lp *pb.LayerPlan) bool {
		return slices.ContainsFunc(lp.GetFunctions(), func(f *pb.Function) bool { return f.Transfer == Pipelined || f.Transfer == Indirect })
	})
}
