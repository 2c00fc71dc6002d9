package queue

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// reader checks sequences of a model of 64 positions at most.
func reader(t testing.TB) *checks {
	t.Helper()
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	return newChecks(Settings{
		Deployment: &deployment.Deployment{
			Model: m, Identity: wire.Identity{Model: 7}, Telemetry: &telemetry.Telemetry{Metrics: telemetry.NewMetrics(prometheus.NewRegistry())},
		},
		Members: newMembers(), MaxModelLen: 64,
	})
}

// Bytes from outside are a sequence that fits this replica, one that is to be refused
// under its own id or given back to replicas of its kind, or poison.
func FuzzSequence(f *testing.F) {
	c := reader(f)
	good := &pb.Sequence{
		RequestId: "r", PromptIds: []uint32{1, 2, 3}, MaxTokens: 4, Sampling: &pb.Sampling{TopP: 1, RepetitionPenalty: 1, Logprobs: -1},
		Identity: &pb.Identity{Version: schemas.Version, Model: 7}, Accept: &pb.Accept{PromptTokens: 3, MaxTokens: 4, Tenant: "acme", Weight: 1},
	}
	large := proto.CloneOf(good)
	large.MaxTokens, large.Accept.MaxTokens = 1<<20, 1<<20
	for _, m := range []*pb.Sequence{good, large, {RequestId: "r"}, {RequestId: "a.b"}, {}} {
		f.Add(encode(f, m))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := &arrival{}
		err := c.read(&bus.Delivery{Data: body}, a)
		var refused *refusedError
		var foreign *foreignError
		switch {
		case errors.As(err, &foreign):
			if id := foreign.seq.GetIdentity(); schemas.CheckRequestID(foreign.seq.RequestId) != nil || c.identity.Check(id.GetVersion(), id.GetModel()) == nil {
				t.Errorf("%q of %v is given back", foreign.seq.RequestId, id)
			}
		case errors.As(err, &refused):
			if schemas.CheckRequestID(refused.seq.RequestId) != nil || refused.code == "" {
				t.Errorf("%q is refused as %q", refused.seq.RequestId, refused.code)
			}
		case err != nil:
			if !errors.Is(err, errUnreadable) {
				t.Errorf("%v has no class", err)
			}
		default:
			checkReadable(t, c, a.msg)
		}
	})
}

// checkReadable reports whether memory and loops that follow a sequence are bounded.
func checkReadable(t *testing.T, c *checks, m *pb.Sequence) {
	t.Helper()
	if err := schemas.CheckRequestID(m.RequestId); err != nil {
		t.Error(err)
	}
	for _, id := range m.PromptIds {
		if int(id) >= c.limits.Vocab {
			t.Errorf("token %d", id)
		}
	}
	if flow := schemas.FlowOf(m.Accept); edge.Positions(m) > 64 || len(m.PromptIds) == 0 || flow.Check() != nil {
		t.Errorf("%d positions, %d ids in the prompt, flow %v", edge.Positions(m), len(m.PromptIds), flow)
	}
}
