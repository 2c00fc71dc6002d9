package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Of layers that see all, windows, chunks, latents, an encoder before a decoder, and a
// sequence that becomes a long one.
var preempted = []string{"qwen3_moe", "gpt_oss-mxfp4", "llama4", "deepseek_v3", "bert2bert_moe", "phimoe"}

// A sequence that steps aside writes the log that it writes in ample memory, whatever
// its layers keep.
func TestSameLogAside(t *testing.T) {
	for _, name := range preempted {
		t.Run(name, func(t *testing.T) {
			m := golden(t, name)
			for l := range m.Spec.Layer {
				if s := &m.Spec.Layer[l].Mixer.Rope.Scaling; s.Kind == model.LongRope {
					s.Original = 50
				}
			}
			want, asides := crowd(t, m, 100)
			if asides != 0 {
				t.Fatalf("%d stepped aside in ample memory", asides)
			}
			got, asides := crowd(t, m, 4)
			if asides == 0 {
				t.Error("nobody stepped aside")
			}
			for i := range want {
				if !same(got[i], want[i]) {
					t.Errorf("request %d: %v\nwant %v", i, got[i], want[i])
				}
			}
		})
	}
}

// crowd serves four requests at once in so many pages, and returns their logs and how
// often they stepped aside.
func crowd(t *testing.T, m *model.Model, pages int) (logs [][]*pb.Record, asides int) {
	b := benchOf(t, m, 16)
	shape := kvcache.ShapeOf(&m.Spec)
	shape.Rows = 16
	b.hasPagesOf(shape, pages)
	var all []*Sequence
	for i := range 4 {
		s := b.ask(fmt.Sprint("request", i), 20+i, 75, "logprobs")
		if m.Spec.Task() == model.Answer {
			s.seq.Source, s.seq.PromptIds, s.seq.Score = uint32(20+i), append(s.seq.PromptIds, 1), ""
			s.ids = slices.Clone(s.seq.PromptIds)
		}
		s.isLong = b.workers[0].step.Backbone.Long
		b.add(s)
		all = append(all, s)
	}
	for b.compute() {
	}
	for _, s := range all {
		logs, asides = append(logs, book(s).records), asides+s.asides
	}
	if b.kv.Used() != 0 || len(b.own.order) != 0 {
		t.Errorf("%d pages, %d sequences are left", b.kv.Used(), len(b.own.order))
	}
	return logs, asides
}
