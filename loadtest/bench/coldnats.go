package bench

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// coldChunk is the size of the store's chunks.
const coldChunk = 512 << 10

// send has as many bytes as an expert has go from a connection to the server, and from there to a subscription, in
// messages as large as the store's chunks.
func (y *coldYard) send(ctx context.Context) (_ []float64, err error) {
	arrived := make(chan int, 64)
	sub, err := y.conn.Subscribe("cold", "", func(m *nats.Msg) { arrived <- len(m.Data) })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	from := y.bytes()
	begin := time.Now()
	for chunk := range slices.Chunk(from, coldChunk) {
		if err := y.conn.SendMsg(&nats.Msg{Subject: "cold", Data: chunk}); err != nil {
			return nil, err
		}
	}
	for left := len(from); left > 0; {
		select {
		case n := <-arrived:
			left -= n
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return secondsSince(begin), nil
}

// get reads an expert's object as nats.go's client does, into memory that was written before.
func (y *coldYard) get(ctx context.Context) ([]float64, error) {
	id := y.next()
	begin := time.Now()
	object, err := y.objects.Get(ctx, model.Piece{Kind: model.ExpertPiece, Layer: id.Layer, Expert: id.Expert}.String())
	if err != nil {
		return nil, err
	}
	_, err = io.ReadFull(object, y.to)
	if err == nil {
		_, err = object.Read(make([]byte, 1)) // it has checked the digest then
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return secondsSince(begin), errors.Join(err, object.Close())
}
