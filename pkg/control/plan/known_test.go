package plan

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestRoom(t *testing.T) {
	const one = 100
	for _, tc := range []struct {
		name    string
		said    uint64
		refused *pb.Refusal
		want    uint64
		none    bool
	}{
		{name: "no limit"},
		{name: "budget", said: 250, want: 250},
		{name: "some fit", refused: &pb.Refusal{Experts: 4, NeedBytes: 40, RoomBytes: 39}, want: 3 * one},
		{name: "less than said", said: 400, refused: &pb.Refusal{Experts: 4, NeedBytes: 40, RoomBytes: 20}, want: 2 * one},
		{name: "more than said", said: 150, refused: &pb.Refusal{Experts: 4, NeedBytes: 40, RoomBytes: 20}, want: 150},
		{name: "none fits", said: 400, refused: &pb.Refusal{Experts: 4, NeedBytes: 40, RoomBytes: 9}, none: true},
		{name: "no numbers", said: 400, refused: &pb.Refusal{}, want: 400},
		{name: "forged", refused: &pb.Refusal{Experts: 1 << 31, NeedBytes: 1, RoomBytes: 1 << 63}, want: 1 << 31 * one},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, some := Host{Budget: tc.said, Refused: tc.refused}.Room(one)
			if got != tc.want || some == tc.none {
				t.Errorf("%d, %v", got, some)
			}
		})
	}
}
