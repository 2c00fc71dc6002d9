package schemas

import "fmt"

// Kind is what must be equal of replicas that work together: else their
// answers would differ in bits, or in everything.
type Kind struct {
	ModelHash    uint64
	NumericClass string
	Wire         string
}

// Kinded is a message that says its writer's kind.
type Kinded interface {
	GetModelHash() uint64
	GetNumericClass() string
	GetWire() string
}

// KindOf reads it.
func KindOf(m Kinded) Kind { return Kind{m.GetModelHash(), m.GetNumericClass(), m.GetWire()} }

func (k Kind) String() string {
	return fmt.Sprintf("model %016x, kernels %.64s, wire %.64s", k.ModelHash, k.NumericClass, k.Wire)
}
