package transfer

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// minibatch is consecutive token rows of a dispatch, with their entries.
type minibatch struct {
	rows, end   int // of the tensor
	first, last int // entries
}

// minibatches shares a dispatch out into parts of so many rows each; the last may have fewer. Places
// ascend, so a row's entries are together. A dispatch without a tensor or entries has none.
func (l *Link) minibatches(d *pb.Dispatch, each int) (all []minibatch) {
	row := -1
	for i, place := range d.Place {
		if i > 0 && l.Shape.Row(place) == l.Shape.Row(d.Place[i-1]) {
			all[len(all)-1].last = i + 1
			continue
		}
		if row++; row%each == 0 {
			all = append(all, minibatch{rows: row, first: i})
		}
		m := &all[len(all)-1]
		m.end, m.last = row+1, i+1
	}
	return all
}

func (m minibatch) bytes(data []byte, stride int) []byte { return data[m.rows*stride : m.end*stride] }

func (m minibatch) of(d *pb.Dispatch) *pb.Dispatch {
	stride := len(d.Tensor.Data) / int(d.Tensor.Rows)
	return m.with(d, m.bytes(d.Tensor.Data, stride))
}

// with is the part of a dispatch with these rows. What is told once in a dispatch is not in it.
func (m minibatch) with(d *pb.Dispatch, rows []byte) *pb.Dispatch {
	return &pb.Dispatch{
		Key: d.Key, Function: d.Function, Place: d.Place[m.first:m.last], Expert: d.Expert[m.first:m.last], Weight: d.Weight[m.first:m.last],
		Awaits: d.Awaits, Kind: d.Kind, Way: d.Way, Prefill: d.Prefill, Decision: d.Decision,
		Tensor: &pb.Tensor{Dtype: d.Tensor.Dtype, Rows: uint32(m.end - m.rows), Cols: d.Tensor.Cols, Data: rows},
	}
}
