package plan

import (
	"github.com/switchyard/switchyard/pkg/policy/divide"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Access is what accesses take, as messages have it.
func Access(t divide.Takes) *pb.AccessTime {
	return &pb.AccessTime{ReadSeconds: t.Read, RowSeconds: t.Row, UnitSeconds: t.Unit, CallSeconds: t.Call}
}

// Takes is what a message says that accesses take.
func Takes(a *pb.AccessTime) divide.Takes {
	return divide.Takes{Read: a.GetReadSeconds(), Row: a.GetRowSeconds(), Unit: a.GetUnitSeconds(), Call: a.GetCallSeconds()}
}

// checkAccess says what is wrong with what accesses take; nothing, if nobody has said it.
func checkAccess(a *pb.AccessTime) error { return Takes(a).Check() }

func sameAccess(a, b *pb.AccessTime) bool {
	return (a == nil) == (b == nil) && Takes(a) == Takes(b)
}
