package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// pieceBytes are read at a time and a thread.
const pieceBytes = 1 << 20

// unit writes a tensor as it is, or in groups.
func (w *writer) unit(ctx context.Context, f file, u unit, places map[string]int64) error {
	if !u.Groups {
		return w.copy(ctx, f, u.From, places[u.From.Name])
	}
	defer w.m.Spent(u.From)
	for e := range max(1, u.Experts) {
		ref := u.Ref
		ref.Expert = max(ref.Expert, e)
		t, err := w.m.Whole(ref)
		if err != nil {
			return err
		}
		codes, scales := cpu.GroupBytes(u.K, w.format)
		at := matrixAt{places[u.tensors[0].Name] + int64(e*u.N*codes), places[u.tensors[1].Name] + int64(e*u.N*scales)}
		if err := w.matrix(ctx, f, t, at); err != nil {
			return err
		}
	}
	if len(u.tensors) < 3 {
		return nil
	}
	shape := binary.LittleEndian.AppendUint64(nil, uint64(u.N))
	return w.put(f, binary.LittleEndian.AppendUint64(shape, uint64(u.K)), places[u.tensors[2].Name])
}

func (w *writer) copy(ctx context.Context, f file, t safetensors.Tensor, at int64) error {
	defer w.m.Spent(t)
	piece := make([]byte, min(pieceBytes, len(t.Data)))
	for from := 0; from < len(t.Data); {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := 0
		if err := safetensors.Guarded(func() error { n = copy(piece, t.Data[from:]); return nil }); err != nil {
			return err
		}
		if err := w.put(f, piece[:n], at+int64(from)); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// matrixAt is where a matrix's codes and scales begin in a file.
type matrixAt struct{ codes, scales int64 }

// matrix quantises a matrix (N, K), some rows at a time and a thread.
func (w *writer) matrix(ctx context.Context, f file, t safetensors.Tensor, at matrixAt) error {
	n := t.Shape[0]
	per := min(n, max(1, pieceBytes*n/max(1, len(t.Data))))
	codes, scales := cpu.GroupBytes(t.Shape[1], w.format)
	var next atomic.Int64
	all, ctx := errgroup.WithContext(ctx)
	for range min(w.settings.Threads, (n+per-1)/per) {
		all.Go(func() error {
			room := cpu.Groups{Codes: make([]byte, per*codes), Scales: make([]byte, per*scales)}
			for {
				from := int(next.Add(int64(per))) - per
				if from >= n || ctx.Err() != nil {
					return ctx.Err()
				}
				rows := min(per, n-from)
				g := cpu.Groups{Codes: room.Codes[:rows*codes], Scales: room.Scales[:rows*scales]}
				if err := w.rows(f, g, t, from, at); err != nil {
					return err
				}
			}
		})
	}
	return all.Wait()
}

// rows quantises and writes some of a matrix, from one on.
func (w *writer) rows(f file, g cpu.Groups, t safetensors.Tensor, from int, at matrixAt) error {
	if err := quantiseRows(g, t, from, w.format); err != nil {
		return err
	}
	codes, scales := cpu.GroupBytes(t.Shape[1], w.format)
	if err := w.put(f, g.Codes, at.codes+int64(from*codes)); err != nil {
		return err
	}
	return w.put(f, g.Scales, at.scales+int64(from*scales))
}

// quantiseRows fills g with rows of a tensor (N, K), from row first on.
func quantiseRows(g cpu.Groups, t safetensors.Tensor, first int, format cpu.Format) error {
	size := len(t.Data) / t.Shape[0]
	err := safetensors.Guarded(func() error {
		return g.QuantiseRows(t.Shape[1], format, func(i int, w []float32) error {
			return safetensors.Tensor{DType: t.DType, Shape: t.Shape[1:], Data: t.Data[(first+i)*size:][:size]}.FloatsTo(w)
		})
	})
	if of := (*cpu.OutputError)(nil); errors.As(err, &of) {
		of.Output += first
		return fmt.Errorf("%w: tensor %q: %w", ErrInput, t.Name, err)
	}
	return err
}
