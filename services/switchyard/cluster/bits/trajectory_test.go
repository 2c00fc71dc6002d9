package bits

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testtrajectory"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/asker"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
)

// TestTrajectories rebuilds the way of every token of seeded requests through all
// layers, from what can be seen on core NATS: its rows have the bits that direct
// calls give.
func TestTrajectories(t *testing.T) {
	for i, hops := range []schemas.Hops{schemas.HopsUnacked, schemas.HopsCore, schemas.HopsAcked} {
		dir, of := models[i], []tensor.Wire{tensor.BF16, tensor.BF16, tensor.F32}[i]
		t.Run(string(hops), func(t *testing.T) {
			t.Parallel()
			m := clustertest.Open(t, dir)
			y := clustertest.Start(t, m, clustertest.Joined(of, hops), clustertest.Context(compared.Positions), eachRowOnce)
			w, q := watch(t, y.Conn(t).NATS(), y.Settings.Node.Names().Subjects, m), compared.Asker(y)
			for id, tokens := range followed(t, q) {
				checkWay(t, id, tokens, w.follow(t, id, len(tokens)), directRows(t, dir, of, tokens))
			}
		})
	}
}

// eachRowOnce has no row of a rejected draft, and none that is spared.
func eachRowOnce(s *cluster.Settings) {
	s.Services.Attention.Speculate, s.Services.Attention.PrefixCache = 0, false
}

// followed asks for some answers at once, and returns the tokens that have rows:
// all but each request's last.
func followed(t *testing.T, q *asker.Asker) map[string][]uint32 {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	out, errs := map[string][]uint32{}, make([]error, compared.AtOnce)
	for i := range compared.AtOnce {
		all.Go(func() {
			n, temperature, seed := int32(compared.AnswerTokens), 0.9, uint32(i)
			prompt := &pb.Prompt{RequestId: "way-" + strconv.Itoa(i), InputIds: compared.PromptIDs(i, compared.PromptTokens, q.Vocab), MaxTokens: &n, Temperature: &temperature, Seed: &seed}
			chunks, err := q.Ask(t.Context(), prompt)
			tokens := slices.Clone(prompt.InputIds)
			for _, c := range chunks {
				tokens = append(tokens, c.TokenIds...)
			}
			mu.Lock()
			out[prompt.RequestId], errs[i] = tokens[:len(tokens)-1], err
			mu.Unlock()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}

// watchman listens to a pipeline's steps and rows, and follows their tokens.
type watchman struct {
	names    schemas.Subjects
	messages chan *nats.Msg
	reader   *testtrajectory.Reader
	seen     map[string][]testtrajectory.Token
}

func watch(t *testing.T, nc *nats.Conn, names schemas.Subjects, m *model.Model) *watchman {
	t.Helper()
	w := &watchman{names: names, messages: make(chan *nats.Msg, 1<<14), reader: reader(t, m), seen: map[string][]testtrajectory.Token{}}
	for _, subject := range []string{names.Step(), names.AnyHidden(), names.AnyGate()} {
		if _, err := nc.ChanSubscribe(subject, w.messages); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return w
}

func reader(t *testing.T, m *model.Model) *testtrajectory.Reader {
	t.Helper()
	hash, err := strconv.ParseUint(m.Hash[:16], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	shape := &wire.Shape{
		Identity: wire.Identity{Model: hash}, Hidden: m.Spec.Hidden, Experts: m.Spec.Experts, TopK: m.Spec.TopK,
		MaxRows: func() int { return tensor.MaxRows },
	}
	for _, l := range m.Spec.Layer {
		shape.MoE = append(shape.MoE, l.MoE)
	}
	return testtrajectory.New(shape, testtrajectory.Bounds{Vocab: m.Spec.Vocab, Positions: m.Spec.MaxPositions, Rows: 256, Bytes: 64 << 20})
}

// follow takes messages until so many tokens of a request are there.
func (w *watchman) follow(t *testing.T, request string, tokens int) []testtrajectory.Token {
	t.Helper()
	for limit := time.After(testkit.Patience); len(w.seen[request]) < tokens; {
		select {
		case m := <-w.messages:
			w.take(t, m)
		case <-limit:
			t.Fatalf("%s: %d of %d tokens were followed, %d steps dropped", request, len(w.seen[request]), tokens, w.reader.Dropped())
		}
	}
	return w.seen[request]
}

func (w *watchman) take(t *testing.T, m *nats.Msg) {
	t.Helper()
	read := w.reader.Hidden
	if m.Subject == w.names.Step() {
		read = w.reader.Step
	}
	tokens, err := read(m.Data)
	if err != nil {
		t.Errorf("%s: %v", m.Subject, err)
	}
	for _, k := range tokens {
		w.seen[k.Sequence] = append(w.seen[k.Sequence], k)
	}
}

// checkWay wants each token once, in order, with its phase, and its rows (tokens, D)
// at every layer that has some.
func checkWay(t *testing.T, request string, ids []uint32, way []testtrajectory.Token, rows [][]float32) {
	t.Helper()
	if len(way) != len(ids) {
		t.Fatalf("%s: %d tokens were followed, want %d", request, len(way), len(ids))
	}
	for pos, k := range way {
		phase := pb.Phase_PHASE_DECODE
		if pos < compared.PromptTokens {
			phase = pb.Phase_PHASE_PREFILL
		}
		if k.Position != pos || k.ID != ids[pos] || k.Phase != phase || len(k.Rows) != len(rows) {
			t.Fatalf("%s: at position %d is token %d of position %d in %v, with %d layers", request, pos, k.ID, k.Position, k.Phase, len(k.Rows))
		}
		for l, want := range rows {
			d := len(want) / len(ids)
			if at, a, b := compared.FirstDifference(k.Rows[l], want[pos*d:(pos+1)*d]); at >= 0 {
				t.Fatalf("%s: position %d, layer %d: element %d is %v, %v by direct calls", request, pos, l, at, a, b)
			}
		}
	}
}

// recorder keeps the rows that enter each layer's gate, as they are sent.
type recorder struct {
	forward.MoE
	wire tensor.Wire
	rows [][]float32 // by layer
}

func (r *recorder) Start(ctx context.Context, layer int, x []float32) (forward.Pending, error) {
	r.rows[layer] = slices.Clone(x)
	r.wire.Round(r.rows[layer])
	return r.MoE.Start(ctx, layer, x)
}

// directRows is each layer's hidden rows (tokens, D) by direct calls; none where
// there are no experts.
func directRows(t *testing.T, dir string, of tensor.Wire, ids []uint32) [][]float32 {
	t.Helper()
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New(1)
	defer func() { p.Close(); _ = m.Close() }() // it is only read
	backbone, err := forward.LoadBackbone(m, p, compared.Positions)
	if err != nil {
		t.Fatal(err)
	}
	router, err := forward.LoadRouter(m, p)
	if err != nil {
		t.Fatal(err)
	}
	cpu := device.NewCPU(m, p, device.Settings{})
	defer cpu.Close()
	if err := device.LoadAll(t.Context(), cpu, m.Spec); err != nil {
		t.Fatal(err)
	}
	r := &recorder{MoE: &forward.Local{Gates: router, Experts: cpu, Wire: of, Hidden: m.Spec.Hidden, Pool: p}, wire: of, rows: make([][]float32, m.Spec.Layers)}
	step := forward.Step{Backbone: backbone, MoE: r}
	if err := step.Run(t.Context(), rowsAt(t, backbone, ids)); err != nil {
		t.Fatal(err)
	}
	return r.rows
}

func rowsAt(t *testing.T, backbone *forward.Backbone, ids []uint32) (rows []forward.Row) {
	t.Helper()
	kv, err := backbone.NewPool(0, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	table, err := kv.Reserve(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	for pos, id := range ids {
		rows = append(rows, forward.Row{Table: table, ID: id, Position: pos})
	}
	return rows
}
