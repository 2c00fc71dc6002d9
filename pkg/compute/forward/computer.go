package forward

import "github.com/switchyard/switchyard/pkg/compute/kvcache"

// Computer holds a backbone's weights and computes with them: the CPU, or a device.
type Computer interface {
	// Lane returns what one step at a time computes on. It counts its pieces of work,
	// unless p is nil.
	Lane(p *Progress) (Lane, error)
	// Bytes is the memory of the weights that every step reads.
	Bytes() int64
	// NewPool makes pages for keys and values, of at most budget bytes.
	NewPool(shape kvcache.Shape, budget int64) (*kvcache.Pool, error)
}

// Lane takes the rows of one step through the layers, but for what gates and routed
// experts do. Its calls come in the order of the layers: of each Attend, and then
// either Dense, or Shared (of layers that have such an expert) and Combine. An error
// is the end of the step; End follows all the same.
type Lane interface {
	// Begin makes x (R, D) of the rows: what the layers change.
	Begin(rows []Row) error
	// Attend takes x through layer l's attention. It returns the input (R, D) of
	// the layer's experts, which stays as it is until Combine; nil without experts.
	Attend(l int) ([]float32, error)
	// Dense takes x through the network of a layer without experts.
	Dense(l int) error
	// Shared begins to compute the expert that all rows pass.
	Shared(l int) error
	// Block is where the output (R, D) of the routed experts goes, before Combine.
	Block() []float32
	// Combine adds it to x, with that of the shared expert.
	Combine(l int) error
	// End returns when all that was begun is over: pages may go to others then. Of an
	// encoder before a decoder it returns x.
	End() ([]float32, error)
	// Logits are those (…, V) of the first of these rows, one at least, as many as it
	// computes at a time. They are valid until the next call, and the caller's to change.
	Logits(rows []int) ([]float32, error)
}

// DeviceError says that a device has failed with a step's rows, through no fault of
// theirs: they may be computed again, elsewhere if it is lost.
type DeviceError struct {
	Lost bool
	Err  error
}

func (e *DeviceError) Error() string { return e.Err.Error() }

func (e *DeviceError) Unwrap() error { return e.Err }
