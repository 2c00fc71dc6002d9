package device_test

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// A budget holds as many packed experts as their packed bytes allow.
func TestPackedExperts(t *testing.T) {
	p := pool.New(1)
	t.Cleanup(p.Close)
	fp8, _ := modeltest.FP8(t, goldens.Dir("mixtral"))
	for _, tt := range []struct {
		name, dir, plain string
		share            float64 // of what bf16 takes, at most
	}{
		{"mxfp4", goldens.Dir("gpt_oss-mxfp4"), goldens.Dir("gpt_oss"), 0.3},
		{"fp8", fp8, goldens.Dir("mixtral"), 0.6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			size := func(dir string) (*model.Model, int64) {
				m, err := model.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = m.Close() })
				n, err := forward.ExpertBytes(m, forward.ExpertID{})
				if err != nil {
					t.Fatal(err)
				}
				return m, n
			}
			m, packed := size(tt.dir)
			if _, plain := size(tt.plain); float64(packed) > tt.share*float64(plain) {
				t.Errorf("%d bytes, %d in bf16", packed, plain)
			}
			const fit = 3
			d := device.NewCPU(m, p, device.Settings{Budget: fit*packed + packed - 1})
			defer d.Close()
			for e := range fit {
				if err := d.Load(t.Context(), forward.ExpertID{Expert: e}, 0).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var refused *device.RefusedError
			if err := d.Load(t.Context(), forward.ExpertID{Expert: fit}, 0).Err(); !errors.As(err, &refused) || refused.Need != packed {
				t.Errorf("one expert too many: %v", err)
			}
			if used := d.Memory().Used; used != fit*packed {
				t.Errorf("%d bytes are used by %d experts of %d", used, fit, packed)
			}
		})
	}
}
