package rerun

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
)

// Settings are what a request is computed again with.
type Settings struct {
	Model  *model.Model
	Pool   *pool.Pool
	Wire   tensor.Wire
	United *united.Set // nil: none
}

// Verdict is what came of it.
type Verdict struct {
	Identical bool `json:"identical"`
	Tokens    int  `json:"tokens"`
	Degraded  int  `json:"degraded"` // slots whose rows another expert computed, or none
	// At is the first token that differs, Logged and Computed what it is.
	At       int    `json:"at,omitempty"`
	Logged   uint32 `json:"logged,omitempty"`
	Computed uint32 `json:"computed,omitempty"`
}

// String is the verdict for people.
func (v *Verdict) String() string {
	if v.Identical {
		return fmt.Sprintf("identical, %d tokens", v.Tokens)
	}
	return fmt.Sprintf("different: token %d of %d is %d in the log, and %d computed again", v.At, v.Tokens, v.Logged, v.Computed)
}

// rowsAtOnce bounds the rows of a step: what a row's result is does not depend on it.
const rowsAtOnce = 256

// Run computes a request again.
func Run(ctx context.Context, s Settings, l *Logged) (*Verdict, error) {
	r := &rerun{Settings: s, l: l, set: s.United}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer r.cpu.Close()
	v := &Verdict{Tokens: len(l.Tokens), Degraded: l.Degraded()}
	tokens, err := r.tokens(ctx)
	if err != nil {
		return nil, err
	}
	for i, want := range l.Tokens {
		if tokens[i] != want {
			v.At, v.Logged, v.Computed = i, want, tokens[i]
			return v, nil
		}
	}
	v.Identical = true
	return v, nil
}

type rerun struct {
	Settings
	l      *Logged
	set    *united.Set
	cpu    *device.CPU
	runner *direct.Runner
	at     map[int]int // of each layer with experts, its place among them
}

func (r *rerun) open(ctx context.Context) error {
	spec := &r.Model.Spec
	r.at = map[int]int{}
	for at, layer := range deployment.MoELayers(r.Model) {
		r.at[layer] = at
	}
	settings := device.Settings{}
	if r.set != nil {
		settings.Beside = r.set
	}
	r.cpu = device.NewCPU(r.Model, r.Pool, settings)
	if err := r.load(ctx); err != nil {
		r.cpu.Close()
		return err
	}
	positions := edge.Positions(r.l.Sequence) + 1
	shape := kvcache.ShapeOf(spec)
	shape.Rows = rowsAtOnce
	var err error
	r.runner, err = direct.New(r.Model, r.Pool, direct.Settings{
		Wire: r.Wire, MaxPositions: positions, KVBytes: int64(shape.Need(positions)) * shape.PageBytes(), Rows: rowsAtOnce,
		On: direct.Parts{Experts: r.cpu}, Redirect: r.redirect,
	})
	if err != nil {
		r.cpu.Close()
	}
	return err
}

// load loads all routed experts, and the united ones of the bundles that stood in.
func (r *rerun) load(ctx context.Context) error {
	if err := device.LoadAll(ctx, r.cpu, r.Model.Spec); err != nil {
		return fmt.Errorf("loading the experts: %w", err)
	}
	seen := map[plan.Bundle]bool{}
	for _, row := range r.l.rows {
		if seen[row.of] || !stands(row.codes) {
			continue
		}
		seen[row.of] = true
		if r.set.Find(row.of.Way, row.of.ID) == nil {
			return fmt.Errorf("united experts of way %d in bundle %016x stood in for others; give their folder with --united", row.of.Way, row.of.ID)
		}
		if err := r.loadWay(ctx, row.of.Way); err != nil {
			return fmt.Errorf("loading united experts: %w", err)
		}
	}
	return nil
}

func (r *rerun) loadWay(ctx context.Context, way int) error {
	for layer := range r.at {
		for g := range plan.Groups(r.Model.Spec.Experts, way) {
			number, ok := r.set.Number(layer, way, g)
			if !ok {
				continue // its experts run themselves
			}
			if err := r.cpu.Load(ctx, forward.ExpertID{Layer: layer, Expert: number}, 0).Wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func stands(codes []wire.FateCode) bool {
	for _, c := range codes {
		if c == wire.FateUnited {
			return true
		}
	}
	return false
}

// redirect is direct.Settings.Redirect: each slot goes where it went.
func (r *rerun) redirect(layer int, _ []float32, routes *forward.Routes) error {
	k, at := routes.K, r.at[layer]
	for i := range routes.Rows() {
		row := r.l.row(r.runner.First() + i)
		if len(row.codes) == 0 {
			continue
		}
		err := wire.FollowFates(row.codes[at*k:(at+1)*k], routes.Expert[i*k:(i+1)*k], routes.Weight[i*k:(i+1)*k], func(e int32) (int32, error) {
			g := r.set.Find(row.of.Way, row.of.ID).Grouping(layer).Group(int(e), max(1, row.of.Way))
			number, ok := r.set.Number(layer, row.of.Way, g)
			if !ok {
				return 0, fmt.Errorf("the log has a united expert of group %d of layer %d, and bundle %016x has none", g, layer, row.of.ID)
			}
			return int32(number), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tokens are as many as the log has, each behind those before it.
func (r *rerun) tokens(ctx context.Context) ([]uint32, error) {
	seq := r.l.Sequence
	if len(r.l.Tokens) == 0 {
		return nil, nil
	}
	s, err := r.runner.AddPrompt(direct.Prompt{IDs: seq.PromptIds, Source: int(seq.Source), Types: seq.TokenTypes}, len(r.l.Tokens), edge.ParamsOf(seq))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if len(seq.Fill) > 0 {
		return r.fill(ctx, s)
	}
	kept, err := r.keep()
	if err != nil {
		return nil, err
	}
	for range r.l.Tokens {
		if err := kept.restrict(&s.Params); err != nil {
			return nil, err
		}
		if err := r.runner.Step(ctx, []*direct.Sequence{s}); err != nil {
			return nil, err
		}
		out := s.Generated()
		kept.read(out[len(out)-1], len(out) == 1)
	}
	return s.Generated(), nil
}

// fill are the tokens that fill a prompt's masks.
func (r *rerun) fill(ctx context.Context, s *direct.Sequence) (tokens []uint32, err error) {
	seq, vocab := r.l.Sequence, r.Model.Spec.Vocab
	logits, err := r.runner.Logits(ctx, s)
	if err != nil {
		return nil, err
	}
	var sampler sampling.Sampler
	for i := range r.l.Tokens {
		if i >= len(seq.Fill) {
			return nil, fmt.Errorf("its log has %d tokens for %d masks", len(r.l.Tokens), len(seq.Fill))
		}
		at := int(seq.Fill[i])
		tokens = append(tokens, sampler.Next(logits[at*vocab:(at+1)*vocab], s.Params, seq.PromptIds, i).ID)
	}
	return tokens, nil
}

// kept is the grammar that the answer keeps to; nil: none.
type kept struct {
	cursor *grammar.Cursor
	text   grammar.Bytes
}

func (r *rerun) keep() (*kept, error) {
	if !edge.Keeps(r.l.Sequence) {
		return nil, nil //nolint:nilnil // there is none
	}
	t, err := tokenizer.Open(r.Model.File)
	if err != nil {
		return nil, fmt.Errorf("loading the tokenizer for the grammar: %w", err)
	}
	c, err := grammar.NewSet(min(r.Model.Spec.Vocab, t.Vocab()), t.AnswerBytes).Begin(edge.SpecOf(r.l.Sequence))
	if err != nil {
		return nil, fmt.Errorf("grammar: %w", err)
	}
	return &kept{c, t.AnswerBytes}, nil
}

// restrict bars the tokens that the grammar does not allow next.
func (k *kept) restrict(p *sampling.Params) error {
	if k == nil {
		return nil
	}
	p.Allowed, p.MayEnd = k.cursor.Mask(), k.cursor.Over()
	if err := k.cursor.Err(); err != nil {
		return fmt.Errorf("grammar: %w", err)
	}
	for _, word := range p.Allowed {
		if word != 0 {
			return nil
		}
	}
	if p.MayEnd {
		return nil
	}
	return errors.New("its log has a token where its grammar allows none")
}

func (k *kept) read(id uint32, first bool) {
	if k != nil {
		k.cursor.Read(k.text(id, first))
	}
}
