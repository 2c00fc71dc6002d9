//go:build cuda

package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// eventSymbols are what errors of the driver are heard by.
var eventSymbols = []string{"nvmlEventSetCreate", "nvmlDeviceRegisterEvents", "nvmlEventSetWait_v2"}

// listen returns nil where the library, the GPU or the system does not tell of errors.
func listen(library nvml.Interface, d nvml.Device) nvml.EventSet {
	for _, symbol := range eventSymbols {
		if library.Extensions().LookupSymbol(symbol) != nil {
			return nil
		}
	}
	set, code := library.EventSetCreate()
	if code != nvml.SUCCESS || d.RegisterEvents(nvml.EventTypeXidCriticalError, set) != nvml.SUCCESS {
		return nil
	}
	return set
}

// mostAtOnce bounds what is taken in at a time; the rest comes with the next Read.
const mostAtOnce = 32

// noted returns the errors since the last time.
func (r *reader) noted() (xids []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.xids != nil && len(xids) < mostAtOnce {
		event, code := r.xids.Wait(0)
		if code != nvml.SUCCESS {
			break // there is none now
		}
		if event.EventType == nvml.EventTypeXidCriticalError {
			xids = append(xids, event.EventData)
		}
	}
	return xids
}
