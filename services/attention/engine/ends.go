package engine

import (
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/request/edge"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// internal is an error of ours, as producers see it.
const internal = string(edge.Internal)

// ErrorEnd ends a log by an error.
func ErrorEnd(code, message string) *pb.Terminal {
	return &pb.Terminal{FinishReason: "error", Error: &pb.Error{Code: code, Message: message}}
}

// roomPause is how long a producer should wait whose request found the log full.
const roomPause = 2 * time.Second

// noRoom is the end of a sequence whose log is full.
func noRoom(why error) *pb.Terminal {
	end := ErrorEnd("overloaded", fmt.Sprintf("the rest of the answer could not be written: %v", why))
	end.Error.RetryAfter = roomPause.Seconds()
	return end
}
