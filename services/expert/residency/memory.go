package residency

import (
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// memory is what functions take of a device's memory, in bytes. It has no state of its own.
type memory struct{ device device.Device }

// size is an expert's; 0 if the device does not know it.
func (m memory) size(id forward.ExpertID) int64 {
	n, err := m.device.Size(id)
	if err != nil {
		return 0
	}
	return n
}

// whole is the bytes of a function.
func (m memory) whole(f *Function) (bytes int64) {
	f.eachExpert(func(id forward.ExpertID) { bytes += m.size(id) })
	return bytes
}

// missing is the bytes of a function that the device does not hold.
func (m memory) missing(f *Function) (bytes int64) {
	f.eachExpert(func(id forward.ExpertID) {
		if m.device.State(id).Phase == device.Cold {
			bytes += m.size(id)
		}
	})
	return bytes
}

// absent is 0 for an expert that the device holds, and else 1.
func (m memory) absent(id forward.ExpertID) int {
	if m.device.State(id).Phase == device.Warm {
		return 0
	}
	return 1
}

// short is how many of so many bytes the device does not have free now.
func (m memory) short(bytes int64) int64 {
	now := m.device.Memory()
	return bytes - (now.Budget - now.Used)
}

// bounded says whether the device has a budget at all.
func (m memory) bounded() bool { return m.device.Memory().Budget > 0 }

// holds says whether the device has room for so many bytes more as it is.
func (m memory) holds(bytes int64) bool {
	now := m.device.Memory()
	return now.Budget == 0 || bytes <= now.Budget-now.Used
}

// canHoldEach says whether the device has room for each of a function's experts alone.
func (m memory) canHoldEach(f *Function) bool {
	budget, each := m.device.Memory().Budget, true
	f.eachExpert(func(id forward.ExpertID) { each = each && m.size(id) <= budget })
	return budget == 0 || each
}
