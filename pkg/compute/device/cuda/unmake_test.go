package cuda

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// miser is a driver that gives so many streams, events and pinned buffers, and then fails.
type miser struct {
	*fake.Device
	gives int
	fail  func() error // once
}

func (d *miser) give() error {
	d.gives--
	if d.gives == -1 {
		return d.fail()
	}
	return nil
}

func (d *miser) NewStream() (cuda.Stream, error) {
	if err := d.give(); err != nil {
		return nil, err
	}
	return d.Device.NewStream()
}

func (d *miser) NewEvent() (cuda.Event, error) {
	if err := d.give(); err != nil {
		return nil, err
	}
	return d.Device.NewEvent()
}

func (d *miser) Pin(bytes int64) ([]byte, error) {
	if err := d.give(); err != nil {
		return nil, err
	}
	return d.Device.Pin(bytes)
}

// left is what a fake has not been given back.
func left(gpu *fake.Device) string {
	bytes, pinned, streams := gpu.Left()
	return fmt.Sprintf("%d bytes, %d pinned ones and %d streams", bytes, pinned, streams)
}

// Whatever fails while lanes and ways are made, all of it is given back, and of a GPU that is
// lost nothing is asked any more.
func TestHalfMade(t *testing.T) {
	m, random, p := modeltest.Golden(t, "mixtral"), modeltest.Tiny(t), pool.New(1)
	t.Cleanup(p.Close)
	for name, open := range map[string]func(cuda.Driver) (interface{ Close() }, error){
		"experts": func(d cuda.Driver) (interface{ Close() }, error) { return Open(m, d, images, Settings{Parts: 2}) },
		"attention": func(d cuda.Driver) (interface{ Close() }, error) {
			return OpenBackbone(t.Context(), m, p, d, images, backboneSettings(2))
		},
		"random experts": func(d cuda.Driver) (interface{ Close() }, error) {
			return Open(random, d, images, Settings{Parts: 2})
		},
		"random attention": func(d cuda.Driver) (interface{ Close() }, error) {
			return OpenBackbone(t.Context(), random, p, d, images, backboneSettings(2))
		},
		"gates": func(d cuda.Driver) (interface{ Close() }, error) { return OpenGates(t.Context(), m, d, images, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, lost := range []bool{false, true} {
				gives := 0
				for ; halfMade(t, gives, lost, open); gives++ {
				}
				if gives < 4 {
					t.Errorf("only %d things were asked for", gives)
				}
			}
		})
	}
}

// halfMade opens on a GPU that gives so much, and reports whether that was too little.
func halfMade(t *testing.T, gives int, lost bool, open func(cuda.Driver) (interface{ Close() }, error)) bool {
	t.Helper()
	kernels := fake.Backbone()
	maps.Copy(kernels, fake.Gates())
	gpu := fake.New(fake.Settings{Kernels: kernels})
	defer gpu.Close() //nolint:errcheck // says only that it is closed
	want, why := left(gpu), errors.New("no more")
	on := &miser{Device: gpu, gives: gives, fail: func() error {
		if lost {
			gpu.Faults.Lose(cuda.CodeECC)
			want, why = left(gpu), cuda.ErrLost
			return &cuda.Error{Call: "cuMemHostAlloc", Code: cuda.CodeECC}
		}
		return why
	}}
	d, err := open(on)
	if err == nil {
		d.Close()
		return false
	}
	if !errors.Is(err, why) {
		t.Fatalf("after %d: %v", gives, err)
	}
	if got := left(gpu); got != want {
		t.Errorf("lost %v after %d: %s are left, want %s", lost, gives, got, want)
	}
	return true
}
