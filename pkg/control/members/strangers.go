package members

import (
	"maps"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Strangers are members of another kind: they speak another version, or serve another
// model, or compute other bits, or send tensors otherwise, under the same name. They are nobody's peers, and are
// known so that what is theirs can go back to them, and each be named.

// maxStrangers bounds those that are known.
const maxStrangers = 64

// Strangers lists them by id, as far as they are known.
func (v *View) Strangers() []*pb.Member {
	v.mu.Lock()
	defer v.mu.Unlock()
	return byID(v.strangers)
}

// meet takes in a record of another kind, and says whether somebody is to be told of it.
func (v *View) meet(m *pb.Member) (isNew bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	known := v.strangers[m.GetId()] != nil
	switch {
	case m.GetDraining():
		delete(v.strangers, m.GetId())
		return false
	case !known && len(v.strangers) == maxStrangers:
		return false
	}
	v.strangers[m.GetId()] = &entry{member: m}
	return !known && v.strange != nil
}

// ageStrangers forgets who has been silent for TTL; v.mu is held.
func (v *View) ageStrangers(passed time.Duration) {
	maps.DeleteFunc(v.strangers, func(_ string, e *entry) bool {
		e.silent += passed
		return e.silent >= TTL
	})
}
