package cuda

import (
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
	name := names[e.Code]
	if name == "" {
		name = "an error"
	}
	if kind := kinds[e.Code]; kind != nil {
		return fmt.Sprintf("%v: %s answered %s (%d)", kind, e.Call, name, e.Code)
	}
	return fmt.Sprintf("%s answered %s (%d)", e.Call, name, e.Code)
}

// Known says whether the code is of one of the kinds.
func (e *Error) Known() bool { return kinds[e.Code] != nil }

// Is says which kind of error it is.
func (e *Error) Is(target error) bool { return kinds[e.Code] == target }

// Codes of CUresult that are told apart.
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
	codeDeinitialized      = 4
	codeNoDevice           = 100
	codeInvalidDevice      = 101
	codeInvalidImage       = 200
	codeInvalidContext     = 201
	codeInvalidPTX         = 218
	codeNVLink             = 220
	codeJITNotFound        = 221
	codeUnsupportedExec    = 224
	codeContained          = 226
	codeInvalidHandle      = 400
	codeLaunchTimeout      = 702
	codeContextDestroyed   = 709
	codeAssert             = 710
	codeHardwareStack      = 714
	codeIllegalInstruction = 715
	codeMisaligned         = 716
	codeAddressSpace       = 717
	codeInvalidPC          = 718
	codeSystemNotReady     = 802
	codeMismatch           = 803
	codeCaptureUnmatched   = 903
	codeCaptureUnjoined    = 904
	codeCaptureImplicit    = 906
	codeCapturedEvent      = 907
	codeCaptureThread      = 908
)

// kinds are those of codes. What a kernel does wrong, and what breaks on the way to
// the device, ends the context.
var kinds = map[int]error{
	CodeOutOfMemory: ErrMemory,

	CodeNoBinary: ErrImage, codeInvalidImage: ErrImage, codeInvalidPTX: ErrImage, CodeUnsupportedPTX: ErrImage,
	codeJITNotFound: ErrImage, codeUnsupportedExec: ErrImage, CodeNotFound: ErrImage,

	CodeInvalidValue: ErrLaunch, CodeLaunchOutOfMemory: ErrLaunch, codeInvalidHandle: ErrLaunch,

	CodeCaptureUnsupported: ErrGraph, CodeCaptureInvalidated: ErrGraph, codeCaptureUnmatched: ErrGraph, codeCaptureUnjoined: ErrGraph,
	codeCaptureImplicit: ErrGraph, codeCapturedEvent: ErrGraph, codeCaptureThread: ErrGraph,

	codeDeinitialized: ErrLost, CodeDeviceUnavailable: ErrLost, codeNoDevice: ErrLost, codeInvalidDevice: ErrLost,
	codeInvalidContext: ErrLost, CodeECC: ErrLost, codeNVLink: ErrLost, codeContained: ErrLost, CodeIllegalAddress: ErrLost,
	codeLaunchTimeout: ErrLost, codeContextDestroyed: ErrLost, codeAssert: ErrLost, codeHardwareStack: ErrLost,
	codeIllegalInstruction: ErrLost, codeMisaligned: ErrLost, codeAddressSpace: ErrLost, codeInvalidPC: ErrLost,
	CodeLaunchFailed: ErrLost, codeSystemNotReady: ErrLost, CodeUnknown: ErrLost,
}

var names = map[int]string{
	CodeInvalidValue: "CUDA_ERROR_INVALID_VALUE", CodeOutOfMemory: "CUDA_ERROR_OUT_OF_MEMORY",
	codeDeinitialized: "CUDA_ERROR_DEINITIALIZED", CodeDeviceUnavailable: "CUDA_ERROR_DEVICE_UNAVAILABLE",
	codeNoDevice: "CUDA_ERROR_NO_DEVICE", codeInvalidDevice: "CUDA_ERROR_INVALID_DEVICE",
	codeInvalidImage: "CUDA_ERROR_INVALID_IMAGE", codeInvalidContext: "CUDA_ERROR_INVALID_CONTEXT",
	CodeNoBinary: "CUDA_ERROR_NO_BINARY_FOR_GPU", CodeECC: "CUDA_ERROR_ECC_UNCORRECTABLE",
	codeInvalidPTX: "CUDA_ERROR_INVALID_PTX", codeNVLink: "CUDA_ERROR_NVLINK_UNCORRECTABLE",
	codeJITNotFound: "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", CodeUnsupportedPTX: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
	codeContained: "CUDA_ERROR_CONTAINED", codeUnsupportedExec: "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY", codeInvalidHandle: "CUDA_ERROR_INVALID_HANDLE",
	CodeNotFound: "CUDA_ERROR_NOT_FOUND", CodeIllegalAddress: "CUDA_ERROR_ILLEGAL_ADDRESS",
	CodeLaunchOutOfMemory: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", codeLaunchTimeout: "CUDA_ERROR_LAUNCH_TIMEOUT",
	codeContextDestroyed: "CUDA_ERROR_CONTEXT_IS_DESTROYED", codeAssert: "CUDA_ERROR_ASSERT",
	codeHardwareStack: "CUDA_ERROR_HARDWARE_STACK_ERROR", codeIllegalInstruction: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	codeMisaligned: "CUDA_ERROR_MISALIGNED_ADDRESS", codeAddressSpace: "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	codeInvalidPC: "CUDA_ERROR_INVALID_PC", CodeLaunchFailed: "CUDA_ERROR_LAUNCH_FAILED",
	codeSystemNotReady: "CUDA_ERROR_SYSTEM_NOT_READY", codeMismatch: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
	CodeCaptureUnsupported: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", CodeCaptureInvalidated: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	codeCaptureUnmatched: "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", codeCaptureUnjoined: "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	codeCaptureImplicit: "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", codeCapturedEvent: "CUDA_ERROR_CAPTURED_EVENT",
	codeCaptureThread: "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
	CodeUnknown:       "CUDA_ERROR_UNKNOWN",
}
