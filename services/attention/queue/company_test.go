package queue

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Who is alone takes all that it has places for; who is not, a few at a time, and none
// while it has enough to do and a sibling is about to come.
func TestCompany(t *testing.T) {
	self := &pb.Member{Id: "a", Service: "attention"}
	ready := &pb.Member{Id: "b", Service: "attention", Ready: true}
	coming := &pb.Member{Id: "c", Service: "attention"}
	leaving := &pb.Member{Id: "d", Service: "attention", Draining: true}
	gate := &pb.Member{Id: "e", Service: "gate"}
	for _, c := range []struct {
		name                 string
		all                  []*pb.Member
		want                 company
		idle, occupied, room int // share of 64 places, and of the same when occupied, and of 2
	}{
		{"nobody else", []*pb.Member{self, leaving, gate}, alone, 64, 64, 2},
		{"not heard itself", nil, alone, 64, 64, 2},
		{"a sibling", []*pb.Member{self, ready}, shared, pullShared, pullShared, 2},
		{"one that comes", []*pb.Member{self, ready, coming}, awaited, pullShared, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := companyOf(c.all, "a")
			if got != c.want {
				t.Errorf("company %v, want %v", got, c.want)
			}
			if idle, occupied, room := got.share(64, false), got.share(64, true), got.share(2, false); idle != c.idle || occupied != c.occupied || room != c.room {
				t.Errorf("it pulls %d, %d, %d", idle, occupied, room)
			}
		})
	}
}
