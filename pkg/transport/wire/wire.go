// Package wire checks that a message
// belongs to this deployment before anything in it is believed.
package wire

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrMalformed says that a message, or the tensor in it, contradicts itself.
var ErrMalformed = tensor.ErrMalformed

// IdentityError says that a message was made for another version or model.
type IdentityError struct {
	GotVersion, WantVersion uint32
	GotModel, WantModel     uint64
}

func (e *IdentityError) Error() string {
	if e.GotVersion != e.WantVersion {
		return fmt.Sprintf("it is of schema version %d, and version %d is spoken here: run one version of switchyard everywhere",
			e.GotVersion, e.WantVersion)
	}
	return fmt.Sprintf("it is for model %016x, and model %016x is served here: give all services the same --model",
		e.GotModel, e.WantModel)
}

// Identity is what messages of this deployment carry.
type Identity struct {
	Model uint64
}

// Check refuses what was made for another version or model.
func (id Identity) Check(version uint32, model uint64) error {
	if version == schemas.Version && model == id.Model {
		return nil
	}
	return &IdentityError{version, schemas.Version, model, id.Model}
}

// CheckKey refuses the key of another version or model and one that is incomplete.
func (id Identity) CheckKey(k *pb.Key) error {
	if err := id.CheckBlockKey(k); err != nil {
		return err
	}
	// Both become part of a subject.
	if !schemas.IsReplicaID(k.Owner) || k.Aggregator != "" && !schemas.IsReplicaID(k.Aggregator) {
		return fmt.Errorf("%w: key of owner %.64q and aggregator %.64q, which are not replicas' ids", ErrMalformed, k.Owner, k.Aggregator)
	}
	return nil
}

// CheckBlockKey is CheckKey for blocks, whose keys name nobody.
func (id Identity) CheckBlockKey(k *pb.Key) error {
	if k == nil {
		return fmt.Errorf("%w: it has no key", ErrMalformed)
	}
	if err := id.Check(k.Version, k.Model); err != nil {
		return err
	}
	if k.Rows == 0 || k.Rows > tensor.MaxRows {
		return fmt.Errorf("%w: key of %d rows", ErrMalformed, k.Rows)
	}
	return nil
}

// Headroom is the bytes of a message that are kept for what it carries beside
// its rows: key and headers.
const Headroom = 4096

// RowsPerMessage is how many rows of so many bytes, routing included, fit a
// message of payload bytes; at least one.
func RowsPerMessage(payload, rowBytes int) int { return max(1, (payload-Headroom)/rowBytes) }
