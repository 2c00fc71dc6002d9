package cuda

// Lose ends the device as if its driver had said so: the GPU's own word is that it is
// gone. err is a cuda.ErrLost.
func (d *Device) Lose(err error) { _ = d.health.judge(err) } // it is what was given
