package schemas

import (
	"cmp"
	"fmt"
)

// Kind is what must be equal of replicas that work together: else they would not
// understand each other, or not reach each other, or their answers would differ in bits,
// or in everything.
type Kind struct {
	// Version is of the messages; 0 is unsaid.
	Version      uint32
	ModelHash    uint64
	NumericClass string
	Wire         string
	// Hops are empty where they are unsaid.
	Hops Hops
}

// unsaid is the version of those who do not say theirs: records have it since then.
const unsaid = 2

// Kinded is a message that says its writer's kind.
type Kinded interface {
	GetSchemaVersion() uint32
	GetModelHash() uint64
	GetNumericClass() string
	GetWire() string
	GetHops() string
}

// KindOf reads it.
func KindOf(m Kinded) Kind {
	return Kind{said(m.GetSchemaVersion()), m.GetModelHash(), m.GetNumericClass(), m.GetWire(), Hops(m.GetHops())}
}

// NewKind returns a kind of this version.
func NewKind(modelHash uint64, class, wire string, hops Hops) Kind {
	return Kind{said(Version), modelHash, class, wire, hops}
}

// Joins reports whether replicas of both kinds work together. Who does not say its hops, as
// before any did, has those of the other.
func (k Kind) Joins(other Kind) bool {
	if k.Hops == "" || other.Hops == "" {
		k.Hops, other.Hops = "", ""
	}
	return k == other
}

func said(version uint32) uint32 {
	if version == unsaid {
		return 0
	}
	return version
}

// Made reports whether replicas of this kind make messages of such an identity.
func (k Kind) Made(version uint32, modelHash uint64) bool {
	return k.Version == said(version) && k.ModelHash == modelHash
}

// String has all parts that are said; what others wrote is cut off after 64 characters.
func (k Kind) String() string {
	if k == (Kind{}) {
		return fmt.Sprintf("an earlier version than schema version %d, which says nothing of its kind", unsaid)
	}
	s := fmt.Sprintf("schema version %d, model %016x, kernels %.64s, wire %.64s", cmp.Or(k.Version, unsaid), k.ModelHash, k.NumericClass, k.Wire)
	if k.Hops != "" {
		s += fmt.Sprintf(", hops %.64s", k.Hops)
	}
	return s
}
