package expert

import (
	"errors"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// Follow lets the metrics show what the host has, until stop is called.
func (r *loadReport) Follow(m telemetry.HostMetrics) (stop func()) {
	stops := []func(){
		m.Functions.Follow(r.Functions.ByPhase), m.Memory.Follow(r.bytes), m.Loads.Follow(r.loading),
		m.GigabyteSeconds.Follow(r.gigabyteSeconds), m.Taken.Follow(r.taken), m.Moved.Follow(r.moved),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (r *loadReport) bytes() map[string]float64 {
	m := r.Device.Memory()
	out := map[string]float64{"used": float64(m.Used)}
	if m.Budget > 0 {
		out["budget"] = float64(m.Budget)
	}
	return out
}

func (r *loadReport) loading() map[string]float64 {
	m := r.Device.Memory()
	return map[string]float64{"waiting": float64(m.Waiting), "running": float64(m.Running)}
}

func (r *loadReport) gigabyteSeconds() map[string]float64 {
	m := r.Device.Metered()
	return map[string]float64{"loading": m.Loading, "kept": m.Kept, "serving": m.Serving}
}

func (r *loadReport) moved() map[string]float64 {
	return map[string]float64{deviceTier: float64(r.Device.Metered().Moved)}
}

func (r *loadReport) taken() map[string]float64 {
	return map[string]float64{deviceTier: r.Device.Metered().Taken}
}

// deviceTier names the one tier that hosts have.
const deviceTier = "device"

// countLoad counts a load that has begun and ended.
func countLoad(m telemetry.HostMetrics, e device.Ended) {
	var refused *device.RefusedError
	switch {
	case errors.As(e.Err, &refused): // it has not begun
	case errors.Is(e.Err, device.ErrCancelled):
		m.Loaded("cancelled", e.Took.Seconds())
	case e.Err != nil:
		m.Loaded("failed", e.Took.Seconds())
	default:
		m.Loaded("warm", e.Took.Seconds())
	}
}
