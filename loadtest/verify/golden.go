package verify

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/switchyard/switchyard/internal/wholefile"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Golden is what transformers computes on a checkpoint.
type Golden struct {
	Dir                  string  `json:"-"`
	GreedyPrompt         int     `json:"greedy_prompt"`
	SmallestGreedyMargin float64 `json:"smallest_greedy_margin"`

	parts  []goldenPart
	source []uint32 // what an encoder reads before the greedy ids; nil without one
	greedy []uint32 // empty: the model goes on with nothing
	vocab  int
	spread float64 // of logits
}

// goldenPart is one prompt whose scores are known.
type goldenPart struct {
	prompt *pb.Prompt
	hidden []float32 // (source, d) of what an encoder reads before a decoder, or nil
	at     []uint32  // the positions that logits are of, in their order
	logits []float32 // (at, vocab)
}

// maxFacts bounds golden.json, in bytes.
const maxFacts = 1 << 20

// ReadGolden reads golden.json and golden.safetensors in a checkpoint's folder.
func ReadGolden(dir string) (*Golden, error) {
	g := &Golden{Dir: dir}
	facts, err := wholefile.Read(os.DirFS(dir), "golden.json", maxFacts)
	if err != nil {
		return nil, fmt.Errorf("reading the golden facts: %w", err)
	}
	if err := json.Unmarshal(facts, g); err != nil {
		return nil, fmt.Errorf("reading golden.json: %w", err)
	}
	f, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		return nil, fmt.Errorf("opening the golden outputs: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	t := &tensors{f: f}
	g.read(t)
	if t.err != nil {
		return nil, fmt.Errorf("golden.safetensors: %w", t.err)
	}
	return g, nil
}

// read tells the kinds of models by what there is: BERT has segments, BERT2BERT
// ids for its decoder, and what a decoder goes on with has neither.
func (g *Golden) read(t *tensors) {
	ids, logits := t.ints("input_ids"), t.floats("logits", 3)
	if t.err != nil {
		return
	}
	g.vocab, g.spread = logits.shape[2], deviation(logits.data)
	if t.err == nil && t.has("positions") {
		t.positions = t.ints("positions").data
	}
	switch {
	case t.has("decoder_input_ids"):
		g.readAnswered(t, ids, logits)
	case t.has("token_type_ids"):
		types := t.ints("token_type_ids")
		t.alike("token_type_ids", types.shape, "input_ids", ids.shape)
		g.add(t, ids, logits, func(p *goldenPart, i int) { p.prompt.TokenTypeIds = types.row(i) })
	default:
		g.readContinued(t, ids, logits)
	}
}

// readContinued is of a decoder alone.
func (g *Golden) readContinued(t *tensors, ids series[uint32], logits series[float32]) {
	g.add(t, ids, logits, func(*goldenPart, int) {})
	prefix := t.floats("prefix_logits", 3)
	g.readGreedy(t)
	at := t.positionsOf("prefix_logits", prefix.shape, ids.shape[1])
	if t.err == nil {
		begin := ids.row(0)[:at[len(at)-1]+1]
		g.parts = append(g.parts, goldenPart{prompt: &pb.Prompt{InputIds: begin}, at: at, logits: prefix.row(0)})
	}
}

// readAnswered is of an encoder and a decoder.
func (g *Golden) readAnswered(t *tensors, ids series[uint32], logits series[float32]) {
	begin, hidden := t.ints("decoder_input_ids"), t.floats("encoder_output", 3)
	g.readGreedy(t)
	if t.err != nil {
		return
	}
	at := t.allPositions(logits.shape, "decoder_input_ids", begin.shape)
	t.alike("encoder_output", hidden.shape[:2], "input_ids", ids.shape)
	if t.err != nil || ids.shape[0] != begin.shape[0] {
		t.fail("decoder_input_ids %v do not belong to input_ids %v", begin.shape, ids.shape)
		return
	}
	g.source = ids.row(0)
	for i := range ids.shape[0] {
		g.parts = append(g.parts, goldenPart{
			prompt: &pb.Prompt{InputIds: ids.row(i), DecoderInputIds: begin.row(i)}, hidden: hidden.row(i), at: at, logits: logits.row(i),
		})
	}
}

func (g *Golden) readGreedy(t *tensors) {
	g.greedy = t.ints("greedy_ids").data
	if t.err == nil && (g.GreedyPrompt < 1 || g.GreedyPrompt >= len(g.greedy)) {
		t.fail("greedy_prompt %d does not belong to %d greedy ids", g.GreedyPrompt, len(g.greedy))
	}
}

// add takes prompts with their logits.
func (g *Golden) add(t *tensors, ids series[uint32], logits series[float32], more func(p *goldenPart, i int)) {
	at := t.allPositions(logits.shape, "input_ids", ids.shape)
	for i := 0; i < ids.shape[0] && t.err == nil; i++ {
		p := goldenPart{prompt: &pb.Prompt{InputIds: ids.row(i)}, at: at, logits: logits.row(i)}
		more(&p, i)
		g.parts = append(g.parts, p)
	}
}

// tolerance is 2e-3 of the golden logits' spread, and no less than 2e-3.
func (g *Golden) tolerance() float64 { return 2e-3 * max(1, g.spread) }

func deviation(x []float32) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := float64(len(x))
	return math.Sqrt(squares/n - sum/n*sum/n)
}
