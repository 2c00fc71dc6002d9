package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// work is a dispatch on a host whose rows are in objects.
type work struct {
	*Link
	d     *pb.Dispatch
	all   []minibatch
	to    string  // the aggregator's subject
	key   *pb.Key // of partials
	group string
	again bool
	took  *pb.FunctionTime // of all that was computed so far; nil: nothing was
	told  bool             // what is told once in a dispatch is
	sent  int              // minibatches
}

// input is a minibatch that was fetched: its rows, or what had become of them already.
type input struct {
	at      int
	rows    *pb.Dispatch
	outputs *output
	waited  time.Duration
}

type output struct {
	at     int
	name   string
	body   []byte // a Partial of places, tensor and byte_seconds
	sum    Sum
	stored bool             // it is
	took   *pb.FunctionTime // nil: it was not computed here
}

func (l *Link) unpack(to string, d *pb.Dispatch, again bool) (*work, error) {
	all, err := l.checkParcel(d)
	if err != nil {
		return nil, err
	}
	key := proto.CloneOf(d.Key)
	key.Aggregator, key.RowSums = "", false // the partial's subject and places say it
	return &work{Link: l, d: d, all: all, to: to, key: key, group: Group(d.Key), again: again}, nil
}

// fetch gets a minibatch, or what had become of it.
func (w *work) fetch(ctx context.Context, k int) (input, error) {
	piece, m := w.d.Parcel.Pieces[k], w.all[k]
	defer w.Span(ctx, Fetch, w.d.Key, k)()
	if w.again {
		if out := w.find(ctx, k); out != nil {
			return input{at: k, outputs: out}, nil
		}
	}
	began := time.Now()
	data, err := w.await(ctx, k, piece)
	if err != nil {
		return input{}, fmt.Errorf("minibatch %d of %d, object %s: %w", k, len(w.all), piece.Name, err)
	}
	took := time.Since(began)
	w.Observer.Moved(w.d.Parcel.Mode, Fetch, len(data), took)
	part := m.with(w.d, data)
	if k == 0 {
		part.Gate, part.Fates = w.d.Gate, w.d.Fates
	}
	return input{at: k, rows: part, waited: took}, nil
}

// Pauses between looks for a minibatch that has not come.
const firstLook, lastLook = 200 * time.Microsecond, 10 * time.Millisecond

// await gets a piece of rows. A later one than the first may have still to come.
func (w *work) await(ctx context.Context, k int, piece *pb.Piece) ([]byte, error) {
	name, pauses := w.group+"."+piece.Name, pause.Between(firstLook, lastLook)
	for began := time.Now(); ; {
		data, sum, err := w.Objects.Get(ctx, name, int(piece.Size))
		switch {
		case err == nil && (!bytes.Equal(sum[:], piece.Sha256) || len(data) != int(piece.Size)):
			return nil, ErrCorrupt
		case err == nil || k == 0 || !errors.Is(err, ErrMissing) || time.Since(began) > w.Patience:
			return data, err
		}
		if err := pauses.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// find is what became of a minibatch on another host; nil: nothing is there, or nothing usable.
func (w *work) find(ctx context.Context, k int) *output {
	name := outputName(w.d, w.all[k], w.d.Parcel.Pieces[k])
	body, sum, err := w.Objects.Get(ctx, w.group+"."+name, w.mostOutput(w.key))
	if err != nil {
		return nil
	}
	return &output{at: k, name: name, body: body, sum: sum, stored: true}
}

func (l *Link) mostOutput(k *pb.Key) int {
	const beside = 4096
	return int(k.Rows)*l.Shape.TopK*(l.Shape.Hidden*4+2*routingBytes) + beside
}

// outputs takes what a host has computed of a minibatch.
func (w *work) outputs(k int, p *pb.Partial) (*output, error) {
	body, err := proto.Marshal(&pb.Partial{Place: p.Place, Tensor: p.Tensor, ByteSeconds: p.ByteSeconds})
	if err != nil {
		return nil, fmt.Errorf("encoding outputs: %w", err)
	}
	return &output{at: k, name: outputName(w.d, w.all[k], w.d.Parcel.Pieces[k]), body: body, sum: sha256.Sum256(body), took: p.Function}, nil
}

// deliver stores outputs and tells the aggregator. What cannot be stored is in the message.
func (w *work) deliver(ctx context.Context, out *output) error {
	if out.stored {
		return w.send(ctx, out)
	}
	end := w.Span(ctx, Store, w.d.Key, out.at)
	began, mode := time.Now(), w.d.Parcel.Mode
	err := w.put(ctx, w.group+"."+out.name, out.body, out.sum)
	end()
	if err == nil {
		w.Observer.Moved(mode, Store, len(out.body), time.Since(began))
		out.stored = true
		return w.send(ctx, out)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.Observer.FellBack(mode, plan.Direct, why(err))
	return w.send(ctx, out)
}

// send tells the aggregator what became of a minibatch, and names the object if it is stored.
func (w *work) send(ctx context.Context, out *output) error {
	p := &pb.Partial{Key: w.key, Awaits: w.d.Awaits, Decision: w.d.Decision}
	if !w.told {
		p.Gate, p.Fates, w.told = w.d.Gate, w.d.Fates, true
	}
	w.add(out.took)
	if w.sent++; w.sent == len(w.all) {
		p.Function = w.took
	}
	p.Parcel = &pb.Parcel{Mode: w.d.Parcel.Mode, Minibatch: w.d.Parcel.Minibatch}
	if !out.stored {
		if err := fill(p, out.body); err != nil {
			return err
		}
		return w.answer(ctx, w.to, p)
	}
	p.Parcel.Pieces = []*pb.Piece{{Name: out.name, Sha256: out.sum[:], Size: uint32(len(out.body))}}
	if err := w.Sender.Send(ctx, w.to, p); err != nil {
		return fmt.Errorf("publishing a partial: %w", err)
	}
	return nil
}

// add adds the times of one more minibatch up.
func (w *work) add(t *pb.FunctionTime) {
	switch {
	case t == nil:
	case w.took == nil:
		w.took = t
	default:
		w.took.Rows += t.Rows
		w.took.QueueNs, w.took.StallNs = w.took.QueueNs+t.QueueNs, w.took.StallNs+t.StallNs
		w.took.ComputeNs, w.took.TransferNs = w.took.ComputeNs+t.ComputeNs, w.took.TransferNs+t.TransferNs
		w.took.ColdRows = append(w.took.ColdRows, t.ColdRows...)
	}
}

// fill gives a partial what its object has.
func fill(p *pb.Partial, body []byte) error {
	in := &pb.Partial{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, in); err != nil {
		return fmt.Errorf("%w: decoding outputs: %w", wire.ErrMalformed, err)
	}
	p.Place, p.Tensor, p.ByteSeconds = in.Place, in.Tensor, in.ByteSeconds
	return nil
}

func (l *Link) gather(ctx context.Context, p *pb.Partial) (*pb.Partial, error) {
	if err := l.Shape.CheckKey(p.Key); err != nil {
		return nil, err
	}
	n := len(p.Parcel.GetPieces())
	if n == 0 {
		return p, nil // there was no room for an object
	}
	if n > 1 {
		return nil, fmt.Errorf("%w: a partial with outputs in %d objects; they are in one", wire.ErrMalformed, n)
	}
	piece := p.Parcel.Pieces[0]
	if err := checkPiece(piece, l.mostOutput(p.Key)); err != nil {
		return nil, err
	}
	defer l.Span(ctx, Gather, p.Key, 0)()
	began, mode := time.Now(), p.Parcel.Mode
	body, sum, err := l.Objects.Get(ctx, Group(p.Key)+"."+piece.Name, int(piece.Size))
	switch {
	case err != nil:
	case !bytes.Equal(sum[:], piece.Sha256):
		err = ErrCorrupt
	default:
		err = fill(p, body)
	}
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", piece.Name, err)
	}
	l.Observer.Moved(mode, Gather, len(body), time.Since(began))
	return p, nil
}

// Whole gives a dispatch its rows, where they are in objects, for a host that has not the memory to
// compute it as it came.
func (l *Link) Whole(ctx context.Context, d *pb.Dispatch) error {
	if d.GetParcel() == nil {
		return nil
	}
	w, err := l.unpack("", d, false)
	if err != nil {
		return err
	}
	var rows []byte
	for k := range w.all {
		in, err := w.fetch(ctx, k)
		if err != nil {
			return err
		}
		rows = append(rows, in.rows.Tensor.Data...)
	}
	l.Observer.FellBack(d.Parcel.Mode, plan.Direct, "memory")
	d.Tensor.Data, d.Parcel = rows, nil
	return nil
}
