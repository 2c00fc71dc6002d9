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
	v, err := WatchKind(ctx, kv, own, told.tell)
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
	v := &View{otherKinds: map[string]*entry{}, strange: func(*pb.Member) {}}
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
