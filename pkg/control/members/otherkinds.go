package members

import (
	"maps"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Members of another kind speak another version, or serve another
// model, or compute other bits, or send tensors otherwise, under the same name. No replica of this
// kind works with them; they are known so that what is theirs can go back to them, and each be named.

// maxOtherKinds bounds those that are known.
const maxOtherKinds = 64

// OtherKinds lists them by id, as far as they are known.
func (v *View) OtherKinds() []*pb.Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	return byID(v.otherKinds)
}

// meet takes in a record of another kind, and says whether somebody is to be told of it.
func (v *View) meet(m *pb.Member) (isNew bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.otherKinds[m.GetId()] != nil
	switch {
	case m.GetDraining():
		delete(v.otherKinds, m.GetId())
		return false
	case !known && len(v.otherKinds) == maxOtherKinds:
		return false
	}
	v.otherKinds[m.GetId()] = &entry{member: m}
	return !known && v.strange != nil
}

// ageOtherKinds forgets who has been silent for TTL; v.mu is held.
func (v *View) ageOtherKinds(passed time.Duration) {
	maps.DeleteFunc(v.otherKinds, func(_ string, e *entry) bool {
		e.silent += passed
		return e.silent >= TTL
	})
}
