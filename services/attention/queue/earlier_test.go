package queue

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// earlierIdentity is what the version before had in its messages for this model.
func (a *abroad) earlierIdentity() *pb.Identity {
	return &pb.Identity{Version: schemas.EarlierVersion, Model: a.d.Earlier()}
}

// opened stores an acceptance as that version does.
func (a *abroad) opened(id *pb.Identity) {
	a.t.Helper()
	accept := proto.CloneOf(a.accept)
	accept.Identity = id
	data, err := proto.Marshal(&pb.EarlierRecord{Kind: &pb.EarlierRecord_Accept{Accept: accept}})
	if err == nil {
		_, err = a.d.Conn.StoreBytes(a.t.Context(), a.d.Subjects.Token("r"), data, nil)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// A sequence of the version before has no acceptance: that of its log is taken, and the
// request goes on. Of another model, its producer is told; and one without a log is no request.
func TestEarlierSequences(t *testing.T) {
	for name, tc := range map[string]struct {
		model   uint64 // added to this model's
		opened  bool
		goesOn  bool
		says    string // the end that is written
		refused bool
	}{
		"of this model":    {0, true, true, "", false},
		"of another model": {1, true, false, "accepted by replicas of another kind", false},
		"without a log":    {0, false, false, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAbroad(t, func(*pb.Identity) {})
			a.d.Earlier = func() uint64 { return 70 } // the test's model is in no files
			a.log = tokenlog.Of(a.d, "attention-1")
			a.settler.log, a.settler.kin.log, a.earlier.log = a.log, a.log, a.log
			id := a.earlierIdentity()
			id.Model += tc.model
			if tc.opened {
				a.opened(id)
			}
			body, err := proto.Marshal(&pb.Sequence{Identity: id, RequestId: "r", PromptIds: []uint32{1, 2}, MaxTokens: 1})
			if err != nil {
				t.Fatal(err)
			}
			got := &arrival{delivered: 1}
			if err = a.checks.read(&bus.Delivery{Data: body, Delivered: 1}, got); err != nil || !isEarlier(got.msg) {
				t.Fatalf("read as %v: %v", got.msg, err)
			}
			err = a.earlier.adopt(t.Context(), got)
			if tc.goesOn {
				if err != nil || got.msg.Accept.GetReplyTo() != "inbox" || got.begun {
					t.Errorf("%v: %v", got.msg, err)
				}
				return
			}
			err = a.settler.unadmitted(t.Context(), err)
			ours := a.ours()
			if (err != nil) != tc.refused || (len(ours) > 0) != (tc.says != "") {
				t.Fatalf("%v: %v", ours, err)
			}
			if tc.says != "" && !strings.Contains(ours[len(ours)-1].GetTerminal().GetError().GetMessage(), tc.says) {
				t.Errorf("it ended by %v", ours[len(ours)-1])
			}
		})
	}
}
