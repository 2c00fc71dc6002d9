package attention

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
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

// reader is a replica that only reads sequences.
func reader(t testing.TB) *Service {
	t.Helper()
	m, err := model.Synthetic("tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	return &Service{
		d:       &deployment.Deployment{Model: m, Identity: wire.Identity{Model: 7}, Logger: slog.New(slog.DiscardHandler)},
		config:  Config{MaxModelLen: 64},
		metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		view:    &members.View{},
	}
}

// Bytes from outside are a sequence that fits this replica, one that is to be refused
// under its own id or given back to replicas of its kind, or poison.
func FuzzSequence(f *testing.F) {
	s := reader(f)
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
		err := s.read(&bus.Delivery{Data: body}, a)
		var refused *refusedError
		var foreign *foreignError
		switch {
		case errors.As(err, &foreign):
			if id := foreign.seq.GetIdentity(); schemas.CheckRequestID(foreign.seq.RequestId) != nil || s.d.Identity.Check(id.GetVersion(), id.GetModel()) == nil {
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
			checkReadable(t, s, a.msg)
		}
	})
}

// checkReadable says whether memory and loops that follow a sequence are bounded.
func checkReadable(t *testing.T, s *Service, m *pb.Sequence) {
	t.Helper()
	if err := schemas.CheckRequestID(m.RequestId); err != nil {
		t.Error(err)
	}
	for _, id := range m.PromptIds {
		if int(id) >= s.d.Model.Spec.Vocab {
			t.Errorf("token %d", id)
		}
	}
	seq := newSequence(m)
	if seq.positions() > s.config.MaxModelLen || seq.prompt() == 0 || seq.flow.Check() != nil {
		t.Errorf("%d positions, %d ids in the prompt, flow %v", seq.positions(), seq.prompt(), seq.flow)
	}
}

// Whatever comes as a block: a layer that waits gets rows, is told of a failure, or
// waits on.
func FuzzBlock(f *testing.F) {
	key := &pb.Key{Version: schemas.Version, Model: 7, Owner: "attention-1", Epoch: 9, Step: 1, Layer: 3, Rows: 2, Microbatch: 1}
	rows := tensor.Encode(tensor.F32, make([]float32, 2*width), width, nil)
	for _, b := range []*pb.Block{
		{Key: key, Tensor: rows}, {Key: key, Error: &pb.Error{Code: "internal", Message: "x"}}, {Key: key, Error: &pb.Error{Code: wire.Elsewhere}}, {Key: key}, {},
	} {
		f.Add(encode(f, b))
	}
	var r *remote
	f.Fuzz(func(t *testing.T, body []byte) {
		b := &pb.Block{}
		if proto.Unmarshal(body, b) != nil {
			return
		}
		if r == nil {
			_, r = newFakeLayer(t, 2)
		}
		r.step, r.layers = 1, r.layers[:0]
		r.prepare(3, make([]float32, 2*width))
		defer r.forget()
		err := r.receive(b)
		var foreign *wire.IdentityError
		if err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &foreign) {
			t.Errorf("%v has no class", err)
		}
		if done := r.missing == 0; done != (len(r.whole) == 1) || done && r.failure == nil && !r.parts[0].arrived {
			t.Errorf("%d parts are missing, %v", r.missing, r.failure)
		}
	})
}
