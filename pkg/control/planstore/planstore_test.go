package planstore

import (
	"context"
	"errors"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// bucket is an empty bucket on a server of the test's own.
func bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	kv, err := testserver.Connect(t).EnsureBucket(t.Context(), 1, "plans", 0)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

var kind = schemas.Kind{ModelHash: 7, NumericClass: "k", Wire: "bf16", Hops: schemas.HopsUnacked}

// rig is a store and what it counts.
type rig struct {
	*Store
	t       *testing.T
	illegal atomic.Int64
}

func store(t *testing.T) *rig {
	r := &rig{t: t}
	r.Store = New(bucket(t), Settings{
		Rules:   plan.Rules{Kind: kind, MoELayers: []int{1, 3}, Experts: 1},
		Illegal: func(error) { r.illegal.Add(1) },
	})
	return r
}

// layers is a plan whose functions all run on one host.
func layers(host string) (out []*pb.LayerPlan) {
	for _, l := range []int{1, 3} {
		out = append(out, &pb.LayerPlan{Layer: uint32(l), Functions: []*pb.Function{plan.Function(l, []uint32{0}, host)}, Reason: "test"})
	}
	return out
}

func (r *rig) read() State {
	r.t.Helper()
	s, err := r.Read(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) write(old State, epoch uint64, wanted ...*pb.LayerPlan) State {
	r.t.Helper()
	now, _, err := r.Write(r.t.Context(), old, wanted, Writer{Epoch: epoch})
	if err != nil {
		r.t.Fatal(err)
	}
	return now
}

func host(v Value) string { return v.Plan.Functions[0].Placements[0].Host }

// Only layers that change are written, each with its next version, and nothing
// that was given is changed.
func TestWriteWhatChanges(t *testing.T) {
	r := store(t)
	first := r.write(nil, 5, layers("a")...)
	wanted := layers("a")
	wanted[1] = layers("b")[1]
	given := proto.CloneOf(wanted[1])
	now, changed, err := r.Write(t.Context(), first, wanted, Writer{Epoch: 5})
	if err != nil || len(changed) != 1 || changed[0] != 3 || !proto.Equal(wanted[1], given) || host(first[3]) != "a" {
		t.Fatalf("changed %v, %v; given %v", changed, err, wanted[1])
	}
	for _, s := range []State{now, r.read()} {
		if s[1].Plan.Version != first[1].Plan.Version || s[3].Plan.Version != first[3].Plan.Version+1 || host(s[3]) != "b" ||
			s[3].Plan.WriterEpoch != 5 || s[3].Plan.Reason != "test" || schemas.KindOf(s[3].Plan) != kind {
			t.Errorf("%v, %v", s[1].Plan, s[3].Plan)
		}
	}
}

// Layers that ask for what they did are written again where the settings are others, so that each says those that it was
// last found right under.
func TestWriteUnderOtherSettings(t *testing.T) {
	r := store(t)
	one := plan.DefaultSettings()
	other := one.With(plan.Settings{Replicas: 2})
	state := r.write(nil, 5, plan.Under(layers("a"), one)...)
	for _, tc := range []struct {
		name   string
		wanted []*pb.LayerPlan
		writes int
	}{
		{"the same", plan.Under(layers("a"), one), 0},
		{"others", plan.Under(layers("a"), other), 2},
		{"the same others", plan.Under(layers("a"), other), 0},
		{"none", layers("a"), 0},
	} {
		now, changed, err := r.Write(t.Context(), state, tc.wanted, Writer{Epoch: 5})
		if err != nil || len(changed) != tc.writes {
			t.Errorf("%s: changed %v, %v", tc.name, changed, err)
		}
		state = now
	}
	for l, v := range r.read() {
		if plan.SettingsOf(v.Raw.Settings) != other || host(v) != "a" {
			t.Errorf("layer %d: %v", l, v.Raw)
		}
	}
}

// All that a planner says of a layer is stored: a field that is forgotten is missed where plans
// are read, such as the policy by hosts that plan after the last scaler.
func TestWriteAll(t *testing.T) {
	r := store(t)
	wanted := layers("a")
	wanted[0].Policy, wanted[0].Traceparent, wanted[0].Division = "moeless", "00-1", &pb.AccessTime{RowSeconds: 1}
	lp := proto.CloneOf(r.write(nil, 5, wanted...)[1].Raw)
	lp.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !wanted[0].ProtoReflect().Has(f) { // the store's own
			lp.ProtoReflect().Clear(f)
		}
		return true
	})
	if !proto.Equal(lp, wanted[0]) || !proto.Equal(r.read()[1].Raw, r.write(r.read(), 5, wanted...)[1].Raw) {
		t.Errorf("stored %v, wanted %v", lp, wanted[0])
	}
}

// A writer that knows an older state, or has an older lease, changes nothing.
func TestFenced(t *testing.T) {
	r := store(t)
	old := r.write(nil, 2, layers("a")...)
	r.write(old, 3, layers("b")...)
	for _, stale := range []State{old, nil} {
		if _, _, err := r.Write(t.Context(), stale, layers("c"), Writer{Epoch: 4}); !errors.Is(err, ErrConflict) {
			t.Errorf("%v, want ErrConflict", err)
		}
	}
	holds := false
	by := Writer{Epoch: 2, Holds: func(context.Context) (bool, error) { return holds, nil }}
	if _, _, err := r.Write(t.Context(), r.read(), layers("c"), by); !errors.Is(err, ErrFenced) || host(r.read()[1]) != "b" {
		t.Errorf("%v, want ErrFenced", err)
	}
	holds = true // then the larger epoch is a forgery
	if _, _, err := r.Write(t.Context(), r.read(), layers("c"), by); err != nil || host(r.read()[1]) != "c" {
		t.Error(err)
	}
}

// What is not legal is not written.
func TestWriteIllegal(t *testing.T) {
	r := store(t)
	wanted := layers("a")
	wanted[0].Functions = nil
	if _, _, err := r.Write(t.Context(), nil, wanted, Writer{}); err == nil || len(r.read()) != 0 {
		t.Errorf("%v; %v", err, r.read())
	}
}

// Whatever is in the place of a plan is no plan, is counted, leaves the plan before
// it in use, and is replaced by one with a version that is larger than each before.
func TestIllegal(t *testing.T) {
	forged := func(change func(*pb.LayerPlan)) func(State) []byte {
		return func(s State) []byte {
			lp := proto.CloneOf(s[1].Plan.LayerPlan)
			lp.Version++
			change(lp)
			return encode(t, lp)
		}
	}
	for _, tc := range []struct {
		name string
		body func(State) []byte
		says string
	}{
		{"unreadable", func(State) []byte { return []byte("\xff") }, "cannot parse"},
		{"last version", forged(func(l *pb.LayerPlan) { l.Version = math.MaxUint64 }), "version 18446744073709551615"},
		{"version of the future", forged(func(l *pb.LayerPlan) { l.Version = 1000 }), "version 1000"},
		{"no version", forged(func(l *pb.LayerPlan) { l.Version = 0 }), "version 0"},
		{"another model", forged(func(l *pb.LayerPlan) { l.ModelHash++ }), "model 0000000000000008"},
		{"another layer", forged(func(l *pb.LayerPlan) { l.Layer, l.Functions = 3, layers("a")[1].Functions }), "it is of layer 3"},
		{"missing expert", forged(func(l *pb.LayerPlan) { l.Functions = nil }), "expert 0 is in no function"},
		{"unnamed function", forged(func(l *pb.LayerPlan) { l.Functions[0].Id = "a.b" }), `function "a.b"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := store(t)
			good := r.write(nil, 1, layers("a")...)
			seen := r.follow(t)
			next(t, seen, func(v Value) bool { return v.Layer == 3 && v.Plan != nil })
			if _, err := r.kv.Put(t.Context(), "1", tc.body(good)); err != nil {
				t.Fatal(err)
			}
			v := next(t, seen, func(v Value) bool { return v.Layer == 1 && v.Plan == nil })
			if !errors.Is(v.Err, ErrIllegal) || !strings.Contains(v.Err.Error(), tc.says) || r.illegal.Load() != 1 {
				t.Errorf("%v, counted %d; want %q", v.Err, r.illegal.Load(), tc.says)
			}
			now := r.write(r.read(), 2, layers("a")...)
			if p := now[1].Plan; p.Version <= good[1].Plan.Version || p.Version > now[1].Revision || now[3].Plan.Version != good[3].Plan.Version {
				t.Errorf("version %d of revision %d", p.Version, now[1].Revision)
			}
			next(t, seen, func(v Value) bool { return v.Layer == 1 && v.Plan != nil && v.Plan.Version == now[1].Plan.Version })
		})
	}
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// follow sends what Follow gives; it ends with the test.
func (r *rig) follow(t *testing.T) <-chan Value {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	values, done := make(chan Value, 64), make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Follow(ctx, func(v Value) { values <- v }); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return values
}

// next waits for a value.
func next(t *testing.T, values <-chan Value, want func(Value) bool) Value {
	t.Helper()
	limit := time.After(testkit.Patience)
	for {
		select {
		case v := <-values:
			if want(v) {
				return v
			}
		case <-limit:
			t.Fatal("what was waited for did not come")
		}
	}
}

// A version that goes back is refused while the bucket is the same.
func TestVersionBack(t *testing.T) {
	r := store(t)
	first := r.write(nil, 1, layers("a")...)
	r.write(first, 1, layers("b")...)
	seen := r.follow(t)
	next(t, seen, func(v Value) bool { return v.Layer == 3 })
	if _, err := r.kv.Put(t.Context(), "1", encode(t, first[1].Plan)); err != nil {
		t.Fatal(err)
	}
	if v := next(t, seen, func(v Value) bool { return v.Layer == 1 }); !errors.Is(v.Err, ErrIllegal) || !strings.Contains(v.Err.Error(), "its version went from") {
		t.Errorf("%v", v.Err)
	}
}

// A follower goes on in a bucket that was made anew, and a deleted key is news.
func TestFollowAnew(t *testing.T) {
	r := store(t)
	r.write(nil, 1, layers("a")...)
	seen := r.follow(t)
	next(t, seen, func(v Value) bool { return v.Layer == 3 })
	if err := r.kv.Delete(t.Context(), strconv.Itoa(3)); err != nil {
		t.Fatal(err)
	}
	next(t, seen, func(v Value) bool { return v.Layer == 3 && v.Plan == nil && v.Err == nil })
	b, err := bus.AsBucket(r.kv)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Conn().JetStream().DeleteKeyValue(t.Context(), "plans"); err != nil {
		t.Fatal(err)
	}
	if r.kv, err = b.Conn().EnsureBucket(t.Context(), 1, "plans", 0); err != nil {
		t.Fatal(err)
	}
	r.write(nil, 2, layers("c")...)
	next(t, seen, func(v Value) bool { return v.Plan != nil && host(v) == "c" })
}

func put(t *testing.T, kv jetstream.KeyValue, key string, m proto.Message) {
	t.Helper()
	putBytes(t, kv, key, string(encode(t, m)))
}

func putBytes(t *testing.T, kv jetstream.KeyValue, key, body string) {
	t.Helper()
	if _, err := kv.Put(t.Context(), key, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

func erase(t *testing.T, kv jetstream.KeyValue, key string) {
	t.Helper()
	if err := kv.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// A view keeps the newest value of a layer, and begins anew with a new bucket, whose
// revisions are smaller; both wake who waits.
func TestView(t *testing.T) {
	v := NewView()
	for _, step := range []struct {
		name  string
		do    func()
		wakes bool
		is    State
	}{
		{"first", func() { v.Put(Value{Layer: 1, Revision: 5}) }, true, State{1: Value{Layer: 1, Revision: 5}}},
		{"older", func() { v.Put(Value{Layer: 1, Revision: 4}) }, false, State{1: Value{Layer: 1, Revision: 5}}},
		{"other layer", func() { v.Put(Value{Layer: 2, Revision: 4}) }, true, State{1: Value{Layer: 1, Revision: 5}, 2: Value{Layer: 2, Revision: 4}}},
		{"new bucket", v.Forget, true, State{}},
		{"small revision", func() { v.Put(Value{Layer: 1, Revision: 1}) }, true, State{1: Value{Layer: 1, Revision: 1}}},
	} {
		changed, woken := v.Changed(), false
		step.do()
		select {
		case <-changed:
			woken = true
		default:
		}
		if woken != step.wakes || !maps.Equal(v.State(), step.is) {
			t.Errorf("%s: woken %v, %v", step.name, woken, v.State())
		}
	}
}
