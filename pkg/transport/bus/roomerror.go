package bus

import (
	"fmt"
	"strings"
)

// RoomError says that a NATS server has no room for all that models' streams and buckets
// may take.
type RoomError struct {
	Models []string
	Memory bool // what there is too little of; else it is file storage
	// Needs is what the models take, LogBytes what of it their token logs take, and There
	// what of it is made already.
	Needs, LogBytes, There int64
	// Limit is the account's own, Held what other streams of the account take, and Free
	// what is left of the server's; -1: none, or not known.
	Limit, Held, Free int64
	// Left names streams that were made and could not be removed again.
	Left []string
	Err  error // the server's refusal
}

func (e *RoomError) Unwrap() error { return e.Err }

func (e *RoomError) Error() string {
	parts := []string{e.sum(), e.limit(), e.cure()}
	if len(e.Left) > 0 {
		parts = append(parts, "remove the streams that were made: "+strings.Join(e.Left, ", "))
	}
	return strings.Join(parts, "; ")
}

func (e *RoomError) sum() string {
	names := "model " + strings.Join(e.Models, ", ")
	if len(e.Models) > 1 {
		names = "models " + strings.Join(e.Models, ", ")
	}
	if e.Memory {
		return fmt.Sprintf("NATS has too little memory for %s: the streams of tensors take %s", names, BytesText(e.Needs))
	}
	return fmt.Sprintf("NATS has too little file storage for %s: streams and buckets take %s, of which --log-bytes are %s",
		names, BytesText(e.Needs), BytesText(e.LogBytes))
}

// limit says what there is, as far as it is known.
func (e *RoomError) limit() string {
	held := "other streams of this account take " + BytesText(max(0, e.Held))
	switch {
	case e.Limit >= 0:
		return fmt.Sprintf("the account may have %s, and %s", BytesText(e.Limit), held)
	case e.Free >= 0:
		return fmt.Sprintf("the server has %s left of its %s, %s", BytesText(e.Free), e.setting(), held)
	}
	return "what servers have is not known here, " + held
}

func (e *RoomError) setting() string {
	if e.Memory {
		return "max_memory_store"
	}
	return "max_file_store"
}

// cure says what to set to how much. What other accounts take is not known here.
func (e *RoomError) cure() string {
	other := "lower --log-bytes of all services"
	if e.Memory {
		other = "give all services --hops core, which takes none"
	}
	if e.Limit >= 0 {
		return fmt.Sprintf("raise the account's limit to %s, or %s", BytesText(e.Needs+max(0, e.Held)), other)
	}
	if e.Free >= 0 {
		return fmt.Sprintf("raise %s by %s, or %s", e.setting(), BytesText(e.Needs-e.There-e.Free), other)
	}
	return fmt.Sprintf("raise %s of each server to %s or more, or %s", e.setting(), BytesText(e.Needs+max(0, e.Held)), other)
}

// BytesText is a count of bytes as flags and the server's settings take it, and never less
// than it is: who sets a limit to it has set enough.
func BytesText(n int64) string {
	const mib, gib = 1 << 20, 1 << 30
	if n%gib == 0 && n > 0 {
		return fmt.Sprintf("%dGiB", n/gib)
	}
	return fmt.Sprintf("%dMiB", (n+mib-1)/mib)
}
