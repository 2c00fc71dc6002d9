// Package rig makes what tests of the expert host's rooms share: the rows that come to them, the
// plans that they follow, and the device that they hold experts on.
package rig

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The model of the tests has Layers, with Experts in each.
const (
	Layers  = 2
	Experts = 4
)

// Dispatch sends token rows to experts of layer 0, two a row: experts[i] has place i.
func Dispatch(w tensor.Wire, d int, experts ...uint32) *pb.Dispatch {
	rows := max(1, (len(experts)+1)/2)
	x := make([]float32, rows*d)
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	out := &pb.Dispatch{
		Key:    &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Rows: uint32(rows), Aggregator: "a"},
		Tensor: tensor.Encode(w, x, d, nil),
	}
	for i, e := range experts {
		out.Place = append(out.Place, uint32(i))
		out.Expert = append(out.Expert, e)
		out.Weight = append(out.Weight, 0.25+float32(i))
	}
	return out
}

// ID is that of a function of layer 0.
func ID(experts ...uint32) string { return plan.FunctionID(0, experts, plan.Routed) }

// Wanted returns a function of layer 0 that a plan wants on a host.
func Wanted(host string, w pb.Want, experts ...uint32) *pb.Function {
	f := plan.Function(0, experts)
	f.Placements = []*pb.Placement{{Host: host, Want: w}}
	return f
}

// Plans returns those of the model's layers, in whose layer 0 there are some functions and all other
// experts are on another host, "there", as all those of layer 1 are.
func Plans(functions ...*pb.Function) []*pb.LayerPlan {
	rest := []uint32{0, 1, 2, 3}
	layer1 := &pb.LayerPlan{Layer: 1, Functions: []*pb.Function{plan.Function(1, slices.Clone(rest), "there")}}
	for _, f := range functions {
		rest = slices.DeleteFunc(rest, func(e uint32) bool { return slices.Contains(f.Experts, e) })
	}
	if len(rest) > 0 {
		functions = append(functions, plan.Function(0, rest, "there"))
	}
	return []*pb.LayerPlan{{Layer: 0, Functions: functions}, layer1}
}

// Check makes a layer's plan one of a version that hosts can follow.
func Check(t testing.TB, version uint64, l *pb.LayerPlan) *plan.Layer {
	t.Helper()
	l.Version = version
	checked, err := plan.Rules{MoELayers: []int{0, 1}, Experts: Experts}.Check(l)
	if err != nil {
		t.Fatal(err)
	}
	return checked
}

// Device is a fake with experts of layer 0 that tests look at.
type Device struct{ *devicetest.Fake }

// NewDevice has room for so many experts; 0 is no limit.
func NewDevice(room int) Device {
	return Device{devicetest.NewFake(Layers, Experts, device.Settings{Budget: int64(room) * devicetest.Bytes})}
}

// Loads returns how often an expert's load has begun.
func (d Device) Loads(e int) (n int) {
	for _, id := range d.Faults.Began() {
		if id.Expert == e {
			n++
		}
	}
	return n
}

// Phase returns an expert's.
func (d Device) Phase(e int) device.Phase { return d.State(forward.ExpertID{Expert: e}).Phase }

// Phases returns those of all experts.
func (d Device) Phases() (out []string) {
	for e := range Experts {
		out = append(out, d.Phase(e).String())
	}
	return out
}

// Hold makes an expert's loads wait, until the test ends at the latest.
func (d Device) Hold(t testing.TB, e int) (let func()) {
	let = d.Faults.Hold(forward.ExpertID{Expert: e})
	t.Cleanup(let)
	return let
}

// Within fails the test if the device holds more than so many experts; how often it looks is up
// to the caller.
func (d Device) Within(t testing.TB, room int) bool {
	m := d.Memory()
	if m.Used > int64(room)*devicetest.Bytes {
		t.Errorf("%+v", m)
		return false
	}
	return true
}

// Left fails the test if a device that was closed holds anything.
func (d Device) Left(t testing.TB) {
	t.Helper()
	if n := d.Live() + d.Memory().Used; n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
