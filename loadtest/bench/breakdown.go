package bench

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// breakdown tells what a step's time goes to. Compute is the direct path's
// step and serialising is measured alone; the rest are differences between
// pipelines that differ in one thing, so noise can make a small one negative.
func (b *Bench) breakdown(ctx context.Context, batch, tokens int, r *Result) ([]Part, error) {
	step := map[string]float64{r.Hops: float64(batch) / r.Pipeline}
	for _, hops := range []schemas.Hops{schemas.HopsCore, schemas.HopsUnacked, schemas.HopsAcked} {
		if string(hops) == r.Hops {
			continue
		}
		b.settings.Progress("batch %d: with %s hops…", batch, hops)
		rate, err := b.other(ctx, string(hops), batch, tokens)
		if err != nil {
			return nil, err
		}
		step[string(hops)] = float64(batch) / rate
	}
	compute := float64(batch) / r.Direct
	serialise := b.serialise(batch)
	core := step[string(schemas.HopsCore)]
	return []Part{
		{"compute (the direct path's step)", compute},
		{"serialise (encode and decode all messages)", serialise},
		{"publish, deliver, token log, wait (core hops)", core - compute - serialise},
		{"store (unacked hops - core hops)", step[string(schemas.HopsUnacked)] - core},
		{"acknowledge (acked hops - unacked hops)", step[string(schemas.HopsAcked)] - step[string(schemas.HopsUnacked)]},
	}, nil
}

func (b *Bench) other(ctx context.Context, hops string, batch, tokens int) (float64, error) {
	side, err := b.openPipeline(ctx, hops)
	if err != nil {
		return 0, err
	}
	var rates []float64
	for range b.settings.Rounds {
		t, err := side.decode(ctx, batch, tokens)
		if err != nil {
			_ = side.close() // the first error says more
			return 0, err
		}
		rates = append(rates, t.rate)
	}
	return median(rates), side.close()
}

// serialise is the time a step's messages take to be encoded and decoded:
// hidden, dispatch, partial and block of every layer, for one function a layer.
func (b *Bench) serialise(batch int) float64 {
	const repeats = 50
	d, w := b.settings.Model.Spec.Hidden, tensor.Wire(b.settings.Wire)
	rows := make([]float32, batch*d)
	messages := layerMessages(batch, b.settings.Model.Spec.TopK, tensor.Encode(w, rows, d, nil))
	began := time.Now()
	for range repeats {
		for _, m := range messages {
			roundTrip(m, m.ProtoReflect().New().Interface())
			if err := tensor.Decode(rows, tensor.Encode(w, rows, d, nil), d); err != nil {
				panic(fmt.Sprintf("decoding what was just encoded: %v", err))
			}
		}
	}
	return since(began) / repeats * float64(b.settings.Model.Spec.MoELayers())
}

// layerMessages are those of a layer whose experts are all one function: each has a row for each
// token, as its host adds up what the experts of a row give.
func layerMessages(batch, topK int, rows *pb.Tensor) []proto.Message {
	key := &pb.Key{Owner: "attention-12345678", Epoch: 1 << 60, Rows: uint32(batch), Aggregator: "aggregator-12345678"}
	numbers, weights := make([]uint32, batch*topK), make([]float32, batch*topK)
	return []proto.Message{
		&pb.Hidden{Key: key, Tensor: rows},
		&pb.Dispatch{Key: key, Place: numbers, Expert: numbers, Weight: weights, Tensor: rows},
		&pb.Partial{Key: key, Place: numbers[:batch], Tensor: rows},
		&pb.Block{Key: key, Tensor: rows},
	}
}

func roundTrip(from, to proto.Message) {
	body, err := proto.Marshal(from)
	if err == nil {
		err = proto.Unmarshal(body, to)
	}
	if err != nil {
		panic(fmt.Sprintf("encoding and decoding a message: %v", err))
	}
}
