// Package verify compares a checkpoint, run through the message pipeline, with
// outputs of Hugging Face transformers.
package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/cluster/asker"
)

// Verdict is the result for one checkpoint. Who does not judge has a Pass, but of a Copy.
type Verdict struct {
	Dir         string  `json:"dir"`
	Pass        bool    `json:"pass"`
	Judged      bool    `json:"judged"`
	MaxAbsDiff  float64 `json:"max_abs_diff"`
	Tolerance   float64 `json:"tolerance"`
	GreedyEqual bool    `json:"greedy_equal"`
	// GreedyCompared is how many ids count: up to the first near tie.
	GreedyCompared int    `json:"greedy_compared"`
	Messages       uint64 `json:"messages"`
	// RopeCast says that rotary frequencies were rounded to bf16, as in a model
	// that was cast to it; the exact ones did not give the golden outputs.
	RopeCast bool `json:"rope_cast"`
	// Copy says that nothing was judged, and nothing passed: the checkpoint is a copy by quantise, which differs from the
	// outputs beside it, since those are of the model that it was made of.
	Copy bool `json:"copy"`
}

// String is the verdict for people.
func (v *Verdict) String() string {
	word := map[bool]string{true: "pass", false: "FAIL"}[v.Pass]
	switch {
	case v.Copy:
		word = "NOT JUDGED"
	case !v.Judged:
		word = "seen"
	}
	text := fmt.Sprintf("%s  %s  logits differ by at most %.3g (tolerance %.3g), greedy ids equal: %v (%d compared), %d messages",
		word, v.Dir, v.MaxAbsDiff, v.Tolerance, v.GreedyEqual, v.GreedyCompared, v.Messages)
	if v.RopeCast {
		text += "; with rotary frequencies rounded to bf16, as the golden outputs have them"
	}
	if v.Copy {
		text += "; it is a copy in codes by quantise, and these outputs are of the model that it was made of: verify that one, and compare perplexities by switchyard eval"
	}
	return text
}

// Compare asks a pipeline that is ready what the golden file has the answers
// to. A difference counts against the checkpoint if it is judged.
func Compare(ctx context.Context, y *cluster.Cluster, g *Golden, judged bool) (*Verdict, error) {
	c, stop, err := y.Client(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	q := &comparer{&asker.Asker{Client: c, Vocab: y.Settings.Node.Shared.Model.Spec.Vocab}}
	v := &Verdict{Dir: g.Dir, Judged: judged, Tolerance: g.tolerance()}
	if err := q.compareLogits(ctx, g, v); err != nil {
		return nil, err
	}
	if err := q.compareGreedy(ctx, g, v); err != nil {
		return nil, err
	}
	v.Messages = y.Messages()
	v.Pass = !v.Judged || v.MaxAbsDiff <= v.Tolerance && v.GreedyEqual
	if !v.Pass && y.Settings.Node.Shared.Model.IsCopy() {
		v.Judged, v.Copy = false, true
	}
	return v, nil
}

// comparer compares what a pipeline answers with golden outputs.
type comparer struct{ *asker.Asker }

func (q *comparer) compareLogits(ctx context.Context, g *Golden, v *Verdict) error {
	for _, part := range g.parts {
		hidden, logits, err := q.Scores(ctx, part.prompt, len(part.prompt.InputIds)+len(part.prompt.DecoderInputIds))
		if err != nil {
			return err
		}
		if logits, err = part.pick(logits, g.vocab); err != nil {
			return err
		}
		if err := v.differ("logits", logits, part.logits); err != nil {
			return err
		}
		if err := v.differ("encoder_output", hidden, part.hidden); err != nil {
			return err
		}
	}
	return nil
}

// pick takes from the logits of all positions those at the part's.
func (p *goldenPart) pick(logits []float32, vocab int) ([]float32, error) {
	n := len(p.prompt.InputIds)
	if decoded := len(p.prompt.DecoderInputIds); decoded > 0 {
		n = decoded
	}
	if len(logits) != n*vocab {
		return nil, fmt.Errorf("golden logits of %d positions have %d elements each, the model makes %d in all", n, vocab, len(logits))
	}
	out := make([]float32, 0, len(p.at)*vocab)
	for _, at := range p.at {
		out = append(out, logits[int(at)*vocab:][:vocab]...)
	}
	return out, nil
}

// differ takes in how far numbers are from the golden ones.
func (v *Verdict) differ(what string, got, want []float32) error {
	if len(got) != len(want) {
		return fmt.Errorf("golden %s have %d elements, the model makes %d", what, len(want), len(got))
	}
	for i := range got {
		d := math.Abs(float64(got[i]) - float64(want[i]))
		if math.IsNaN(d) {
			d = math.MaxFloat64
		}
		v.MaxAbsDiff = min(max(v.MaxAbsDiff, d), math.MaxFloat64) // JSON has neither NaN nor infinity
	}
	return nil
}

// compareGreedy compares the ids that greedy decoding chooses. A model that only
// fills has none.
func (q *comparer) compareGreedy(ctx context.Context, g *Golden, v *Verdict) error {
	if len(g.greedy) == 0 {
		v.GreedyEqual = true
		return nil
	}
	want := g.greedy[g.GreedyPrompt:]
	n := int32(len(want))
	p := g.greedyPrompt(g.GreedyPrompt)
	p.MaxTokens = &n
	chunks, err := q.Ask(ctx, p)
	if err != nil {
		return err
	}
	var got []uint32
	for _, c := range chunks {
		got = append(got, c.TokenIds...)
	}
	if v.GreedyCompared, err = q.decided(ctx, g); err != nil {
		return err
	}
	v.GreedyEqual = len(got) == len(want) && slices.Equal(got[:v.GreedyCompared], want[:v.GreedyCompared])
	return nil
}

// greedyPrompt is the first n greedy ids as a prompt, behind what an encoder reads.
// One id alone is what a decoder begins with by itself.
func (g *Golden) greedyPrompt(n int) *pb.Prompt {
	switch {
	case g.source == nil:
		return &pb.Prompt{InputIds: g.greedy[:n]}
	case n == 1:
		return &pb.Prompt{InputIds: g.source}
	}
	return &pb.Prompt{InputIds: g.source, DecoderInputIds: g.greedy[:n]}
}

// nearTie is the margin of the two best logits under which either may win.
const nearTie = 1e-3

// decided is how many of the greedy ids come before the first near tie.
func (q *comparer) decided(ctx context.Context, g *Golden) (int, error) {
	n := len(g.greedy) - g.GreedyPrompt
	if g.SmallestGreedyMargin >= nearTie {
		return n, nil
	}
	_, logits, err := q.Scores(ctx, g.greedyPrompt(len(g.greedy)), len(g.source)+len(g.greedy))
	if err != nil {
		return 0, err
	}
	for i := range n {
		row := logits[(g.GreedyPrompt+i-1)*q.Vocab:][:q.Vocab]
		if margin(row) < nearTie {
			return i, nil
		}
	}
	return n, nil
}

// margin is how far the best logit is above the second.
func margin(row []float32) float32 {
	first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for _, x := range row {
		if x > first {
			first, second = x, first
		} else if x > second {
			second = x
		}
	}
	return first - second
}
