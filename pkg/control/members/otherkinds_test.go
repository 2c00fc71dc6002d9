package members

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// own is the kind of who watches here.
var own = schemas.NewKind(7, "fma32", "bf16", schemas.HopsUnacked)

// met are the members of other kinds that a view was told of, again when it had forgotten them.
type met struct {
	mu  sync.Mutex
	ids []string
	// dropped are records that do not count, and first the ids of which one was told of for the first time.
	dropped int
	first   []string
}

func (m *met) drop(id string, why error, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped++
	if first {
		m.first = append(m.first, fmt.Sprintf("%s: %v", id, why))
	}
}

func (m *met) tell(s *pb.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ids = append(m.ids, s.Id)
}

func (m *met) all() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(slices.Compact(m.ids), " ")
}

// viewOfKind watches, and tells of members of other kinds.
func viewOfKind(t *testing.T) (*bus.Bucket, *View, *met) {
	t.Helper()
	srv := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(srv.Shutdown)
	kv, told := connect(t, srv), &met{}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	v, err := WatchKind(ctx, kv, own, Told{Strange: told.tell, Dropped: told.drop})
	if err != nil {
		t.Fatal(err)
	}
	return kv, v, told
}

// say writes a record as a member does.
func say(t *testing.T, kv *bus.Bucket, m *pb.Member) {
	t.Helper()
	if err := kv.Conn().Send(t.Context(), bus.KeySubject(bucket, m.Id), m, nil); err != nil {
		t.Fatal(err)
	}
}

// Members whose records differ in what must be equal are of other kinds, and told of;
// a record from before versions were said is of the version that was spoken then, and one
// from before hops were said has anybody's.
func TestTellsOfOtherKinds(t *testing.T) {
	kv, v, told := viewOfKind(t)
	for _, tc := range []struct {
		id      string
		change  func(*pb.Member)
		strange bool
	}{
		{"same", func(*pb.Member) {}, false},
		{"older-record", func(m *pb.Member) { m.SchemaVersion, m.Hops = 0, "" }, false},
		{"newer-version", func(m *pb.Member) { m.SchemaVersion = schemas.Version + 1 }, true},
		{"other-hash", func(m *pb.Member) { m.ModelHash++ }, true},
		{"other-kernels", func(m *pb.Member) { m.NumericClass = "x" }, true},
		{"other-wire", func(m *pb.Member) { m.Wire = "f32" }, true},
		{"other-hops", func(m *pb.Member) { m.Hops = "core" }, true},
	} {
		m := &pb.Member{Id: tc.id, Service: "gate", ModelHash: 7, NumericClass: "fma32", Wire: "bf16", Hops: "unacked", SchemaVersion: schemas.Version}
		tc.change(m)
		here := func(all []*pb.Member) bool { return strings.Contains(names(all), tc.id) }
		testkit.Eventually(t, tc.id, func() bool {
			say(t, kv, m) // again and again, or it is forgotten
			return here(v.Snapshot()) != tc.strange && here(v.OtherKinds()) == tc.strange
		})
	}
	if all := told.all(); all != "newer-version other-hash other-kernels other-wire other-hops" {
		t.Errorf("told of %q", all)
	}
	testkit.Eventually(t, "they are forgotten", func() bool { v.expire(TTL); return len(v.OtherKinds()) == 0 })
}

func names(all []*pb.Member) string {
	var ids []string
	for _, m := range all {
		ids = append(ids, m.Id)
	}
	return strings.Join(ids, " ")
}

// However many members of other kinds there seem to be, few are known.
func TestOtherKindsAreBounded(t *testing.T) {
	v := &View{otherKinds: map[string]*entry{}, told: Told{Strange: func(*pb.Member) {}}}
	told := 0
	for i := range 3 * maxOtherKinds {
		if v.meet(&pb.Member{Id: fmt.Sprint(i)}) {
			told++
		}
	}
	if told != maxOtherKinds || len(v.OtherKinds()) != maxOtherKinds {
		t.Errorf("told of %d, and %d are known", told, len(v.OtherKinds()))
	}
	v.ageOtherKinds(TTL - time.Millisecond)
	if v.meet(&pb.Member{Id: "0"}) || len(v.OtherKinds()) != maxOtherKinds {
		t.Error("one that is known came as a new one")
	}
	if v.ageOtherKinds(time.Millisecond); names(v.OtherKinds()) != "0" {
		t.Errorf("%s are left", names(v.OtherKinds()))
	}
	if v.meet(&pb.Member{Id: "0", Draining: true}) || len(v.OtherKinds()) > 0 {
		t.Errorf("%s are left when the last one said that it goes", names(v.OtherKinds()))
	}
}

// A record that does not count is told of with what is wrong, once an id.
func TestDroppedRecords(t *testing.T) {
	kv, v, told := viewOfKind(t)
	long := strings.Repeat("m", schemas.MaxModelToken)
	member := func(id string, change func(*pb.Member)) {
		m := &pb.Member{Id: id, Service: "gate", Model: "m", NumericClass: own.NumericClass, Wire: own.Wire, Hops: string(own.Hops), SchemaVersion: own.Version, ModelHash: own.ModelHash}
		change(m)
		say(t, kv, m)
	}
	for range 2 {
		member("gate-1", func(m *pb.Member) { m.Model = long + "m" })
		member("gate-2", func(m *pb.Member) { m.Host = strings.Repeat("h", maxHost+1) })
		member("gate-3", func(m *pb.Member) { m.Version = long + "1" })
		member("gate-4", func(m *pb.Member) { m.Trouble = strings.Repeat("t", maxWords+1) })
	}
	member("gate-5", func(m *pb.Member) { m.Model = long })
	testkit.Eventually(t, "a member whose model has the longest name", func() bool { return len(v.Snapshot()) == 1 })
	told.mu.Lock()
	defer told.mu.Unlock()
	want := "gate-1: its model is of length 65; at most 64 may be; gate-2: its host is of length 254; at most 253 may be; " +
		"gate-3: its version is of length 65; at most 64 may be; gate-4: its trouble is of length 2049; at most 2048 may be"
	if got := strings.Join(told.first, "; "); got != want || told.dropped != 8 {
		t.Errorf("%d are dropped: %s, want %s", told.dropped, got, want)
	}
}
