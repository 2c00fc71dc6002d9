package forward

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// embeddings are a model's: an encoder before a decoder has one of its own.
type embeddings struct {
	own     embedding
	encoder *embedding // or nil
}

func loadEmbeddings(m *model.Model) (e embeddings, err error) {
	if e.own, err = loadEmbedding(m, m.Spec.Embedding, model.Embed); err != nil || m.Spec.Task() != model.Answer {
		return e, err
	}
	encoder, err := loadEmbedding(m, m.Spec.Encoder, model.EncoderEmbed)
	e.encoder = &encoder
	return e, err
}

func (e *embeddings) fill(p workers, x []float32, rows []Row) {
	if Encodes(rows) {
		e.encoder.fill(p, x, rows)
		return
	}
	e.own.fill(p, x, rows)
}

// embedding is what rows begin with: the sum of what token, position and segment
// have, normalised where the model does so.
type embedding struct {
	tokens    table
	positions []float32 // (positions, D), or nil
	types     []float32 // (segments, D), or nil
	norm      norm
}

// loadEmbedding reads the embedding whose first role is Embed or EncoderEmbed.
func loadEmbedding(m *model.Model, spec model.EmbeddingSpec, first model.Role) (e embedding, err error) {
	at := func(companion model.Role) model.Ref { return model.Ref{Role: first - model.Embed + companion} }
	if e.tokens, err = loadTable(m, at(model.Embed)); err != nil {
		return e, err
	}
	if spec.Positions > 0 {
		if e.positions, err = loadFloats(m, at(model.EmbedPositions)); err != nil {
			return e, err
		}
	}
	if spec.Types > 0 {
		if e.types, err = loadFloats(m, at(model.EmbedTypes)); err != nil {
			return e, err
		}
	}
	e.norm, err = loadNorm(m, spec.Norm, at(model.EmbedNorm))
	return e, err
}

// fill makes x (R, D) of rows.
func (e *embedding) fill(p workers, x []float32, rows []Row) {
	d := e.tokens.d
	if p.parts(len(rows)*d) > 1 {
		eachRowBy(p, safetensors.Shared(p.run), len(rows), d, func(from, to int) { e.fillRows(x, rows, from, to) })
	} else {
		e.fillRows(x, rows, 0, len(rows)) // without what sharing allocates
	}
	e.norm.apply(p, x, x, len(rows))
}

func (e *embedding) fillRows(x []float32, rows []Row, from, to int) {
	for i := from; i < to; i++ {
		e.fillRow(x[i*e.tokens.d:(i+1)*e.tokens.d], &rows[i])
	}
}

// fillRow makes x (D) of a row.
func (e *embedding) fillRow(x []float32, r *Row) {
	d := len(x)
	e.tokens.row(x, r.ID)
	if e.positions != nil {
		cpu.Add(x, e.positions[r.Position*d:(r.Position+1)*d])
	}
	if e.types != nil {
		cpu.Add(x, e.types[int(r.Type)*d:(int(r.Type)+1)*d])
	}
}

// table looks rows up in the checkpoint itself, without a copy where it is bf16 or blocks.
type table struct {
	d      int
	raw    []byte
	blocks *model.Tensor // or nil
	floats []float32
}

func loadTable(m *model.Model, ref model.Ref) (table, error) {
	e := table{d: m.Spec.Hidden}
	t, err := m.Tensor(ref)
	if err != nil {
		return e, fmt.Errorf("loading weights: %w", err)
	}
	if t.DType == safetensors.BF16 {
		e.raw = t.Data
		return e, nil
	}
	if elements, _ := t.DType.Block(); elements > 1 {
		e.blocks = &t
		return e, t.CheckBlocks()
	}
	e.floats, err = m.Floats(ref)
	return e, err
}

func (e table) row(dst []float32, id uint32) {
	at := int(id) * e.d
	if e.raw != nil {
		cpu.FromBF16(dst, e.raw[at*2:(at+e.d)*2])
		return
	}
	if e.blocks != nil {
		e.blocks.Row(dst, int(id))
		return
	}
	copy(dst, e.floats[at:at+e.d])
}
