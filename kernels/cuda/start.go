package cuda

import "fmt"

// NoDriverError says that this machine has no CUDA driver that answers.
type NoDriverError struct {
	// Why is the loader's or the driver's own word.
	Why string
}

func (e *NoDriverError) Error() string {
	return fmt.Sprintf("no CUDA driver works here (%s): install NVIDIA's driver, or compute on --device cpu", e.Why)
}

// MinDriver is the oldest version of CUDA that a driver must speak: that of the
// first driver (525) which loads images of CUDA 12.
const MinDriver = 12000

// OldDriverError says that the driver is older than the kernels.
type OldDriverError struct{ Have, Need int }

func (e *OldDriverError) Error() string {
	return fmt.Sprintf("the CUDA driver speaks CUDA %s and the kernels need %s: install a newer NVIDIA driver, or compute on --device cpu",
		version(e.Have), version(e.Need))
}

func version(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// IndexError says that there is no such device.
type IndexError struct{ Index, Count int }

func (e *IndexError) Error() string {
	if e.Count == 0 {
		return "the CUDA driver shows no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES, or compute on --device cpu"
	}
	return fmt.Sprintf("there is no GPU %d: the CUDA driver shows %d, from cuda:0 to cuda:%d", e.Index, e.Count, e.Count-1)
}

// MinArch is the oldest architecture that the kernels run on.
var MinArch = Arch{8, 0}

// ArchError says that no image of the kernels runs on a device.
type ArchError struct {
	Device string
	Have   Arch
	// Images are those that there are.
	Images []string
}

func (e *ArchError) Error() string {
	return fmt.Sprintf("%s is %v, and the kernels are for %v and later (%v): compute on --device cpu", e.Device, e.Have, MinArch, e.Images)
}

// SharedError says that a block of the device has too little shared memory for any of
// the kernels that would do.
type SharedError struct {
	Device     string
	Need, Have int // bytes
}

func (e *SharedError) Error() string {
	return fmt.Sprintf("%s has %d bytes of shared memory a block, and the kernels need %d: compute on --device cpu", e.Device, e.Have, e.Need)
}

// MemoryError says that a device has too little memory for what is wanted.
type MemoryError struct {
	Device, What string
	// Need is what is wanted, Free what no process has, Total what there is.
	Need, Free, Total int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("%s needs %d bytes of GPU memory, and of the %d bytes of %s %d are free: lower --gpu-memory, or end what else uses the GPU",
		e.What, e.Need, e.Total, e.Device, e.Free)
}

// Is makes it ErrMemory.
func (e *MemoryError) Is(target error) bool { return target == ErrMemory }
