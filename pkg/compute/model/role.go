package model

import "fmt"

// Role says what a tensor is for, whatever its family calls it.
type Role uint8

// The roles; shapes as in kernels/cpu's legend.
const (
	Embed        Role = iota // (V, D)
	FinalNorm                // (D)
	Head                     // (V, D)
	InputNorm                // (D), before attention
	PostNorm                 // (D), between attention and the feed-forward network
	Q                        // (H·C, D)
	K                        // (G·C, D)
	V                        // (G·C, D)
	O                        // (D, H·C)
	QBias                    // (H·C)
	KBias                    // (G·C)
	VBias                    // (G·C)
	Router                   // (E, D)
	DenseGate                // (dense width, D)
	DenseUp                  // (dense width, D)
	DenseDown                // (D, dense width)
	SharedGate               // (shared width, D)
	SharedUp                 // (shared width, D)
	SharedDown               // (D, shared width)
	SharedRouter             // (1, D), the shared expert's sigmoid gate
	ExpertGate               // (F, D)
	ExpertUp                 // (F, D)
	ExpertDown               // (D, F)
	roles
)

// ExpertRoles are the tensors of one expert: down(silu(gate·x) * up·x).
var ExpertRoles = [3]Role{ExpertGate, ExpertUp, ExpertDown}

var roleNames = [roles]string{
	"Embed", "FinalNorm", "Head", "InputNorm", "PostNorm", "Q", "K", "V", "O", "QBias", "KBias", "VBias",
	"Router", "DenseGate", "DenseUp", "DenseDown", "SharedGate", "SharedUp", "SharedDown", "SharedRouter",
	"ExpertGate", "ExpertUp", "ExpertDown",
}

// String is the constant's name.
func (r Role) String() string {
	if r < roles {
		return roleNames[r]
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// IsExpert reports whether each expert has a tensor of this role.
func (r Role) IsExpert() bool { return r >= ExpertGate && r < roles }

// Ref names one tensor. Layer is 0 for those outside the layers, Expert 0 for
// those outside the experts.
type Ref struct {
	Role          Role
	Layer, Expert int
}

// String reads like "ExpertGate of layer 3, expert 7".
func (r Ref) String() string {
	switch {
	case r.Role.IsExpert():
		return fmt.Sprintf("%v of layer %d, expert %d", r.Role, r.Layer, r.Expert)
	case r.Role > Head:
		return fmt.Sprintf("%v of layer %d", r.Role, r.Layer)
	}
	return r.Role.String()
}
