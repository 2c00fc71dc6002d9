package cuda

import (
	"cmp"
	"errors"
	"fmt"
)

// The kinds of what a driver can say. An *Error is one of them, or none.
var (
	// ErrMemory says that the device has too little memory left.
	ErrMemory = errors.New("the GPU is out of memory")
	// ErrImage says that the kernels in this binary do not fit the device or its driver.
	ErrImage = errors.New("the kernels do not fit this GPU and its driver")
	// ErrLaunch says that a kernel was not started; the device works on.
	ErrLaunch = errors.New("a kernel was not started")
	// ErrGraph says that launches were not made a graph; the device works on.
	ErrGraph = errors.New("launches were not made a graph")
	// ErrLost says that the context is unusable, whatever is done with it. Only a
	// new process can use the device again, if it is still there.
	ErrLost = errors.New("the GPU is lost to this process; start it anew")
)

// Error is what the driver said of a call.
type Error struct {
	Call string // such as cuMemAlloc
	Code int    // a CUresult
}

func (e *Error) Error() string {
	answer := answers[e.Code]
	said := fmt.Sprintf("%s answered %s (%d)", e.Call, cmp.Or(answer.name, "an error"), e.Code)
	if answer.kind != nil {
		return fmt.Sprintf("%v: %s", answer.kind, said)
	}
	return said
}

// Known reports whether the code is of one of the kinds.
func (e *Error) Known() bool { return answers[e.Code].kind != nil }

// Is says which kind of error it is.
func (e *Error) Is(target error) bool { return answers[e.Code].kind == target }

// Codes of CUresult that others tell apart.
const (
	CodeInvalidValue       = 1
	CodeOutOfMemory        = 2
	CodeLaunchOutOfMemory  = 701
	CodeNoBinary           = 209
	CodeUnsupportedPTX     = 222
	CodeIllegalAddress     = 700
	CodeLaunchFailed       = 719
	CodeECC                = 214
	CodeDeviceUnavailable  = 46
	CodeNotFound           = 500
	CodeCaptureUnsupported = 900
	CodeCaptureInvalidated = 901
	CodeUnknown            = 999
)

// answers are codes of CUresult with their names and kinds. What a kernel does wrong, and
// what breaks on the way to the device, ends the context.
var answers = map[int]struct {
	name string
	kind error
}{
	CodeInvalidValue:       {"CUDA_ERROR_INVALID_VALUE", ErrLaunch},
	CodeOutOfMemory:        {"CUDA_ERROR_OUT_OF_MEMORY", ErrMemory},
	4:                      {"CUDA_ERROR_DEINITIALIZED", ErrLost},
	CodeDeviceUnavailable:  {"CUDA_ERROR_DEVICE_UNAVAILABLE", ErrLost},
	100:                    {"CUDA_ERROR_NO_DEVICE", ErrLost},
	101:                    {"CUDA_ERROR_INVALID_DEVICE", ErrLost},
	200:                    {"CUDA_ERROR_INVALID_IMAGE", ErrImage},
	201:                    {"CUDA_ERROR_INVALID_CONTEXT", ErrLost},
	CodeNoBinary:           {"CUDA_ERROR_NO_BINARY_FOR_GPU", ErrImage},
	CodeECC:                {"CUDA_ERROR_ECC_UNCORRECTABLE", ErrLost},
	218:                    {"CUDA_ERROR_INVALID_PTX", ErrImage},
	220:                    {"CUDA_ERROR_NVLINK_UNCORRECTABLE", ErrLost},
	221:                    {"CUDA_ERROR_JIT_COMPILER_NOT_FOUND", ErrImage},
	CodeUnsupportedPTX:     {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", ErrImage},
	224:                    {"CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", ErrImage},
	226:                    {"CUDA_ERROR_CONTAINED", ErrLost},
	400:                    {"CUDA_ERROR_INVALID_HANDLE", ErrLaunch},
	CodeNotFound:           {"CUDA_ERROR_NOT_FOUND", ErrImage},
	CodeIllegalAddress:     {"CUDA_ERROR_ILLEGAL_ADDRESS", ErrLost},
	CodeLaunchOutOfMemory:  {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", ErrLaunch},
	702:                    {"CUDA_ERROR_LAUNCH_TIMEOUT", ErrLost},
	709:                    {"CUDA_ERROR_CONTEXT_IS_DESTROYED", ErrLost},
	710:                    {"CUDA_ERROR_ASSERT", ErrLost},
	714:                    {"CUDA_ERROR_HARDWARE_STACK_ERROR", ErrLost},
	715:                    {"CUDA_ERROR_ILLEGAL_INSTRUCTION", ErrLost},
	716:                    {"CUDA_ERROR_MISALIGNED_ADDRESS", ErrLost},
	717:                    {"CUDA_ERROR_INVALID_ADDRESS_SPACE", ErrLost},
	718:                    {"CUDA_ERROR_INVALID_PC", ErrLost},
	CodeLaunchFailed:       {"CUDA_ERROR_LAUNCH_FAILED", ErrLost},
	802:                    {"CUDA_ERROR_SYSTEM_NOT_READY", ErrLost},
	803:                    {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", nil},
	CodeCaptureUnsupported: {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", ErrGraph},
	CodeCaptureInvalidated: {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", ErrGraph},
	903:                    {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", ErrGraph},
	904:                    {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", ErrGraph},
	906:                    {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", ErrGraph},
	907:                    {"CUDA_ERROR_CAPTURED_EVENT", ErrGraph},
	908:                    {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", ErrGraph},
	CodeUnknown:            {"CUDA_ERROR_UNKNOWN", ErrLost},
}
