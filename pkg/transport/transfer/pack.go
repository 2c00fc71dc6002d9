package transfer

import (
	"context"
	"crypto/sha256"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// packed is a dispatch whose rows go into objects.
type packed struct {
	d      *pb.Dispatch // as it came
	parcel *pb.Parcel
	all    []minibatch
	rows   []byte // of all minibatches
	stride int
	group  string
}

func (l *Link) pack(to Address, d *pb.Dispatch, p *pb.Parcel) *packed {
	out := &packed{d: d, parcel: p, rows: d.Tensor.Data, stride: len(d.Tensor.Data) / int(d.Tensor.Rows), group: Group(d.Key)}
	out.all = l.minibatches(d, l.each(p, d.Tensor))
	for k, m := range out.all {
		data := m.bytes(out.rows, out.stride)
		sum := sha256.Sum256(data)
		p.Pieces = append(p.Pieces, &pb.Piece{Name: nameOf(to.Function, to.Replica, "i", k, sum), Sha256: sum[:], Size: uint32(len(data))})
	}
	return out
}

// message is what tells of the objects. The dispatch is as it came until then.
func (p *packed) message() *pb.Dispatch {
	t := p.d.Tensor
	d := p.all[0].with(p.d, nil)
	d.Place, d.Expert, d.Weight = p.d.Place, p.d.Expert, p.d.Weight
	d.Gate, d.Fates, d.Parcel = p.d.Gate, p.d.Fates, p.parcel
	d.Tensor = &pb.Tensor{Dtype: t.Dtype, Rows: t.Rows, Cols: t.Cols}
	return d
}

func (p *packed) from(k int) *pb.Dispatch {
	last := p.all[len(p.all)-1]
	rest := minibatch{rows: p.all[k].rows, end: last.end, first: p.all[k].first, last: last.last}
	return rest.of(p.d)
}

func (l *Link) store(ctx context.Context, p *packed, k int) error {
	defer l.Span(ctx, Scatter, p.d.Key, k)()
	began, data := time.Now(), p.all[k].bytes(p.rows, p.stride)
	piece := p.parcel.Pieces[k]
	if err := l.put(ctx, p.group+"."+piece.Name, data, Sum(piece.Sha256)); err != nil {
		return err
	}
	l.Observer.Moved(p.parcel.Mode, Scatter, len(data), time.Since(began))
	return nil
}
