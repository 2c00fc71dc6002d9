package schemas

import (
	"cmp"
	"fmt"
)

// Kind is what must be equal of replicas that work together: else they would not
// understand each other, or their answers would differ in bits, or in everything.
type Kind struct {
	// Version is of the messages; 0 is unsaid.
	Version      uint32
	ModelHash    uint64
	NumericClass string
	Wire         string
}

// unsaid is the version of those who do not say theirs: records have it since then.
const unsaid = 2

// Kinded is a message that says its writer's kind.
type Kinded interface {
	GetSchemaVersion() uint32
	GetModelHash() uint64
	GetNumericClass() string
	GetWire() string
}

// KindOf reads it.
func KindOf(m Kinded) Kind {
	return Kind{said(m.GetSchemaVersion()), m.GetModelHash(), m.GetNumericClass(), m.GetWire()}
}

// NewKind is a kind of this version.
func NewKind(modelHash uint64, class, wire string) Kind {
	return Kind{said(Version), modelHash, class, wire}
}

// said is a version as a Kind has it.
func said(version uint32) uint32 {
	if version == unsaid {
		return 0
	}
	return version
}

// Made says whether replicas of this kind make messages of such an identity.
func (k Kind) Made(version uint32, modelHash uint64) bool {
	return k.Version == said(version) && k.ModelHash == modelHash
}

// String has all four parts; what others wrote is cut off after 64 characters.
func (k Kind) String() string {
	return fmt.Sprintf("schema version %d, model %016x, kernels %.64s, wire %.64s", cmp.Or(k.Version, unsaid), k.ModelHash, k.NumericClass, k.Wire)
}
