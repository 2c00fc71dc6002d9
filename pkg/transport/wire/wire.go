// Package wire turns rows into messages and back, and checks that a message
// belongs to this deployment before anything in it is believed.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrMalformed says that a message contradicts itself.
var ErrMalformed = errors.New("malformed message")

// StrangerError says that a message was made for another version or model.
type StrangerError struct {
	GotVersion, WantVersion uint32
	GotModel, WantModel     uint64
}

func (e *StrangerError) Error() string {
	if e.GotVersion != e.WantVersion {
		return fmt.Sprintf("message of schema version %d; this service speaks %d: run one version of switchyard everywhere",
			e.GotVersion, e.WantVersion)
	}
	return fmt.Sprintf("message for model %016x; this service has %016x: give all services the same --model",
		e.GotModel, e.WantModel)
}

// Identity is what messages of this deployment carry.
type Identity struct {
	Model uint64
}

// Check refuses strangers.
func (id Identity) Check(version uint32, model uint64) error {
	if version == schemas.Version && model == id.Model {
		return nil
	}
	return &StrangerError{version, schemas.Version, model, id.Model}
}

// CheckKey refuses a stranger's key and one that is incomplete.
func (id Identity) CheckKey(k *pb.Key) error {
	if k == nil {
		return fmt.Errorf("%w: it has no key", ErrMalformed)
	}
	if err := id.Check(k.Version, k.Model); err != nil {
		return err
	}
	// Both become part of a subject.
	if !schemas.IsReplicaID(k.Owner) || k.Shard != "" && !schemas.IsReplicaID(k.Shard) {
		return fmt.Errorf("%w: key of owner %.64q and shard %.64q, which are not replicas' ids", ErrMalformed, k.Owner, k.Shard)
	}
	if k.Rows == 0 || k.Rows > MaxRows {
		return fmt.Errorf("%w: key of %d rows", ErrMalformed, k.Rows)
	}
	return nil
}

// Encode makes x (rows, cols) a tensor, with the memory of buf if it suffices.
func Encode(w forward.Wire, x []float32, cols int, buf []byte) *pb.Tensor {
	t := &pb.Tensor{Rows: uint32(len(x) / cols), Cols: uint32(cols)}
	size := len(x) * w.ElementBytes()
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	t.Data = buf[:size]
	if w == forward.WireBF16 {
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

// Headroom is the bytes of a message that are kept for what it carries beside
// its rows: key and headers.
const Headroom = 4096

// RowsPerMessage is how many rows of so many bytes, routing included, fit a
// message of payload bytes; at least one.
func RowsPerMessage(payload, rowBytes int) int { return max(1, (payload-Headroom)/rowBytes) }

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

// Rows is the number of rows of a valid tensor.
func Rows(t *pb.Tensor, cols int) (int, error) {
	if err := checkTensor(t, cols); err != nil {
		return 0, err
	}
	return int(t.Rows), nil
}
