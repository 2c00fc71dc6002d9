//go:build cuda

package nvml

import (
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/switchyard/switchyard/kernels/cuda"
)

// Error is what the library answered to a call.
type Error struct {
	Call string
	Code nvml.Return
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s answered %v (%d)", e.Call, e.Code, int(e.Code))
}

// Open finds the GPU at an address on the PCI bus (cuda.Info.PCI).
func Open(pci string) (cuda.Reader, error) { return open(nvml.New(), pci) }

func open(library nvml.Interface, pci string) (cuda.Reader, error) {
	if code := library.Init(); code != nvml.SUCCESS {
		return nil, &Error{"nvmlInit", code}
	}
	d, code := library.DeviceGetHandleByPciBusId(pci)
	if code != nvml.SUCCESS {
		return nil, &Error{"nvmlDeviceGetHandleByPciBusId " + pci, code}
	}
	r := &reader{device: d}
	for _, q := range questions(d) {
		if library.Extensions().LookupSymbol(q.symbol) == nil {
			r.questions = append(r.questions, q)
		}
	}
	r.xids = listen(library, d)
	return r, nil
}

// reader asks one GPU. Calling what an older library lacks would end the process, so
// it asks only what was found.
type reader struct {
	device    nvml.Device
	questions []question

	mu   sync.Mutex    // of xids
	xids nvml.EventSet // nil: none are told
}

// Read asks for all there is.
func (r *reader) Read() (cuda.Facts, error) {
	f := cuda.Facts{Values: map[cuda.FactName]float64{}}
	var first error
	for _, q := range r.questions {
		if err := told(q.symbol, q.ask(f.Values)); err != nil && first == nil {
			first = err
		}
	}
	f.Xids = r.noted()
	if err := f.Fatal(); err != nil {
		return f, err
	}
	return f, first
}

func (r *reader) Energy() (float64, error) {
	for _, q := range r.questions {
		if q.symbol != energySymbol {
			continue
		}
		values := map[cuda.FactName]float64{}
		if err := told(q.symbol, q.ask(values)); err != nil {
			return 0, err
		}
		if joules, says := values[cuda.Energy]; says {
			return joules, nil
		}
	}
	return 0, &Error{energySymbol, nvml.ERROR_NOT_SUPPORTED}
}

// told is nil also for what a GPU does not say, or not to this user.
func told(call string, code nvml.Return) error {
	switch code {
	case nvml.SUCCESS, nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NO_PERMISSION, nvml.ERROR_NO_DATA, nvml.ERROR_NOT_READY, nvml.ERROR_FUNCTION_NOT_FOUND:
		return nil
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return &cuda.LostError{Why: (&Error{call, code}).Error()}
	}
	return &Error{call, code}
}
