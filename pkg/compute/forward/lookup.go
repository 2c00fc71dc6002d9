package forward

import (
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// Embeddings are what rows begin with, looked up in this process's memory for devices.
type Embeddings struct {
	p *pool.Pool
	e embeddings
}

// LoadEmbeddings reads a model's.
func LoadEmbeddings(m *model.Model, p *pool.Pool) (*Embeddings, error) {
	e, err := loadEmbeddings(m)
	return &Embeddings{p, e}, err
}

// Fill makes x (R, D) of a step's rows.
func (e *Embeddings) Fill(x []float32, rows []Row) { e.e.fill(workers{Pool: e.p}, x, rows) }

// Rotary is a rotary embedding whose angles a device is told.
type Rotary struct{ r *rope }

// NewRotary prepares for so many positions.
func NewRotary(s model.RopeSpec, positions int) (*Rotary, error) {
	r, err := newRope(s, positions)
	return &Rotary{r}, err
}

// Angles returns the cosines and sines (Dim/2) of a row's position.
func (r *Rotary) Angles(row *Row) (cos, sin []float32) { return r.r.at(row) }
