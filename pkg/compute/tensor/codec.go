package tensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrMalformed says that a message contradicts itself.
var ErrMalformed = errors.New("malformed message")

// Encode makes x (rows, cols) a tensor, with the memory of buf if it suffices.
func Encode(w Wire, x []float32, cols int, buf []byte) *pb.Tensor {
	t := &pb.Tensor{Rows: uint32(len(x) / cols), Cols: uint32(cols)}
	size := len(x) * w.ElementBytes()
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	t.Data = buf[:size]
	if w == BF16 {
		t.Dtype = pb.Dtype_DTYPE_BF16
		cpu.ToBF16(t.Data, x)
		return t
	}
	t.Dtype = pb.Dtype_DTYPE_F32
	for i, v := range x {
		binary.LittleEndian.PutUint32(t.Data[i*4:], math.Float32bits(v))
	}
	return t
}

// Decode fills dst, whose length must be the tensor's, with its rows of cols.
func Decode(dst []float32, t *pb.Tensor, cols int) error {
	if err := checkTensor(t, cols); err != nil {
		return err
	}
	if len(dst) != int(t.Rows)*cols {
		return fmt.Errorf("%w: %d rows of %d, %d elements expected", ErrMalformed, t.Rows, t.Cols, len(dst))
	}
	if t.Dtype == pb.Dtype_DTYPE_BF16 {
		cpu.FromBF16(dst, t.Data)
		return nil
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[i*4:]))
	}
	return nil
}

// MaxRows bounds the rows of one message, far above what fits a payload.
const MaxRows = 1 << 20

func checkTensor(t *pb.Tensor, cols int) error {
	if t == nil {
		return fmt.Errorf("%w: it has no tensor", ErrMalformed)
	}
	size := 0
	switch t.Dtype {
	case pb.Dtype_DTYPE_BF16:
		size = 2
	case pb.Dtype_DTYPE_F32:
		size = 4
	default:
		return fmt.Errorf("%w: tensor of unknown type %v", ErrMalformed, t.Dtype)
	}
	if int(t.Cols) != cols || t.Rows > MaxRows || len(t.Data) != int(t.Rows)*cols*size {
		return fmt.Errorf("%w: tensor (%d, %d) of %v with %d bytes; rows of %d expected",
			ErrMalformed, t.Rows, t.Cols, t.Dtype, len(t.Data), cols)
	}
	return nil
}

// Rows returns the number of rows of a valid tensor.
func Rows(t *pb.Tensor, cols int) (int, error) {
	if err := checkTensor(t, cols); err != nil {
		return 0, err
	}
	return int(t.Rows), nil
}
